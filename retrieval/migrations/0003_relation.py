"""The relation for sources and documents, and the two branches of the search, as SQL functions.

Each function pins its plan with SET, so that neither a cached plan nor a session setting changes it; the relation
is inside every one of them, so a wrong estimate costs time and never safety.
"""

from django.db import migrations

# ROWS everywhere and enable_material below: with the planner's own guess of 1,000 rows a function it would
# read a whole organisation, or all passages, and join afterwards.
# Clauses of the relation, each named for the test that removes it.
SOURCES = """
CREATE FUNCTION retrieval_visible_sources(
    p_organization uuid, p_user bigint, p_source_permissions integer[], p_project_permissions integer[],
    p_only bigint[]
) RETURNS TABLE (key bigint, passage_count integer)
LANGUAGE sql STABLE ROWS 20 SECURITY INVOKER SET search_path = public AS $$
    WITH principals AS MATERIALIZED (SELECT accounts_principals(p_organization, p_user) AS id),
    projects AS MATERIALIZED (
        SELECT g.content_object_id AS key FROM accounts_projectusergrant g
        WHERE g.organization_id = p_organization AND g.user_id = p_user
          AND g.permission_id = ANY (p_project_permissions)
          AND (g.expires_at IS NULL OR g.expires_at > now())
        UNION
        SELECT g.content_object_id FROM accounts_projectteamgrant g JOIN principals ON g.group_id = principals.id
        WHERE g.organization_id = p_organization AND g.permission_id = ANY (p_project_permissions)
          AND (g.expires_at IS NULL OR g.expires_at > now())
    ),
    granted AS MATERIALIZED (
        SELECT g.content_object_id AS key FROM retrieval_sourceusergrant g
        WHERE g.organization_id = p_organization AND g.user_id = p_user
          AND g.permission_id = ANY (p_source_permissions)
          AND (g.expires_at IS NULL OR g.expires_at > now())
        UNION
        SELECT g.content_object_id FROM retrieval_sourceteamgrant g JOIN principals ON g.group_id = principals.id
        WHERE g.organization_id = p_organization AND g.permission_id = ANY (p_source_permissions)
          AND (g.expires_at IS NULL OR g.expires_at > now())
        UNION
        SELECT s.key FROM retrieval_source s
        JOIN accounts_project p ON p.id = s.project_id AND p.archived_at IS NULL
        WHERE s.organization_id = p_organization AND p.key IN (SELECT projects.key FROM projects)
    )
    SELECT s.key, s.passage_count FROM retrieval_source s JOIN granted ON granted.key = s.key
    WHERE s.organization_id = p_organization AND s.archived_at IS NULL AND s.acl_unknown_since IS NULL
      AND (p_only IS NULL OR s.key = ANY (p_only))
      AND EXISTS (SELECT 1 FROM principals)
$$
"""
DOCUMENTS = """
CREATE FUNCTION retrieval_granted_documents(
    p_organization uuid, p_user bigint, p_document_permissions integer[], p_only bigint[]
) RETURNS TABLE (key bigint)
LANGUAGE sql STABLE ROWS 20 SECURITY INVOKER SET search_path = public AS $$
    WITH principals AS MATERIALIZED (SELECT accounts_principals(p_organization, p_user) AS id),
    granted AS MATERIALIZED (
        SELECT g.content_object_id AS key FROM retrieval_documentusergrant g
        WHERE g.organization_id = p_organization AND g.user_id = p_user
          AND g.permission_id = ANY (p_document_permissions)
          AND (g.expires_at IS NULL OR g.expires_at > now())
        UNION
        SELECT g.content_object_id FROM retrieval_documentteamgrant g JOIN principals ON g.group_id = principals.id
        WHERE g.organization_id = p_organization AND g.permission_id = ANY (p_document_permissions)
          AND (g.expires_at IS NULL OR g.expires_at > now())
    )
    SELECT d.key FROM retrieval_document d
    JOIN granted ON granted.key = d.key
    JOIN retrieval_source s ON s.id = d.source_id AND s.archived_at IS NULL AND s.acl_unknown_since IS NULL
    WHERE d.organization_id = p_organization AND d.deleted_at IS NULL AND d.acl_state IN ('inherit', 'restricted')
      AND (p_only IS NULL OR s.key = ANY (p_only))
      AND EXISTS (SELECT 1 FROM principals)
$$
"""
_WHO = (
    "p_organization uuid, p_organization_key bigint, p_user bigint, p_source_permissions integer[], "
    "p_project_permissions integer[], p_document_permissions integer[], p_only bigint[]"
)
_SETS = """
    sources AS MATERIALIZED (
        SELECT s.key FROM retrieval_visible_sources(
            p_organization, p_user, p_source_permissions, p_project_permissions, p_only) s),
    documents AS MATERIALIZED (
        SELECT d.key FROM retrieval_granted_documents(p_organization, p_user, p_document_permissions, p_only) d)
"""
EXACT = f"""
CREATE FUNCTION retrieval_vector_exact({_WHO}, p_space bigint, p_query halfvec, p_limit integer)
RETURNS TABLE (chunk_key bigint, distance double precision)
LANGUAGE plpgsql STABLE ROWS 60 SECURITY INVOKER
SET search_path = public SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off
SET enable_material = off
AS $$
#variable_conflict use_column
BEGIN RETURN QUERY
    WITH {_SETS}
    SELECT f.chunk_key, f.distance FROM (
        SELECT v.chunk_key, (v.embedding <#> p_query) AS distance
        FROM sources JOIN retrieval_vector v ON v.source_key = sources.key
        WHERE v.organization_key = p_organization_key AND v.space_key = p_space AND v.inherits
        UNION ALL
        SELECT v.chunk_key, (v.embedding <#> p_query)
        FROM documents JOIN retrieval_vector v ON v.document_key = documents.key
        WHERE v.organization_key = p_organization_key AND v.space_key = p_space
          AND NOT (v.inherits AND v.source_key IN (SELECT sources.key FROM sources))
    ) f ORDER BY f.distance, f.chunk_key LIMIT p_limit;
END $$
"""
NEAREST = f"""
CREATE FUNCTION retrieval_vector_nearest({_WHO}, p_space bigint, p_query halfvec, p_limit integer)
RETURNS TABLE (chunk_key bigint, distance double precision)
LANGUAGE plpgsql STABLE ROWS 60 SECURITY INVOKER
SET search_path = public SET hnsw.iterative_scan = 'relaxed_order' SET hnsw.ef_search = 200
SET hnsw.max_scan_tuples = 100000 SET enable_seqscan = off SET enable_sort = off SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
BEGIN RETURN QUERY
    WITH {_SETS},
    near AS MATERIALIZED (
        SELECT v.chunk_key, v.embedding <#> p_query AS distance FROM retrieval_vector v
        WHERE v.organization_key = p_organization_key AND v.space_key = p_space
          AND ((v.inherits AND v.source_key IN (SELECT sources.key FROM sources))
               OR v.document_key IN (SELECT documents.key FROM documents))
        ORDER BY v.embedding <#> p_query LIMIT greatest(40, p_limit)
    )
    SELECT near.chunk_key, near.distance FROM near ORDER BY near.distance + 0, near.chunk_key LIMIT p_limit;
END $$
"""
# The approximate plan needs the organisation's own partition with its HNSW index; elsewhere exact is the plan.
ROUTER = f"""
CREATE FUNCTION retrieval_vector_search({_WHO}, p_space bigint, p_query halfvec, p_limit integer, p_exact bigint)
RETURNS TABLE (chunk_key bigint, distance double precision, plan text)
LANGUAGE plpgsql STABLE ROWS 60 SECURITY INVOKER SET search_path = public
AS $$
#variable_conflict use_column
DECLARE estimate bigint := 0;
BEGIN
    IF to_regclass('retrieval_vector_' || p_organization_key) IS NOT NULL THEN
        SELECT coalesce(sum(s.passage_count), 0) INTO estimate FROM retrieval_visible_sources(
            p_organization, p_user, p_source_permissions, p_project_permissions, p_only) s;
    END IF;
    IF estimate <= p_exact THEN
        RETURN QUERY SELECT e.chunk_key, e.distance, 'exact' FROM retrieval_vector_exact(
            p_organization, p_organization_key, p_user, p_source_permissions, p_project_permissions,
            p_document_permissions, p_only, p_space, p_query, p_limit) e;
    ELSE
        RETURN QUERY SELECT n.chunk_key, n.distance, 'nearest' FROM retrieval_vector_nearest(
            p_organization, p_organization_key, p_user, p_source_permissions, p_project_permissions,
            p_document_permissions, p_only, p_space, p_query, p_limit) n;
    END IF;
END $$
"""
# One definition of what a word is, for stored text and for queries: both sides come through here. Marks inside
# words part them, since the parser would read "INV-4471" as a negative number and "and/or" as a file. A query is
# any of its words (at most 64), NULL when it has none.
WORDS = """
CREATE FUNCTION retrieval_words(p_text text) RETURNS tsvector
LANGUAGE sql STABLE SECURITY INVOKER SET search_path = public AS $$
    SELECT to_tsvector('english', unaccent(translate(p_text, '-_/\\@:&', '       ')))
$$;
CREATE FUNCTION retrieval_lexemes(p_title text, p_headings text, p_text text) RETURNS tsvector
LANGUAGE sql STABLE SECURITY INVOKER SET search_path = public AS $$
    SELECT setweight(retrieval_words(p_title), 'A') || setweight(retrieval_words(p_headings), 'B')
        || setweight(retrieval_words(p_text), 'D')
$$;
CREATE FUNCTION retrieval_query(p_text text) RETURNS tsquery
LANGUAGE sql STABLE SECURITY INVOKER SET search_path = public AS $$
    SELECT string_agg(quote_literal(w.lexeme), ' | ')::tsquery
    FROM (SELECT u.lexeme FROM unnest(retrieval_words(p_text)) u ORDER BY u.positions[1], u.lexeme LIMIT 64) w
$$
"""
LEXICAL = f"""
CREATE FUNCTION retrieval_lexical_search({_WHO}, p_query tsquery, p_limit integer)
RETURNS TABLE (chunk_key bigint, score double precision)
LANGUAGE plpgsql STABLE ROWS 60 SECURITY INVOKER SET search_path = public SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN RETURN QUERY
    WITH {_SETS}
    SELECT l.chunk_key, ts_rank('{{0.3, 0.3, 0.4, 0.5}}', l.lexemes, p_query, 1)::double precision AS score
    FROM retrieval_lexeme l
    WHERE l.organization_key = p_organization_key AND l.lexemes @@ p_query
      AND ((l.inherits AND l.source_key IN (SELECT sources.key FROM sources))
           OR l.document_key IN (SELECT documents.key FROM documents))
    ORDER BY 2 DESC, 1 LIMIT p_limit;
END $$
"""
# Run by the owner when an organisation has grown past 8,000 passages.
SPLIT = """
CREATE FUNCTION retrieval_split_organization(p_organization_key bigint) RETURNS void
LANGUAGE plpgsql SECURITY INVOKER SET search_path = public SET maintenance_work_mem = '1GB' AS $$
DECLARE own text := 'retrieval_vector_' || p_organization_key;
BEGIN
    EXECUTE format('CREATE TABLE %I (LIKE retrieval_vector INCLUDING ALL)', own);
    EXECUTE format('WITH moved AS (DELETE FROM retrieval_vector_rest WHERE organization_key = %s RETURNING *) '
                   'INSERT INTO %I SELECT * FROM moved', p_organization_key, own);
    EXECUTE format('ALTER TABLE retrieval_vector ATTACH PARTITION %I FOR VALUES IN (%s)', own, p_organization_key);
    EXECUTE format('CREATE INDEX ON %I USING hnsw (embedding halfvec_ip_ops) WITH (m = 24, ef_construction = 128)',
                   own);
    EXECUTE format('ANALYZE %I', own);
END $$;
REVOKE ALL ON FUNCTION retrieval_split_organization(bigint) FROM PUBLIC
"""
_WHO_TYPES = "uuid, bigint, bigint, integer[], integer[], integer[], bigint[]"


