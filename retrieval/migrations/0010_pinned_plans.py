"""Search by meaning as one function that asks the relation once; plans pinned where the planner chose badly.

Measured at 100,000 passages (docs/performance.md): the router, the exact plan and the graph each asked who may see
what; granted documents were hash-joined to every document of the organisation; planning the eight statements of
search by words took longer than running them.
"""

from importlib import import_module

from django.db import migrations

_relation = import_module("retrieval.migrations.0003_relation")
_WHO_TYPES = _relation._WHO_TYPES
_DOCUMENTS = "retrieval_granted_documents(uuid, bigint, integer[], bigint[])"
_WORDS = f"retrieval_lexical_search({_WHO_TYPES}, text[], text[], tsquery, integer)"
_MUST = "(p_must IS NULL OR retrieval_fits(p_organization_key, v.chunk_key, p_must))"
# The approximate plan needs the organisation's own partition with its HNSW index; elsewhere exact is the plan.
# The settings are for both plans: neither joins but by looking up. Where distances are sorted the order is written
# "+ 0", so that no index can claim to bring it: with sorting switched off the planner would read the whole graph.
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
            ORDER BY v.embedding <#> p_query LIMIT greatest(40, p_limit)
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
_OLD = (
    f"DROP FUNCTION retrieval_vector_search({_WHO_TYPES}, tsquery, bigint, halfvec, integer, bigint)",
    f"DROP FUNCTION retrieval_vector_nearest({_WHO_TYPES}, tsquery, bigint, halfvec, integer)",
    f"DROP FUNCTION retrieval_vector_exact({_WHO_TYPES}, tsquery, bigint, halfvec, integer)",
)


class Migration(migrations.Migration):
    dependencies = [("retrieval", "0009_lexical"), ("accounts", "0003_few_principals")]
    operations = [
        migrations.RunSQL(
            f"ALTER FUNCTION {_DOCUMENTS} SET enable_hashjoin = off; "
            f"ALTER FUNCTION {_DOCUMENTS} SET enable_mergejoin = off",
            f"ALTER FUNCTION {_DOCUMENTS} RESET enable_hashjoin; "
            f"ALTER FUNCTION {_DOCUMENTS} RESET enable_mergejoin",
        ),
        migrations.RunSQL(
            f"ALTER FUNCTION {_WORDS} SET plan_cache_mode = force_generic_plan",
            f"ALTER FUNCTION {_WORDS} RESET plan_cache_mode",
        ),
        # Functions with SET hnsw.* need pgvector loaded in this session.
        migrations.RunSQL("SELECT '[1]'::vector", "SELECT '[1]'::vector"),
        migrations.RunSQL(
            "; ".join(_OLD),
            f"{_relation.EXACT}; {_relation.NEAREST}; {_relation.ROUTER}",
        ),
        migrations.RunSQL(SEARCH, _OLD[0]),
    ]
