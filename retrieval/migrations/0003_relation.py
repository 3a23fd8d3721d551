"""The relation for sources and documents, and search by meaning within it, as SQL functions.

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
) RETURNS TABLE (key bigint, source_key bigint, inherits boolean, passage_count integer)
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
    SELECT d.key, s.key, d.acl_state = 'inherit', d.passage_count FROM retrieval_document d
    JOIN granted ON granted.key = d.key
    JOIN retrieval_source s ON s.id = d.source_id AND s.archived_at IS NULL AND s.acl_unknown_since IS NULL
    WHERE d.organization_id = p_organization AND d.deleted_at IS NULL AND d.acl_state IN ('inherit', 'restricted')
      AND (p_only IS NULL OR s.key = ANY (p_only))
      AND EXISTS (SELECT 1 FROM principals)
$$
"""
_WHO = (
    "p_organization uuid, p_organization_key bigint, p_user bigint, p_source_permissions integer[], "
    "p_project_permissions integer[], p_document_permissions integer[], p_only bigint[], p_filter jsonb"
)
_ASK_SOURCES = "retrieval_visible_sources(p_organization, p_user, p_source_permissions, p_project_permissions, p_only)"
_ASK_DOCUMENTS = (
    "retrieval_granted_documents(p_organization, p_user, p_document_permissions, p_only)"
)
_ASK_MATCHING = (
    "retrieval_matching_documents(p_organization, p_organization_key, p_user, p_source_permissions, "
    "p_project_permissions, p_document_permissions, p_only, p_filter)"
)
# What may be seen and fits the filter. Each branch asks for itself, so that none can be given too much.
MATCHING = f"""
CREATE FUNCTION retrieval_matching_documents({_WHO})
RETURNS TABLE (key bigint, source_key bigint, inherits boolean, passage_count integer)
LANGUAGE sql STABLE ROWS 500 SECURITY INVOKER SET search_path = public AS $$
    WITH sources AS MATERIALIZED (SELECT s.key FROM {_ASK_SOURCES} s),
    documents AS MATERIALIZED (SELECT d.key FROM {_ASK_DOCUMENTS} d)
    SELECT d.key, s.key, d.acl_state = 'inherit', d.passage_count
    FROM retrieval_document d JOIN retrieval_source s ON s.id = d.source_id
    WHERE d.organization_id = p_organization AND d.deleted_at IS NULL
      AND ((d.acl_state = 'inherit' AND s.key IN (SELECT sources.key FROM sources))
           OR d.key IN (SELECT documents.key FROM documents))
      AND (NOT p_filter ? 'types' OR p_filter->'types' ? d.media_type)
      AND (NOT p_filter ? 'authors' OR p_filter->'authors' ? d.author)
      AND (NOT p_filter ? 'tags'
           OR d.tags && ARRAY(SELECT jsonb_array_elements_text(p_filter->'tags'))::varchar[])
      AND (NOT p_filter ? 'after'
           OR coalesce(d.dated_at, d.updated_at) >= (p_filter->>'after')::timestamptz)
      AND (NOT p_filter ? 'before'
           OR coalesce(d.dated_at, d.updated_at) < (p_filter->>'before')::timestamptz)
$$
"""
_SETS = f"""
    sources AS MATERIALIZED (SELECT s.key FROM {_ASK_SOURCES} s WHERE p_filter IS NULL),
    documents AS MATERIALIZED (
        SELECT d.key FROM {_ASK_DOCUMENTS} d WHERE p_filter IS NULL
        UNION ALL SELECT m.key FROM {_ASK_MATCHING} m WHERE p_filter IS NOT NULL)
"""
# Words that must or must not stand in a passage. A call, so that the planner can't turn it into a scan.
FITS = """
CREATE FUNCTION retrieval_fits(p_organization_key bigint, p_chunk bigint, p_must tsquery) RETURNS boolean
LANGUAGE sql STABLE COST 1000 SECURITY INVOKER SET search_path = public AS $$
    SELECT EXISTS (SELECT 1 FROM retrieval_lexeme l WHERE l.organization_key = p_organization_key
                   AND l.chunk_key = p_chunk AND l.lexemes @@ p_must)
$$
"""
_MUST = "(p_must IS NULL OR retrieval_fits(p_organization_key, v.chunk_key, p_must))"
EXACT = f"""
CREATE FUNCTION retrieval_vector_exact({_WHO}, p_must tsquery, p_space bigint, p_query halfvec, p_limit integer)
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
        WHERE v.organization_key = p_organization_key AND v.space_key = p_space AND v.inherits AND {_MUST}
        UNION ALL
        SELECT v.chunk_key, (v.embedding <#> p_query)
        FROM documents JOIN retrieval_vector v ON v.document_key = documents.key
        WHERE v.organization_key = p_organization_key AND v.space_key = p_space
          AND NOT (v.inherits AND v.source_key IN (SELECT sources.key FROM sources)) AND {_MUST}
    ) f ORDER BY f.distance, f.chunk_key LIMIT p_limit;
END $$
"""
NEAREST = f"""
CREATE FUNCTION retrieval_vector_nearest({_WHO}, p_must tsquery, p_space bigint, p_query halfvec, p_limit integer)
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
          AND {_MUST}
        ORDER BY v.embedding <#> p_query LIMIT greatest(40, p_limit)
    )
    SELECT near.chunk_key, near.distance FROM near ORDER BY near.distance + 0, near.chunk_key LIMIT p_limit;
END $$
"""
_ARGUMENTS = (
    "p_organization, p_organization_key, p_user, p_source_permissions, p_project_permissions, "
    "p_document_permissions, p_only, p_filter, p_must, p_space, p_query, p_limit"
)
# The approximate plan needs the organisation's own partition with its HNSW index; elsewhere exact is the plan.
# The first row has no passage: it tells the plan, how many passages are visible, and the time it took.
ROUTER = f"""
CREATE FUNCTION retrieval_vector_search(
    {_WHO}, p_must tsquery, p_space bigint, p_query halfvec, p_limit integer, p_exact bigint)
RETURNS TABLE (chunk_key bigint, distance double precision, trace jsonb)
LANGUAGE plpgsql STABLE ROWS 60 SECURITY INVOKER SET search_path = public
AS $$
#variable_conflict use_column
DECLARE
    visible bigint;
    plan text := 'exact';
    began timestamptz := clock_timestamp();
BEGIN
    IF p_query IS NULL OR p_space IS NULL OR p_limit <= 0 THEN RETURN; END IF;
    IF p_filter IS NULL THEN
        SELECT (SELECT coalesce(sum(s.passage_count), 0) FROM {_ASK_SOURCES} s)
            + (SELECT coalesce(sum(d.passage_count), 0) FROM {_ASK_DOCUMENTS} d) INTO visible;
    ELSE
        SELECT coalesce(sum(m.passage_count), 0) INTO visible FROM {_ASK_MATCHING} m;
    END IF;
    IF visible > p_exact AND to_regclass('retrieval_vector_' || p_organization_key || '_graph') IS NOT NULL THEN
        plan := 'nearest';
        RETURN QUERY SELECT n.chunk_key, n.distance, NULL::jsonb FROM retrieval_vector_nearest({_ARGUMENTS}) n;
    ELSE
        RETURN QUERY SELECT e.chunk_key, e.distance, NULL::jsonb FROM retrieval_vector_exact({_ARGUMENTS}) e;
    END IF;
    RETURN QUERY SELECT NULL::bigint, NULL::double precision, jsonb_build_object(
        'plan', plan, 'visible', visible, 'ms', extract(epoch FROM clock_timestamp() - began) * 1000);
END $$
"""
_WHO_TYPES = "uuid, bigint, bigint, integer[], integer[], integer[], bigint[], jsonb"


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
        migrations.RunSQL(MATCHING, f"DROP FUNCTION retrieval_matching_documents({_WHO_TYPES})"),
        migrations.RunSQL(FITS, "DROP FUNCTION retrieval_fits(bigint, bigint, tsquery)"),
        migrations.RunSQL(
            EXACT,
            f"DROP FUNCTION retrieval_vector_exact({_WHO_TYPES}, tsquery, bigint, halfvec, integer)",
        ),
        migrations.RunSQL(
            NEAREST,
            f"DROP FUNCTION retrieval_vector_nearest({_WHO_TYPES}, tsquery, bigint, halfvec, integer)",
        ),
        migrations.RunSQL(
            ROUTER,
            f"DROP FUNCTION retrieval_vector_search({_WHO_TYPES}, tsquery, bigint, halfvec, integer, bigint)",
        ),
    ]