class Migration(migrations.Migration):
    dependencies = [("retrieval", "0002_index")]
    operations = [
        # Functions with SET hnsw.* need pgvector loaded in this session.
        migrations.RunSQL("SELECT '[1]'::vector", migrations.RunSQL.noop),
        migrations.RunSQL(
            SOURCES,
            "DROP FUNCTION retrieval_visible_sources(uuid, bigint, integer[], integer[], bigint[])",
        ),
        migrations.RunSQL(
            DOCUMENTS,
            "DROP FUNCTION retrieval_granted_documents(uuid, bigint, integer[], bigint[])",
        ),
        migrations.RunSQL(
            EXACT, f"DROP FUNCTION retrieval_vector_exact({_WHO_TYPES}, bigint, halfvec, integer)"
        ),
        migrations.RunSQL(
            NEAREST,
            f"DROP FUNCTION retrieval_vector_nearest({_WHO_TYPES}, bigint, halfvec, integer)",
        ),
        migrations.RunSQL(
            ROUTER,
            f"DROP FUNCTION retrieval_vector_search({_WHO_TYPES}, bigint, halfvec, integer, bigint)",
        ),
        migrations.RunSQL(
            WORDS,
            "DROP FUNCTION retrieval_query(text); DROP FUNCTION retrieval_lexemes(text, text, text); "
            "DROP FUNCTION retrieval_words(text)",
        ),
        migrations.RunSQL(
            LEXICAL, f"DROP FUNCTION retrieval_lexical_search({_WHO_TYPES}, tsquery, integer)"
        ),
        migrations.RunSQL(SPLIT, "DROP FUNCTION retrieval_split_organization(bigint)"),
    ]
