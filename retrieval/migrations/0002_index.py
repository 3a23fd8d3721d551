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
LEXEMES = """
CREATE TABLE retrieval_lexeme (
    organization_key bigint NOT NULL,
    source_key bigint NOT NULL,
    document_key bigint NOT NULL,
    chunk_key bigint NOT NULL REFERENCES retrieval_chunk (key) ON DELETE CASCADE,
    inherits boolean NOT NULL,
    lexemes tsvector NOT NULL,
    PRIMARY KEY (organization_key, chunk_key)
) PARTITION BY LIST (organization_key);
CREATE TABLE retrieval_lexeme_rest PARTITION OF retrieval_lexeme DEFAULT;
CREATE INDEX retrieval_lexeme_words ON retrieval_lexeme USING gin (lexemes);
CREATE INDEX retrieval_lexeme_document ON retrieval_lexeme (organization_key, document_key);
CREATE INDEX retrieval_lexeme_chunk ON retrieval_lexeme (chunk_key);
"""


class Migration(migrations.Migration):
    dependencies = [("retrieval", "0001_initial"), ("accounts", "0002_relation")]
    operations = [
        migrations.RunSQL(VECTORS, "DROP TABLE retrieval_vector"),
        migrations.RunSQL(LEXEMES, "DROP TABLE retrieval_lexeme"),
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
