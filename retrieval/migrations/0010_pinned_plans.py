"""Search by meaning as one function that asks the relation once; plans pinned where the planner chose badly.

Measured at 100,000 passages (docs/performance.md): the router, the exact plan and the graph each asked who may see
what; granted documents were hash-joined to every document of the organisation, and every grant was compared with
every team of the caller; planning the eight statements of search by words took longer than running them.
"""

from importlib import import_module

from django.db import migrations

_relation = import_module("retrieval.migrations.0003_relation")
_WHO_TYPES = _relation._WHO_TYPES
_WORDS = f"retrieval_lexical_search({_WHO_TYPES}, text[], text[], tsquery, integer)"
# Everything is looked up by its key, from the caller outwards: LIMIT ALL keeps a subquery in its place, whatever the
# planner guesses. Time grows with what the caller holds, and with nothing else.
SOURCES = """
CREATE OR REPLACE FUNCTION retrieval_visible_sources(
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
        SELECT held.content_object_id FROM principals CROSS JOIN LATERAL (
            SELECT g.content_object_id FROM accounts_projectteamgrant g WHERE g.group_id = principals.id
              AND g.organization_id = p_organization AND g.permission_id = ANY (p_project_permissions)
              AND (g.expires_at IS NULL OR g.expires_at > now()) LIMIT ALL) held
    ),
    granted AS MATERIALIZED (
        SELECT g.content_object_id AS key FROM retrieval_sourceusergrant g
        WHERE g.organization_id = p_organization AND g.user_id = p_user
          AND g.permission_id = ANY (p_source_permissions)
          AND (g.expires_at IS NULL OR g.expires_at > now())
        UNION
        SELECT held.content_object_id FROM principals CROSS JOIN LATERAL (
            SELECT g.content_object_id FROM retrieval_sourceteamgrant g WHERE g.group_id = principals.id
              AND g.organization_id = p_organization AND g.permission_id = ANY (p_source_permissions)
              AND (g.expires_at IS NULL OR g.expires_at > now()) LIMIT ALL) held
        UNION
        SELECT carried.key FROM projects CROSS JOIN LATERAL (
            SELECT s.key FROM accounts_project p JOIN retrieval_source s ON p.id = s.project_id
            WHERE p.key = projects.key AND p.archived_at IS NULL AND s.organization_id = p_organization
            LIMIT ALL) carried
    )
    SELECT open.key, open.passage_count FROM granted CROSS JOIN LATERAL (
        SELECT s.key, s.passage_count FROM retrieval_source s WHERE granted.key = s.key
          AND s.organization_id = p_organization AND s.archived_at IS NULL AND s.acl_unknown_since IS NULL
          AND (p_only IS NULL OR s.key = ANY (p_only)) LIMIT ALL) open
    WHERE EXISTS (SELECT 1 FROM principals)
$$
"""
DOCUMENTS = """
CREATE OR REPLACE FUNCTION retrieval_granted_documents(
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
        SELECT held.content_object_id FROM principals CROSS JOIN LATERAL (
            SELECT g.content_object_id FROM retrieval_documentteamgrant g WHERE g.group_id = principals.id
              AND g.organization_id = p_organization AND g.permission_id = ANY (p_document_permissions)
              AND (g.expires_at IS NULL OR g.expires_at > now()) LIMIT ALL) held
    )
    SELECT open.key, open.source_key, open.inherits, open.passage_count FROM granted CROSS JOIN LATERAL (
        SELECT d.key, s.key AS source_key, d.acl_state = 'inherit' AS inherits, d.passage_count
        FROM retrieval_document d JOIN retrieval_source s
          ON s.id = d.source_id AND s.archived_at IS NULL AND s.acl_unknown_since IS NULL
        WHERE granted.key = d.key AND d.organization_id = p_organization AND d.deleted_at IS NULL
          AND d.acl_state IN ('inherit', 'restricted') AND (p_only IS NULL OR s.key = ANY (p_only)) LIMIT ALL) open
    WHERE EXISTS (SELECT 1 FROM principals)
$$
"""
_MUST = "(p_must IS NULL OR retrieval_fits(p_organization_key, v.chunk_key, p_must))"
# The approximate plan needs the organisation's own partition with its HNSW index; elsewhere exact is the plan.
# The settings are for both plans: neither joins but by looking up. Where distances are sorted the order is written
# "+ 0", so that no index can claim to bring it: with sorting switched off the planner would read the whole graph.
# The graph is asked for more than is wanted: where most neighbours are forbidden it brings them out of order.
# The last row has no passage: it tells the plan, how many passages are visible, and the time it took.
SEARCH = f"""
CREATE FUNCTION retrieval_vector_search(
    {_relation._WHO}, p_must tsquery, p_space bigint, p_query halfvec, p_limit integer, p_exact bigint)
RETURNS TABLE (chunk_key bigint, distance double precision, trace jsonb)
LANGUAGE plpgsql STABLE ROWS 60 SECURITY INVOKER
SET search_path = public SET hnsw.iterative_scan = 'relaxed_order' SET hnsw.ef_search = 200
SET hnsw.max_scan_tuples = 100000 SET enable_seqscan = off SET enable_sort = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_sources bigint[] := '{{}}';
    v_documents bigint[];
    v_visible bigint := 0;
    v_beside bigint;
    v_plan text := 'exact';
    began timestamptz := clock_timestamp();
BEGIN
    IF p_query IS NULL OR p_space IS NULL OR p_limit <= 0 THEN RETURN; END IF;
    IF p_filter IS NULL THEN
        SELECT coalesce(array_agg(s.key), '{{}}'), coalesce(sum(s.passage_count), 0) INTO v_sources, v_visible
        FROM {_relation._ASK_SOURCES} s;
        SELECT coalesce(array_agg(d.key), '{{}}'), coalesce(sum(d.passage_count), 0) INTO v_documents, v_beside
        FROM {_relation._ASK_DOCUMENTS} d
        WHERE NOT (d.inherits AND d.source_key IN (SELECT unnest(v_sources)));
    ELSE
        SELECT coalesce(array_agg(m.key), '{{}}'), coalesce(sum(m.passage_count), 0) INTO v_documents, v_beside
        FROM {_relation._ASK_MATCHING} m;
    END IF;
    v_visible := v_visible + v_beside;
    IF v_visible > p_exact AND to_regclass('retrieval_vector_' || p_organization_key || '_graph') IS NOT NULL THEN
        v_plan := 'nearest';
        RETURN QUERY
        WITH near AS MATERIALIZED (
            SELECT v.chunk_key, v.embedding <#> p_query AS distance FROM retrieval_vector v
            WHERE v.organization_key = p_organization_key AND v.space_key = p_space
              AND ((v.inherits AND v.source_key IN (SELECT unnest(v_sources)))
                   OR v.document_key IN (SELECT unnest(v_documents)))
              AND {_MUST}
            ORDER BY v.embedding <#> p_query LIMIT greatest(120, p_limit)
        )
        SELECT near.chunk_key, near.distance, NULL::jsonb FROM near
        ORDER BY near.distance + 0, near.chunk_key LIMIT p_limit;
    ELSE
        RETURN QUERY
        SELECT f.chunk_key, f.distance, NULL::jsonb FROM (
            SELECT v.chunk_key, (v.embedding <#> p_query) AS distance
            FROM unnest(v_sources) AS s (key) JOIN retrieval_vector v ON v.source_key = s.key
            WHERE v.organization_key = p_organization_key AND v.space_key = p_space AND v.inherits AND {_MUST}
            UNION ALL
            SELECT v.chunk_key, (v.embedding <#> p_query)
            FROM unnest(v_documents) AS d (key) JOIN retrieval_vector v ON v.document_key = d.key
            WHERE v.organization_key = p_organization_key AND v.space_key = p_space AND {_MUST}
        ) f ORDER BY f.distance + 0, f.chunk_key LIMIT p_limit;
    END IF;
    RETURN QUERY SELECT NULL::bigint, NULL::double precision, jsonb_build_object(
        'plan', v_plan, 'visible', v_visible, 'ms', extract(epoch FROM clock_timestamp() - began) * 1000);
END $$
"""
_LOADED = "SELECT '[1]'::vector"
_OLD = (
    f"DROP FUNCTION retrieval_vector_search({_WHO_TYPES}, tsquery, bigint, halfvec, integer, bigint)",
    f"DROP FUNCTION retrieval_vector_nearest({_WHO_TYPES}, tsquery, bigint, halfvec, integer)",
    f"DROP FUNCTION retrieval_vector_exact({_WHO_TYPES}, tsquery, bigint, halfvec, integer)",
)


def _replacing(text: str) -> str:
    return text.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")


class Migration(migrations.Migration):
    dependencies = [("retrieval", "0009_lexical"), ("accounts", "0003_parents_one_by_one")]
    operations = [
        migrations.RunSQL(SOURCES, _replacing(_relation.SOURCES)),
        migrations.RunSQL(DOCUMENTS, _replacing(_relation.DOCUMENTS)),
        migrations.RunSQL(
            f"ALTER FUNCTION {_WORDS} SET plan_cache_mode = force_generic_plan",
            f"ALTER FUNCTION {_WORDS} RESET plan_cache_mode",
        ),
        # Functions with SET hnsw.* need pgvector loaded in this session, either way.
        migrations.RunSQL(
            "; ".join(_OLD),
            f"{_LOADED}; {_relation.EXACT}; {_relation.NEAREST}; {_relation.ROUTER}",
        ),
        migrations.RunSQL(f"{_LOADED}; {SEARCH}", _OLD[0]),
    ]
