"""Search by meaning looks whether the nearest passages may be seen at all, before it trusts the graph with rights.

Measured at a million passages (docs/performance.md): where 99 in 100 of the nearest are forbidden, the graph that walks
on until it has enough permitted ones brought 0.92 to 0.98 of the best ten, and took longer than exact distances do. The
first batch of the graph tells such questions from the usual ones: usually it holds all that is wanted.
"""

from importlib import import_module

from django.db import migrations

_relation = import_module("retrieval.migrations.0003_relation")
_pinned = import_module("retrieval.migrations.0010_pinned_plans")
_MUST = _pinned._MUST
_MAY = f"""((v.inherits AND v.source_key IN (SELECT unnest(v_sources)))
                   OR v.document_key IN (SELECT unnest(v_documents)))
              AND {_MUST}"""
# Three plans. `exact` for few visible passages. Above that the nearest of the organisation's graph are looked at, with
# the rights in the same statement: if enough of the nearer half may be seen, they are the answer (`nearest`). If not, most
# neighbours are forbidden, and exact distances are both surer and quicker up to five times as many passages; beyond
# that the graph walks on until it has far more than is wanted (`nearest`, too), since it brings them out of order.
# The beam is as wide as it takes to hold some hundred that may be seen, twice the usual at most: where half is visible
# the best ten lie further out, and the graph is less sure of those. Where less than a fifth is visible nothing is looked
# at that exact distances can do. A graph walks no further than its settings allow: an answer that would be short is
# given by exact distances.
# The approximate plans need the organisation's own partition with its HNSW index; elsewhere exact is the plan.
# The settings are for all plans: none joins but by looking up. Where distances are sorted the order is written "+ 0",
# so that no index can claim to bring it: with sorting switched off the planner would read the whole graph.
# The last row has no passage: it tells the plan, how many passages are visible, and the time it took.
SEARCH = f"""
CREATE OR REPLACE FUNCTION retrieval_vector_search(
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
    v_rarity double precision;
    v_beam integer;
    v_near bigint;
    v_keys bigint[];
    v_distances double precision[];
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
        v_rarity := coalesce((
            SELECT c.reltuples FROM pg_class c WHERE c.oid = to_regclass('retrieval_vector_' || p_organization_key)
        ), 0) / greatest(1, v_visible);
    END IF;
    IF v_rarity IS NOT NULL AND (v_rarity < 5 OR v_visible > 5 * p_exact) THEN
        v_beam := 200 * least(2, greatest(1, v_rarity));
        PERFORM set_config('hnsw.ef_search', v_beam::text, true);
        WITH first AS MATERIALIZED (
            SELECT v.chunk_key, v.embedding <#> p_query AS distance, {_MAY} AS may
            FROM retrieval_vector v WHERE v.organization_key = p_organization_key AND v.space_key = p_space
            ORDER BY v.embedding <#> p_query LIMIT greatest(v_beam, 3 * p_limit)
        ), placed AS (SELECT *, row_number() OVER () AS place FROM first)
        SELECT array_agg(f.chunk_key), array_agg(f.distance), count(f.place <= v_beam / 2 OR NULL)
        INTO v_keys, v_distances, v_near FROM placed f WHERE f.may;
        IF v_near >= 40 AND cardinality(v_keys) >= p_limit THEN
            v_plan := 'nearest';
        ELSIF v_visible > 5 * p_exact THEN
            v_plan := 'nearest';
            WITH near AS MATERIALIZED (
                SELECT v.chunk_key, v.embedding <#> p_query AS distance FROM retrieval_vector v
                WHERE v.organization_key = p_organization_key AND v.space_key = p_space AND {_MAY}
                ORDER BY v.embedding <#> p_query LIMIT greatest(400, p_limit)
            )
            SELECT array_agg(n.chunk_key), array_agg(n.distance) INTO v_keys, v_distances FROM near n;
            IF p_must IS NULL AND coalesce(cardinality(v_keys), 0) < least(p_limit, v_visible) THEN
                v_plan := 'exact';
            END IF;
        END IF;
    END IF;
    IF v_plan = 'nearest' THEN
        RETURN QUERY SELECT f.chunk_key, f.distance, NULL::jsonb
        FROM unnest(v_keys, v_distances) AS f (chunk_key, distance)
        ORDER BY f.distance + 0, f.chunk_key LIMIT p_limit;
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


class Migration(migrations.Migration):
    dependencies = [("retrieval", "0010_pinned_plans")]
    operations = [
        # Functions with SET hnsw.* need pgvector loaded in this session, either way.
        migrations.RunSQL(
            f"{_pinned._LOADED}; {SEARCH}",
            f"{_pinned._LOADED}; {_pinned._replacing(_pinned.SEARCH)}",
        ),
    ]
