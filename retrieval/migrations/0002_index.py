"""The narrow index tables, partitioned by organisation from the start, and the constraints around passages."""

from django.db import migrations

from kaizen.kernel.migrations import cascade_in_database, tenant_foreign_keys

VECTORS = """
SELECT '[1]'::vector;
CREATE TABLE retrieval_vector (
    organization_key bigint NOT NULL,
    space_key bigint NOT NULL,
    source_key bigint NOT NULL,
    document_key bigint NOT NULL,
    chunk_key bigint NOT NULL REFERENCES retrieval_chunk (key) ON DELETE CASCADE,
    inherits boolean NOT NULL,
    embedding halfvec(384) NOT NULL,
    PRIMARY KEY (organization_key, space_key, chunk_key)
) PARTITION BY LIST (organization_key);
ALTER TABLE retrieval_vector ALTER COLUMN embedding SET STORAGE PLAIN;
CREATE TABLE retrieval_vector_rest PARTITION OF retrieval_vector DEFAULT;
ALTER TABLE retrieval_vector_rest ALTER COLUMN embedding SET STORAGE PLAIN;
CREATE INDEX retrieval_vector_source ON retrieval_vector (organization_key, space_key, source_key);
CREATE INDEX retrieval_vector_document ON retrieval_vector (organization_key, space_key, document_key);
CREATE INDEX retrieval_vector_chunk ON retrieval_vector (chunk_key);
"""
# A passage is in the tail (segment NULL) until it is folded into a segment of postings. Partly written by
# triggers, since a raw DELETE of a passage must bury its postings too.
LEXEMES = """
CREATE TABLE retrieval_lexeme (
    organization_key bigint NOT NULL,
    source_key bigint NOT NULL,
    document_key bigint NOT NULL,
    chunk_key bigint NOT NULL REFERENCES retrieval_chunk (key) ON DELETE CASCADE,
    inherits boolean NOT NULL,
    words integer NOT NULL,
    segment bigint,
    lexemes tsvector NOT NULL,
    PRIMARY KEY (organization_key, chunk_key)
) PARTITION BY LIST (organization_key);
CREATE TABLE retrieval_lexeme_rest PARTITION OF retrieval_lexeme DEFAULT;
CREATE INDEX retrieval_lexeme_words ON retrieval_lexeme USING gin (organization_key, lexemes) WHERE segment IS NULL;
CREATE INDEX retrieval_lexeme_tail ON retrieval_lexeme (organization_key, source_key) WHERE segment IS NULL;
CREATE INDEX retrieval_lexeme_segment ON retrieval_lexeme (organization_key, source_key, segment)
    WHERE segment IS NOT NULL;
CREATE INDEX retrieval_lexeme_document ON retrieval_lexeme (organization_key, document_key);
CREATE INDEX retrieval_lexeme_chunk ON retrieval_lexeme (chunk_key);
"""
# postings: chunk key << 11 | impact, best first; documents: the document key of each.
POSTINGS = """
CREATE TABLE retrieval_posting (
    organization_key bigint NOT NULL,
    term text NOT NULL,
    source_key bigint NOT NULL,
    segment bigint NOT NULL,
    inherits boolean NOT NULL,
    top smallint NOT NULL,
    n smallint NOT NULL,
    postings bigint[] NOT NULL,
    documents bigint[] NOT NULL
) PARTITION BY LIST (organization_key);
ALTER TABLE retrieval_posting ALTER COLUMN postings SET STORAGE MAIN, ALTER COLUMN documents SET STORAGE MAIN;
CREATE TABLE retrieval_posting_rest PARTITION OF retrieval_posting DEFAULT;
ALTER TABLE retrieval_posting_rest ALTER COLUMN postings SET STORAGE MAIN, ALTER COLUMN documents SET STORAGE MAIN;
CREATE INDEX retrieval_posting_term ON retrieval_posting (organization_key, term, source_key) INCLUDE (inherits, top, n);
CREATE INDEX retrieval_posting_segment ON retrieval_posting (organization_key, segment);
CREATE TABLE retrieval_term (
    organization_key bigint NOT NULL,
    term text NOT NULL,
    passages integer NOT NULL,
    PRIMARY KEY (organization_key, term)
);
CREATE INDEX retrieval_term_similar ON retrieval_term USING gin (term gin_trgm_ops);
CREATE TABLE retrieval_tombstone (
    organization_key bigint NOT NULL,
    chunk_key bigint NOT NULL,
    source_key bigint NOT NULL,
    segment bigint NOT NULL,
    PRIMARY KEY (organization_key, chunk_key)
);
CREATE TABLE retrieval_lexical_state (
    organization_key bigint PRIMARY KEY,
    passages bigint NOT NULL,
    words bigint NOT NULL
);
CREATE TABLE retrieval_text_config (
    organization_key bigint NOT NULL,
    config text NOT NULL,
    PRIMARY KEY (organization_key, config)
);
CREATE FUNCTION retrieval_bury_passage() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    INSERT INTO retrieval_tombstone (organization_key, chunk_key, source_key, segment)
    VALUES (OLD.organization_key, OLD.chunk_key, OLD.source_key, OLD.segment) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER retrieval_lexeme_deleted AFTER DELETE ON retrieval_lexeme
    FOR EACH ROW WHEN (OLD.segment IS NOT NULL) EXECUTE FUNCTION retrieval_bury_passage();
CREATE TRIGGER retrieval_lexeme_taken_back AFTER UPDATE ON retrieval_lexeme
    FOR EACH ROW WHEN (OLD.segment IS NOT NULL AND NEW.segment IS NULL) EXECUTE FUNCTION retrieval_bury_passage();
"""
NO_POSTINGS = """
DROP TRIGGER retrieval_lexeme_deleted ON retrieval_lexeme;
DROP TRIGGER retrieval_lexeme_taken_back ON retrieval_lexeme;
DROP FUNCTION retrieval_bury_passage();
DROP TABLE retrieval_posting, retrieval_term, retrieval_tombstone, retrieval_lexical_state, retrieval_text_config
"""


