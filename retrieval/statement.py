"""The one SELECT of a search: the relation, both branches, their fusion, and what is shown of it.

Its first six columns say what was searched and how; behind them comes a hit, or nulls. Names of
parameters are ours, every value is bound.
"""

from __future__ import annotations

# Each branch brings DEPTH passages, more when they are to be counted by facet.
DEPTH = 100
FACET_DEPTH = 200
# Up to this many visible passages distances are exact, above it the organisation's graph is asked.
EXACT_UP_TO = 8_000
# More passages of one document, and copies of one, come after everything else that was found.
PER_DOCUMENT = 3
MOST_FACETS = 20

HIT_COLUMNS = (
    "chunk_id",
    "chunk_key",
    "version_id",
    "document_id",
    "source_id",
    "source_name",
    "title",
    "path",
    "url",
    "media_type",
    "author",
    "tags",
    "heading_path",
    "page",
    "text",
    "updated_at",
    "dated_at",
    "lexical_rank",
    "vector_rank",
)
RELATION = """%(organization)s, %(organization_key)s, %(user)s, %(source_permissions)s::integer[],
        %(project_permissions)s::integer[], %(document_permissions)s::integer[], asked.keys,
        %(filter)s::jsonb"""
ASKED = """
asked AS MATERIALIZED (
    SELECT CASE WHEN %(only)s::bigint[] IS NULL AND %(sources)s::uuid[] IS NULL THEN NULL
        ELSE ARRAY(SELECT s.key FROM retrieval_source s WHERE s.organization_id = %(organization)s
              AND (%(sources)s::uuid[] IS NULL OR s.id = ANY (%(sources)s::uuid[]))
              AND (%(only)s::bigint[] IS NULL OR s.key = ANY (%(only)s::bigint[]))) END AS keys,
        -- A query that was embedded just before a change of model still finds the old vectors.
        (SELECT e.key FROM retrieval_embeddingspace e WHERE e.organization_id = %(organization)s
            AND e.state IN ('active', 'retired') AND e.emptied_at IS NULL
            AND e.digest = %(space_digest)s
            ORDER BY e.state = 'active' DESC, e.key DESC LIMIT 1) AS space,
        ARRAY(SELECT t.term FROM retrieval_query_terms(%(organization_key)s, %(words)s::text[]) t
              UNION SELECT unnest(%(more_terms)s::text[])) AS terms,
        ARRAY(SELECT t.term FROM retrieval_query_terms(
            %(organization_key)s, %(phrase_words)s::text[]) t) AS required,
        retrieval_must(%(organization_key)s, %(phrases)s::text[], %(excluded)s::text[]) AS must
)"""
# Fusion adds standard scores: how many standard deviations a passage lies above the mean of all
# candidates in each branch (Renda and Straccia, "Web Metasearch: Rank vs. Score Based Rank
# Aggregation Methods", 2003; docs/decisions/0006-fusion-adds-standard-scores.md). What one branch
# didn't bring counts there as its last one; as nothing, where words brought less than they might.
# The passages that hold a phrase are ranked by meaning among themselves.
BRANCHES = f"""
by_words AS MATERIALIZED (
    SELECT l.* FROM asked, LATERAL retrieval_lexical_search({RELATION},
        asked.terms, asked.required, asked.must, %(lexical_depth)s) l
), by_meaning AS MATERIALIZED (
    SELECT v.* FROM asked, LATERAL retrieval_vector_search({RELATION},
        asked.must, asked.space, %(vector)s::halfvec, %(semantic_depth)s, %(exact_up_to)s) v
), lexical AS MATERIALIZED (
    SELECT l.chunk_key, l.score, row_number() OVER (ORDER BY l.score DESC, l.chunk_key) AS rank
    FROM by_words l WHERE l.chunk_key IS NOT NULL
), semantic AS MATERIALIZED (
    SELECT n.chunk_key, n.distance, row_number() OVER (ORDER BY n.distance, n.chunk_key) AS rank
    FROM (
        SELECT m.chunk_key, m.distance FROM by_meaning m WHERE m.chunk_key IS NOT NULL
        UNION ALL
        SELECT v.chunk_key, v.embedding <#> %(vector)s::halfvec
        FROM asked, lexical l JOIN retrieval_vector v ON v.chunk_key = l.chunk_key
        WHERE %(rank_phrases)s AND v.organization_key = %(organization_key)s
          AND v.space_key = asked.space
    ) n
), candidates AS MATERIALIZED (
    SELECT coalesce(semantic.chunk_key, lexical.chunk_key) AS chunk_key,
        semantic.rank AS vector_rank, lexical.rank AS lexical_rank, semantic.distance,
        coalesce(lexical.score, (SELECT CASE WHEN count(*) >= %(lexical_depth)s THEN min(l.score)
            ELSE 0 END FROM lexical l)) AS by_words
    FROM semantic FULL JOIN lexical ON lexical.chunk_key = semantic.chunk_key
), measured AS (
    SELECT c.chunk_key, c.vector_rank, c.lexical_rank, c.by_words,
        -coalesce(c.distance, max(c.distance) OVER ()) AS by_meaning
    FROM candidates c
), fused AS MATERIALIZED (
    SELECT m.chunk_key, m.vector_rank, m.lexical_rank,
        coalesce((m.by_words - avg(m.by_words) OVER ())
            / nullif(stddev_pop(m.by_words) OVER (), 0), 0)
        + coalesce((m.by_meaning - avg(m.by_meaning) OVER ())
            / nullif(stddev_pop(m.by_meaning) OVER (), 0), 0) AS score
    FROM measured m
)"""  # noqa: S608  only constants of this module are put in
_FACET = """'{name}', coalesce((SELECT jsonb_agg(jsonb_build_array(f.value, f.label, f.n)
        ORDER BY f.n DESC, f.label) FROM (
            SELECT {value} AS value, {label} AS label, count(*) AS n FROM pool {join}
            WHERE {value} <> '' GROUP BY 1, 2 ORDER BY 3 DESC, 2 LIMIT %(most_facets)s) f), '[]')"""


