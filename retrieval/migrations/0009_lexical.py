"""Search by words: what a word is, BM25 over postings blocked by source, and how postings are written.

BM25 after Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), k1 1.5, b 0.75.
A term's frequency counts a title's and a heading's occurrences more than once. Its rarity is counted over the
organisation, never across; no score leaves the database. What a caller may see is decided before a row is a
candidate: a grant on a source takes its blocks whole, a grant on a document is looked for inside blocks.
"""

from importlib import import_module

from django.db import migrations

_relation = import_module("retrieval.migrations.0003_relation")

# One definition of what a word is, for stored text and for queries: both sides come through here. Marks inside
# words part them, since the parser would read "INV-4471" as a negative number and "and/or" as a file.
WORDS = """
CREATE FUNCTION retrieval_plain(p_text text) RETURNS text
LANGUAGE sql STABLE SECURITY INVOKER SET search_path = public AS $$
    SELECT unaccent(translate(p_text, '-_/\\@:&', '       '))
$$;
CREATE FUNCTION retrieval_lexemes(p_config regconfig, p_title text, p_headings text, p_text text) RETURNS tsvector
LANGUAGE sql STABLE SECURITY INVOKER SET search_path = public AS $$
    SELECT setweight(to_tsvector(p_config, retrieval_plain(p_title)), 'A')
        || setweight(to_tsvector(p_config, retrieval_plain(p_headings)), 'B')
        || setweight(to_tsvector(p_config, retrieval_plain(p_text)), 'D')
$$;
CREATE FUNCTION retrieval_word_count(p_lexemes tsvector) RETURNS integer
LANGUAGE sql IMMUTABLE SECURITY INVOKER SET search_path = public AS $$
    SELECT coalesce(sum(cardinality(u.positions)), 0)::integer FROM unnest(p_lexemes) u
$$;
CREATE FUNCTION retrieval_impact(p_positions smallint[], p_weights text[], p_words integer, p_average double precision)
RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT least(2047, round(2000 / (1 + 1.5 * (0.25 + 0.75 * p_words / p_average)
        / (cardinality(p_positions)
           + CASE WHEN 'A' = ANY (p_weights) THEN 1 ELSE 0 END
           + CASE WHEN 'B' = ANY (p_weights) THEN 1 ELSE 0 END))))::integer
$$
"""
# A query's words as the terms to look for: each word's stem in every language that the organisation's texts have.
TERMS = """
CREATE FUNCTION retrieval_query_terms(p_organization_key bigint, p_words text[]) RETURNS TABLE (word text, term text)
LANGUAGE sql STABLE ROWS 10 SECURITY INVOKER SET search_path = public AS $$
    SELECT DISTINCT w.word, u.lexeme
    FROM (SELECT config FROM retrieval_text_config c WHERE c.organization_key = p_organization_key) c,
        unnest(p_words) AS w (word), unnest(to_tsvector(c.config::regconfig, retrieval_plain(w.word))) u
$$;
CREATE FUNCTION retrieval_phrase(p_organization_key bigint, p_phrase text) RETURNS tsquery
LANGUAGE sql STABLE SECURITY INVOKER SET search_path = public AS $$
    SELECT string_agg(DISTINCT '(' || q.phrase::text || ')', ' | ')::tsquery FROM (
        SELECT phraseto_tsquery(c.config::regconfig, retrieval_plain(p_phrase)) AS phrase
        FROM retrieval_text_config c WHERE c.organization_key = p_organization_key) q
    WHERE numnode(q.phrase) > 0
$$;
CREATE FUNCTION retrieval_must(p_organization_key bigint, p_phrases text[], p_excluded text[]) RETURNS tsquery
LANGUAGE sql STABLE SECURITY INVOKER SET search_path = public AS $$
    SELECT string_agg(m.part, ' & ')::tsquery FROM (
        SELECT '(' || retrieval_phrase(p_organization_key, x)::text || ')' AS part FROM unnest(p_phrases) x
        UNION ALL
        SELECT '!(' || retrieval_phrase(p_organization_key, x)::text || ')' FROM unnest(p_excluded) x) m
$$
"""
# A function's own relation, once: whole sources, documents beside them, and the sources those lie in.
_RELATION = f"""
    IF p_filter IS NULL THEN
        v_sources := ARRAY(SELECT s.key FROM {_relation._ASK_SOURCES} s);
        SELECT coalesce(array_agg(d.key), '{{}}'), coalesce(array_agg(DISTINCT d.source_key), '{{}}')
        INTO v_documents, v_partial FROM {_relation._ASK_DOCUMENTS} d
        WHERE NOT (d.inherits AND d.source_key IN (SELECT unnest(v_sources)));
    ELSE
        SELECT coalesce(array_agg(m.key), '{{}}'), coalesce(array_agg(DISTINCT m.source_key), '{{}}')
        INTO v_documents, v_partial FROM {_relation._ASK_MATCHING} m;
    END IF;
"""
# Above 20,000 passages a term that stands in more than 2 % of them is dropped while two rarer ones remain. Whole
# sources' blocks are read best first, at most 30,000 postings of them; then the best 400 are counted in full. What
# a phrase needs is neither dropped nor capped.
# The first row has no passage: it tells what was searched for and how much was read.
SEARCH = f"""
CREATE FUNCTION retrieval_lexical_search(
    {_relation._WHO}, p_terms text[], p_required text[], p_must tsquery, p_limit integer)
RETURNS TABLE (chunk_key bigint, score double precision, trace jsonb)
LANGUAGE plpgsql STABLE ROWS 60 SECURITY INVOKER
SET search_path = public SET enable_seqscan = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    c_cap CONSTANT integer := 30000;
    began timestamptz := clock_timestamp();
    v_sources bigint[] := '{{}}';
    v_documents bigint[];
    v_partial bigint[];
    v_dead bigint[];
    v_total double precision;
    v_average double precision;
    v_terms text[];
    v_weights double precision[];
    v_dropped text[] := '{{}}';
    v_found text[];
    v_tail_chunks bigint[];
    v_tail_terms text[];
    v_tail_impacts integer[];
    v_floor double precision := 0;
    v_scanned bigint := 0;
    v_partly bigint;
    v_capped boolean := false;
BEGIN
    IF p_limit <= 0 OR coalesce(cardinality(p_terms), 0) = 0 THEN RETURN; END IF;
    {_RELATION}
    v_dead := ARRAY(SELECT t.chunk_key FROM retrieval_tombstone t WHERE t.organization_key = p_organization_key);
    SELECT t.passages, t.words::double precision / nullif(t.passages, 0) INTO v_total, v_average
    FROM retrieval_lexical_state t WHERE t.organization_key = p_organization_key;
    IF v_average IS NULL THEN
        SELECT avg(l.words) INTO v_average FROM retrieval_lexeme l WHERE l.organization_key = p_organization_key;
    END IF;
    v_average := greatest(coalesce(v_average, 1), 1);

    SELECT coalesce(array_agg(l.chunk_key), '{{}}'), coalesce(array_agg(u.lexeme), '{{}}'),
        coalesce(array_agg(retrieval_impact(u.positions, u.weights, l.words, v_average)), '{{}}')
    INTO v_tail_chunks, v_tail_terms, v_tail_impacts
    FROM retrieval_lexeme l, unnest(l.lexemes) u
    WHERE l.organization_key = p_organization_key AND l.segment IS NULL
      AND l.lexemes @@ (SELECT string_agg(quote_literal(t), ' | ')::tsquery FROM unnest(p_terms) t)
      AND ((l.inherits AND l.source_key = ANY (v_sources)) OR l.document_key = ANY (v_documents))
      AND u.lexeme = ANY (p_terms);

    WITH counted AS MATERIALIZED (
        SELECT t.term, coalesce(r.passages, 0) + coalesce(x.passages, 0) AS passages,
            t.term = ANY (p_required) AS required
        FROM unnest(p_terms) AS t (term)
        LEFT JOIN retrieval_term r ON r.organization_key = p_organization_key AND r.term = t.term
        LEFT JOIN (SELECT u, count(*) AS passages FROM unnest(v_tail_terms) u GROUP BY u) x ON x.u = t.term
    ), whole AS MATERIALIZED (
        SELECT greatest(coalesce(v_total, 0) + (
            SELECT count(*) FROM retrieval_lexeme l
            WHERE l.organization_key = p_organization_key AND l.segment IS NULL),
                        max(counted.passages)) AS total FROM counted
    ), ranked AS (
        SELECT counted.*, whole.total, count(*) FILTER (WHERE counted.passages > 0) OVER (
            ORDER BY counted.passages, counted.term ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS rarer
        FROM counted, whole
    ), kept AS (
        SELECT ranked.term, ranked.passages, ranked.total, ranked.required OR ranked.total < 20000
            OR ranked.passages <= 0.02 * ranked.total OR ranked.rarer < 2 AS keep FROM ranked
    )
    SELECT coalesce(array_agg(kept.term) FILTER (WHERE kept.keep), '{{}}'),
        coalesce(array_agg(ln(1 + (kept.total - kept.passages + 0.5) / (kept.passages + 0.5)))
                 FILTER (WHERE kept.keep), '{{}}'),
        coalesce(array_agg(kept.term) FILTER (WHERE NOT kept.keep), '{{}}')
    INTO v_terms, v_weights, v_dropped FROM kept;

    SELECT coalesce(sum(p.n), 0) INTO v_scanned
    FROM retrieval_posting p WHERE p.organization_key = p_organization_key AND p.term = ANY (v_terms)
      AND p.source_key = ANY (v_sources) AND p.inherits;
    IF v_scanned > c_cap AND coalesce(cardinality(p_required), 0) = 0 THEN
        v_capped := true;
        SELECT min(b.best), max(b.running) INTO v_floor, v_scanned FROM (
            SELECT p.top * w.weight AS best, sum(p.n) OVER (
                ORDER BY p.top * w.weight DESC, p.term, p.source_key ROWS UNBOUNDED PRECEDING) AS running
            FROM unnest(v_terms, v_weights) AS w (term, weight)
            JOIN retrieval_posting p ON p.organization_key = p_organization_key AND p.term = w.term
            WHERE p.source_key = ANY (v_sources) AND p.inherits) b
        WHERE b.running <= c_cap;
    END IF;
    SELECT coalesce(sum(p.n), 0) INTO v_partly
    FROM retrieval_posting p WHERE p.organization_key = p_organization_key AND p.term = ANY (v_terms)
      AND p.source_key = ANY (v_partial);
    -- A word counts as found where the caller may read it, and nowhere else.
    v_found := ARRAY(SELECT t FROM unnest(v_terms) t WHERE EXISTS (
        SELECT 1 FROM retrieval_posting p,
            LATERAL unnest(p.postings, p.documents) AS x (posting, document_key)
        WHERE p.organization_key = p_organization_key AND p.term = t
          AND ((p.inherits AND p.source_key = ANY (v_sources))
               OR (p.source_key = ANY (v_partial) AND x.document_key = ANY (v_documents)))
          AND (x.posting >> 11) <> ALL (v_dead)));

    RETURN QUERY
    WITH weights AS MATERIALIZED (SELECT * FROM unnest(v_terms, v_weights) AS w (term, weight)),
    entries AS (
        SELECT e.posting >> 11 AS chunk_key, (e.posting & 2047) * e.weight AS score FROM (
            SELECT unnest(p.postings) AS posting, w.weight
            FROM weights w JOIN retrieval_posting p
              ON p.organization_key = p_organization_key AND p.term = w.term
            WHERE p.source_key = ANY (v_sources) AND p.inherits AND p.top * w.weight >= v_floor) e
        UNION ALL
        SELECT x.posting >> 11, (x.posting & 2047) * w.weight
        FROM weights w JOIN retrieval_posting p
          ON p.organization_key = p_organization_key AND p.term = w.term AND p.source_key = ANY (v_partial)
        CROSS JOIN LATERAL unnest(p.postings, p.documents) AS x (posting, document_key)
        WHERE x.document_key IN (SELECT unnest(v_documents))
    ), posted AS (
        SELECT entries.chunk_key, sum(entries.score) AS score FROM entries GROUP BY entries.chunk_key
    ), living AS (
        SELECT posted.chunk_key, posted.score FROM posted
        WHERE v_dead = '{{}}' OR posted.chunk_key NOT IN (SELECT unnest(v_dead))
        UNION ALL
        SELECT t.chunk_key, sum(t.impact * w.weight)
        FROM unnest(v_tail_chunks, v_tail_terms, v_tail_impacts) AS t (chunk_key, term, impact)
        JOIN weights w ON w.term = t.term GROUP BY t.chunk_key
    ), first AS (
        SELECT living.chunk_key, living.score FROM living
        ORDER BY living.score DESC, living.chunk_key LIMIT CASE WHEN v_capped THEN 400 END
    ), full_score AS (
        SELECT first.chunk_key, CASE WHEN v_capped THEN (
            SELECT sum(retrieval_impact(u.positions, u.weights, l.words, v_average) * w.weight)
            FROM retrieval_lexeme l, unnest(l.lexemes) u JOIN weights w ON w.term = u.lexeme
            WHERE l.organization_key = p_organization_key AND l.chunk_key = first.chunk_key)
            ELSE first.score END AS score
        FROM first
    ), ordered AS (
        SELECT f.chunk_key, f.score FROM full_score f WHERE f.score IS NOT NULL
        ORDER BY f.score DESC, f.chunk_key OFFSET 0
    )
    SELECT o.chunk_key, o.score / 1000, NULL::jsonb FROM ordered o
    WHERE p_must IS NULL OR retrieval_fits(p_organization_key, o.chunk_key, p_must)
    LIMIT p_limit;

    RETURN QUERY SELECT NULL::bigint, NULL::double precision, jsonb_build_object(
        'terms', v_terms, 'dropped', v_dropped, 'capped', v_capped,
        'found', ARRAY(SELECT DISTINCT f FROM unnest(v_found || v_tail_terms) f),
        'scanned', v_scanned + v_partly + cardinality(v_tail_chunks),
        'ms', extract(epoch FROM clock_timestamp() - began) * 1000);
END $$
"""
# Terms like a word that the caller's own passages hold: spelling help knows nothing that they may not read.
SIMILAR = f"""
CREATE FUNCTION retrieval_similar_terms({_relation._WHO}, p_word text, p_limit integer)
RETURNS TABLE (term text, similarity real)
LANGUAGE plpgsql STABLE ROWS 5 SECURITY INVOKER
SET search_path = public SET enable_seqscan = off SET pg_trgm.similarity_threshold = 0.4
AS $$
#variable_conflict use_column
DECLARE
    v_sources bigint[] := '{{}}';
    v_documents bigint[];
    v_partial bigint[];
BEGIN
    {_RELATION}
    RETURN QUERY
    WITH tail AS (
        SELECT DISTINCT u.lexeme FROM retrieval_lexeme l, unnest(l.lexemes) u
        WHERE l.organization_key = p_organization_key AND l.segment IS NULL
          AND ((l.inherits AND l.source_key = ANY (v_sources)) OR l.document_key = ANY (v_documents))
          AND abs(length(u.lexeme) - length(p_word)) <= 3
    ), posted AS (
        SELECT t.term FROM (
            SELECT t.term FROM retrieval_term t
            WHERE t.organization_key = p_organization_key AND t.passages > 0 AND t.term % p_word
            ORDER BY similarity(t.term, p_word) DESC, t.term LIMIT 50) t
        WHERE EXISTS (
            SELECT 1 FROM retrieval_posting p,
                LATERAL unnest(p.postings, p.documents) AS x (posting, document_key)
            WHERE p.organization_key = p_organization_key AND p.term = t.term
              AND ((p.inherits AND p.source_key = ANY (v_sources))
                   OR (p.source_key = ANY (v_partial) AND x.document_key IN (SELECT unnest(v_documents))))
              AND NOT EXISTS (SELECT 1 FROM retrieval_tombstone d
                WHERE d.organization_key = p_organization_key AND d.chunk_key = x.posting >> 11))
    )
    SELECT f.term, f.similarity FROM (
        SELECT c.term, similarity(c.term, p_word) AS similarity
        FROM (SELECT posted.term FROM posted UNION SELECT tail.lexeme FROM tail) c (term)) f
    WHERE f.similarity >= 0.4 AND f.term <> p_word
    ORDER BY f.similarity DESC, f.term LIMIT p_limit;
END $$
"""
# Folds what is in a source's tail, with the passages of `p_segments`, into one new segment, and returns how many
# those are. A passage whose old posting is still buried waits until that segment is rewritten. Locks the rows it
# folds: whoever deletes one meanwhile waits, and then buries it.
FOLD = """
CREATE FUNCTION retrieval_fold(p_organization_key bigint, p_source_key bigint, p_segments bigint[]) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = public SET work_mem = '128MB' AS $$
#variable_conflict use_column
DECLARE
    v_segment bigint := nextval('kaizen_key_seq');
    v_average double precision;
    v_taken bigint[];
BEGIN
    SELECT avg(l.words) INTO v_average FROM (
        SELECT t.words::double precision / nullif(t.passages, 0) AS words FROM retrieval_lexical_state t
        WHERE t.organization_key = p_organization_key) l;
    IF v_average IS NULL THEN
        SELECT avg(l.words) INTO v_average FROM retrieval_lexeme l WHERE l.organization_key = p_organization_key;
    END IF;
    WITH gone AS (
        DELETE FROM retrieval_posting p WHERE p.organization_key = p_organization_key AND p.segment = ANY (p_segments)
        RETURNING p.term, p.n
    )
    UPDATE retrieval_term t SET passages = greatest(0, t.passages - g.n)
    FROM (SELECT gone.term, sum(gone.n) AS n FROM gone GROUP BY gone.term) g
    WHERE t.organization_key = p_organization_key AND t.term = g.term;
    DELETE FROM retrieval_tombstone t
    WHERE t.organization_key = p_organization_key AND t.segment = ANY (p_segments);
    WITH taken AS (
        UPDATE retrieval_lexeme l SET segment = v_segment
        WHERE l.organization_key = p_organization_key AND l.source_key = p_source_key
          AND (l.segment = ANY (p_segments) OR (l.segment IS NULL AND NOT EXISTS (
              SELECT 1 FROM retrieval_tombstone t
              WHERE t.organization_key = p_organization_key AND t.chunk_key = l.chunk_key)))
        RETURNING l.chunk_key, l.document_key, l.inherits, l.words, l.lexemes
    ), entries AS (
        SELECT u.lexeme AS term, taken.inherits, taken.chunk_key, taken.document_key,
            retrieval_impact(u.positions, u.weights, taken.words, v_average) AS impact
        FROM taken, unnest(taken.lexemes) u
    ), blocked AS (
        SELECT e.*, (row_number() OVER (PARTITION BY e.term, e.inherits ORDER BY e.impact DESC, e.chunk_key) - 1) / 256
            AS block
        FROM entries e
    ), written AS (
        INSERT INTO retrieval_posting
            (organization_key, term, source_key, segment, inherits, top, n, postings, documents)
        SELECT p_organization_key, b.term, p_source_key, v_segment, b.inherits, max(b.impact), count(*),
            array_agg((b.chunk_key << 11) | b.impact ORDER BY b.impact DESC, b.chunk_key),
            array_agg(b.document_key ORDER BY b.impact DESC, b.chunk_key)
        FROM blocked b GROUP BY b.term, b.inherits, b.block
        RETURNING term, n
    ), counted AS (
        INSERT INTO retrieval_term (organization_key, term, passages)
        SELECT p_organization_key, w.term, sum(w.n) FROM written w GROUP BY w.term ORDER BY w.term
        ON CONFLICT (organization_key, term) DO UPDATE SET passages = retrieval_term.passages + excluded.passages
    )
    SELECT coalesce(array_agg(taken.chunk_key), '{}') INTO v_taken FROM taken;
    INSERT INTO retrieval_lexical_state (organization_key, passages, words)
    SELECT p_organization_key, count(*), coalesce(sum(l.words), 0) FROM retrieval_lexeme l
    WHERE l.organization_key = p_organization_key AND l.segment IS NOT NULL
    ON CONFLICT (organization_key) DO UPDATE SET passages = excluded.passages, words = excluded.words;
    RETURN cardinality(v_taken);
END $$
"""
_WHO_TYPES = _relation._WHO_TYPES


class Migration(migrations.Migration):
    dependencies = [("retrieval", "0008_live")]
    operations = [
        migrations.RunSQL(
            WORDS,
            "DROP FUNCTION retrieval_impact(smallint[], text[], integer, double precision); "
            "DROP FUNCTION retrieval_word_count(tsvector); "
            "DROP FUNCTION retrieval_lexemes(regconfig, text, text, text); DROP FUNCTION retrieval_plain(text)",
        ),
        migrations.RunSQL(
            TERMS,
            "DROP FUNCTION retrieval_must(bigint, text[], text[]); DROP FUNCTION retrieval_phrase(bigint, text); "
            "DROP FUNCTION retrieval_query_terms(bigint, text[])",
        ),
        migrations.RunSQL(
            SEARCH,
            f"DROP FUNCTION retrieval_lexical_search({_WHO_TYPES}, text[], text[], tsquery, integer)",
        ),
        migrations.RunSQL(
            SIMILAR, f"DROP FUNCTION retrieval_similar_terms({_WHO_TYPES}, text, integer)"
        ),
        migrations.RunSQL(FOLD, "DROP FUNCTION retrieval_fold(bigint, bigint, bigint[])"),
    ]