class Migration(migrations.Migration):
    dependencies = [("retrieval", "0001_initial"), ("accounts", "0002_relation")]
    operations = [
        migrations.RunSQL(VECTORS, "DROP TABLE retrieval_vector"),
        migrations.RunSQL(LEXEMES, "DROP TABLE retrieval_lexeme"),
        migrations.RunSQL(POSTINGS, NO_POSTINGS),
        tenant_foreign_keys(
            ("retrieval_source", "project_id", "accounts_project"),
            ("retrieval_document", "source_id", "retrieval_source"),
            ("retrieval_document", "current_version_id", "retrieval_documentversion"),
            ("retrieval_documentversion", "document_id", "retrieval_document"),
            ("retrieval_documentversion", "blob_id", "retrieval_blob"),
            ("retrieval_chunk", "document_id", "retrieval_document"),
            ("retrieval_chunk", "version_id", "retrieval_documentversion"),
        ),
        cascade_in_database(
            ("retrieval_sourceusergrant", "content_object_id", "retrieval_source", "key"),
            ("retrieval_sourceteamgrant", "content_object_id", "retrieval_source", "key"),
            ("retrieval_documentusergrant", "content_object_id", "retrieval_document", "key"),
            ("retrieval_documentteamgrant", "content_object_id", "retrieval_document", "key"),
            ("retrieval_sourceusergrant", "user_id", "accounts_user", "id"),
            ("retrieval_sourceteamgrant", "group_id", "auth_group", "id"),
            ("retrieval_documentusergrant", "user_id", "accounts_user", "id"),
            ("retrieval_documentteamgrant", "group_id", "auth_group", "id"),
        ),
    ]