def _facet(name: str, value: str, label: str = "", join: str = "") -> str:
    return _FACET.format(name=name, value=value, label=label or value, join=join)


FACETS = ",\n        ".join(
    (
        _facet("source", "pool.source_id::text", "pool.source_name"),
        _facet("type", "pool.media_type"),
        _facet("author", "pool.author"),
        _facet("tag", "t.tag", join="CROSS JOIN LATERAL unnest(pool.tags) AS t (tag)"),
    )
)
STATEMENT = f"""
WITH {ASKED}, {BRANCHES}, dated AS MATERIALIZED (
    SELECT f.*, c.id AS chunk_id, c.version_id, d.id AS document_id, s.id AS source_id,
        s.name AS source_name, d.title, d.path, d.url, d.media_type, d.author, d.tags,
        c.heading_path, c.page, c.text, d.updated_at, d.dated_at,
        percent_rank() OVER (ORDER BY coalesce(d.dated_at, d.updated_at) DESC) AS age
    FROM fused f JOIN retrieval_chunk c ON c.key = f.chunk_key
    JOIN retrieval_document d ON d.id = c.document_id AND d.deleted_at IS NULL
    JOIN retrieval_source s ON s.id = d.source_id
), weighed AS MATERIALIZED (
    -- The newest gains a standard deviation, the oldest loses one.
    SELECT dated.*, (dated.score + CASE WHEN %(recency)s THEN 1 - 2 * dated.age ELSE 0 END)
        AS total FROM dated
), pool AS (
    SELECT DISTINCT ON (w.document_id) w.* FROM weighed w
), ranked AS (
    SELECT w.*,
        row_number() OVER (PARTITION BY w.document_id ORDER BY w.total DESC, w.chunk_key)
            > {PER_DOCUMENT}
        OR row_number() OVER (PARTITION BY md5(w.text) ORDER BY w.total DESC, w.chunk_key) > 1
            AS is_more
    FROM weighed w
), shown AS (
    SELECT r.* FROM ranked r ORDER BY r.is_more, r.total DESC, r.chunk_key LIMIT %(limit)s
)
SELECT cardinality(asked.terms) > 0, asked.space IS NOT NULL,
    (SELECT m.trace FROM by_meaning m WHERE m.chunk_key IS NULL),
    (SELECT l.trace FROM by_words l WHERE l.chunk_key IS NULL),
    EXISTS (SELECT 1 FROM fused)
        OR EXISTS (SELECT 1 FROM retrieval_visible_sources(%(organization)s, %(user)s,
            %(source_permissions)s::integer[], %(project_permissions)s::integer[], asked.keys))
        OR EXISTS (SELECT 1 FROM retrieval_granted_documents(%(organization)s, %(user)s,
            %(document_permissions)s::integer[], asked.keys)),
    CASE WHEN %(facets)s THEN jsonb_build_object(
        {FACETS}) END,
    {", ".join(f"shown.{name}" for name in HIT_COLUMNS)}
FROM asked LEFT JOIN shown ON true
ORDER BY shown.is_more, shown.total DESC, shown.chunk_key
"""  # noqa: S608  only constants of this module are put in
# Terms near the words that none of the caller's passages holds.
SIMILAR = f"""
WITH {ASKED}
SELECT w.word, array_agg(DISTINCT s.term)
FROM asked, unnest(%(words)s::text[]) AS w (word),
    LATERAL retrieval_query_terms(%(organization_key)s, ARRAY[w.word]) t,
    LATERAL retrieval_similar_terms({RELATION}, t.term, 3) s
WHERE length(w.word) >= 4 AND w.word !~ '[0-9]'
  AND NOT EXISTS (
    SELECT 1 FROM retrieval_query_terms(%(organization_key)s, ARRAY[w.word]) x
    WHERE x.term = ANY (%(found)s::text[]))
GROUP BY w.word LIMIT 4
"""  # noqa: S608  only constants of this module are put in
