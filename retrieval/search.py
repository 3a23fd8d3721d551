"""Search: one SELECT over the caller's live relation, lexical and by meaning, fused.

Promises: both branches see only rows that the relation lets through, in the snapshot of that one
statement; what a caller may not see changes neither rank nor count. Each search is audited. Nothing
is cached. Not for: reading passages again later (`retrieval.passages`), deciding rights
(`retrieval.acl`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import connection
from django.utils.crypto import salted_hmac

from accounts.authority import Authority
from audit.record import record
from kaizen.kernel.errors import Invalid, Unavailable
from kaizen.kernel.text import is_blank, make_storable
from retrieval.acl import caller
from retrieval.ingest.embed import Embedder, local_embedder
from retrieval.ingest.lexical import lexical_query_text
from retrieval.marks import find_marks
from retrieval.vectors import vector_literal

logger = logging.getLogger(__name__)

LONGEST_QUERY = 2_000
MOST_HITS = 50
# Each branch brings this many; a hit's score is the sum of 1 / (60 + rank) over its branches.
DEPTH = 60
FUSION = 60
# Up to this many visible passages distances are exact, above it the organisation's graph is asked.
EXACT_UP_TO = 8_000
# More passages of one document come after everything else that was found.
PER_DOCUMENT = 3


class Mode(StrEnum):
    """Which branches run."""

    HYBRID = "hybrid"
    LEXICAL = "lexical"
    SEMANTIC = "semantic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A passage that was found. `marks` are spans of `text` that hold words of the query."""

    chunk_id: UUID
    chunk_key: int
    version_id: UUID
    document_id: UUID
    source_id: UUID
    source_name: str
    title: str
    path: str
    heading_path: tuple[str, ...]
    page: int | None
    text: str
    updated_at: datetime
    score: float
    lexical_rank: int | None
    vector_rank: int | None
    marks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a search found.

    Attributes:
        mode: the branches that had something to work with.
        degraded: one sentence when a branch that was asked for could not run; else empty.
        plan: how distances were computed: exact, nearest, or empty.
        visible: whether there is anything at all that the caller may search here.
    """

    query: str
    hits: tuple[Hit, ...]
    mode: Mode
    degraded: str
    plan: str
    visible: bool


# What the statement selects behind its first four columns: a hit but for its marks.
_COLUMNS = tuple(field.name for field in fields(Hit) if field.name != "marks")
# Names of parameters are ours; every value is bound.
_RELATION = """%(organization)s, %(organization_key)s, %(user)s, %(source_permissions)s::integer[],
        %(project_permissions)s::integer[], %(document_permissions)s::integer[], asked.keys"""
STATEMENT = f"""
WITH asked AS MATERIALIZED (
    SELECT CASE WHEN %(only)s::bigint[] IS NULL AND %(sources)s::uuid[] IS NULL THEN NULL
        ELSE ARRAY(SELECT s.key FROM retrieval_source s WHERE s.organization_id = %(organization)s
              AND (%(sources)s::uuid[] IS NULL OR s.id = ANY (%(sources)s::uuid[]))
              AND (%(only)s::bigint[] IS NULL OR s.key = ANY (%(only)s::bigint[]))) END AS keys,
        (SELECT e.key FROM retrieval_embeddingspace e WHERE e.organization_id = %(organization)s
            AND e.state = 'active' AND e.digest = %(space_digest)s) AS space,
        retrieval_query(%(words)s) AS words
), semantic AS MATERIALIZED (
    SELECT v.chunk_key, v.plan, row_number() OVER (ORDER BY v.distance, v.chunk_key) AS rank
    FROM asked, LATERAL retrieval_vector_search({_RELATION},
        asked.space, %(vector)s::halfvec, %(semantic_depth)s, %(exact_up_to)s) v
), lexical AS MATERIALIZED (
    SELECT l.chunk_key, row_number() OVER (ORDER BY l.score DESC, l.chunk_key) AS rank
    FROM asked, LATERAL retrieval_lexical_search({_RELATION}, asked.words, %(lexical_depth)s) l
), fused AS (
    SELECT coalesce(semantic.chunk_key, lexical.chunk_key) AS chunk_key,
        semantic.rank AS vector_rank, lexical.rank AS lexical_rank,
        coalesce(1.0 / (%(fusion)s + semantic.rank), 0)
        + coalesce(1.0 / (%(fusion)s + lexical.rank), 0) AS score
    FROM semantic FULL JOIN lexical ON lexical.chunk_key = semantic.chunk_key
), shown AS (
    SELECT c.id AS chunk_id, c.key AS chunk_key, c.version_id, d.id AS document_id,
        s.id AS source_id, s.name AS source_name, d.title, d.path, c.heading_path, c.page, c.text,
        d.updated_at, f.score::float8, f.lexical_rank, f.vector_rank,
        row_number() OVER (PARTITION BY c.document_id ORDER BY f.score DESC, c.key)
            > %(per_document)s AS is_more
    FROM fused f JOIN retrieval_chunk c ON c.key = f.chunk_key
    JOIN retrieval_document d ON d.id = c.document_id AND d.deleted_at IS NULL
    JOIN retrieval_source s ON s.id = d.source_id
    ORDER BY is_more, f.score DESC, c.key LIMIT %(limit)s
)
SELECT asked.words IS NOT NULL, asked.space IS NOT NULL, (SELECT plan FROM semantic LIMIT 1),
    EXISTS (SELECT 1 FROM fused)
        OR EXISTS (SELECT 1 FROM retrieval_visible_sources(%(organization)s, %(user)s,
            %(source_permissions)s::integer[], %(project_permissions)s::integer[], asked.keys))
        OR EXISTS (SELECT 1 FROM retrieval_granted_documents(%(organization)s, %(user)s,
            %(document_permissions)s::integer[], asked.keys)),
    {", ".join(f"shown.{name}" for name in _COLUMNS)}
FROM asked LEFT JOIN shown ON true ORDER BY shown.is_more, shown.score DESC, shown.chunk_key
"""  # noqa: S608  only constants of this module are put in


def search(
    authority: Authority,
    *,
    query: str,
    limit: int = 10,
    source_ids: Sequence[UUID] | None = None,
    mode: Mode = Mode.HYBRID,
    embedder: Embedder | None = None,
) -> SearchResult:
    """The passages that fit `query` best among those the caller may view.

    At least min(limit, visible passages) hits unless the mode is lexical. `source_ids` narrows
    further. Raises Invalid for a blank or too long query.
    """
    text = check_query(query)
    limit = max(1, min(limit, MOST_HITS))
    vector, degraded = None, ""
    embedder = embedder or local_embedder()
    if mode is not Mode.LEXICAL:
        try:
            vector = vector_literal(embedder.embed_query(text))
        except Unavailable as error:
            logger.warning("search by meaning is off: %s", error.message)
            degraded = "Search by meaning isn't available just now; only words were searched."
    rows = _run(
        authority,
        words=lexical_query_text(text),
        vector=vector,
        space_digest=embedder.digest,
        lexical=mode is not Mode.SEMANTIC or vector is None,
        limit=limit,
        source_ids=source_ids,
    )
    has_words, has_space, plan, visible = rows[0][:4]
    hits = tuple(_hit(row[4:], text) for row in rows if row[4] is not None)
    result = SearchResult(
        query=text,
        hits=hits,
        mode=_mode(mode, has_words=has_words, has_meaning=vector is not None and has_space),
        degraded=degraded,
        plan=plan or "",
        visible=visible,
    )
    _audit(authority, result)
    return result


def check_query(query: str) -> str:
    """The query, fit to store. Raises Invalid when it is blank or longer than LONGEST_QUERY."""
    text = make_storable(query).text.strip()
    if is_blank(text):
        raise Invalid("Type something to search for.", code="blank_query")
    if len(text) > LONGEST_QUERY:
        raise Invalid(
            f"A query may have at most {LONGEST_QUERY:,} characters.", code="query_too_long"
        )
    return text


def query_digest(query: str) -> str:
    """A keyed digest of a query: tells equal ones apart from others and can't be guessed back."""
    return salted_hmac("kaizen.retrieval.query", query, algorithm="sha256").hexdigest()


def _run(
    authority: Authority,
    *,
    words: str,
    vector: str | None,
    space_digest: str,
    lexical: bool,
    limit: int,
    source_ids: Sequence[UUID] | None,
) -> list[tuple[Any, ...]]:
    parameters = {
        **caller(authority)._asdict(),
        "sources": None if source_ids is None else list(source_ids),
        "words": words,
        "vector": vector,
        "space_digest": space_digest,
        "semantic_depth": DEPTH if vector is not None else 0,
        "lexical_depth": DEPTH if lexical else 0,
        "exact_up_to": EXACT_UP_TO,
        "fusion": FUSION,
        "per_document": PER_DOCUMENT,
        "limit": limit,
    }
    with connection.cursor() as cursor:
        cursor.execute(STATEMENT, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _mode(asked: Mode, *, has_words: bool, has_meaning: bool) -> Mode:
    if asked is Mode.LEXICAL or not has_meaning:
        return Mode.LEXICAL
    return Mode.HYBRID if asked is Mode.HYBRID and has_words else Mode.SEMANTIC


def _hit(row: tuple[Any, ...], query: str) -> Hit:
    values = dict(zip(_COLUMNS, row, strict=True))
    values["heading_path"] = tuple(values["heading_path"])
    return Hit(**values, marks=find_marks(values["text"], query))


def _audit(authority: Authority, result: SearchResult) -> None:
    record(
        authority,
        "retrieval.searched",
        data={
            "query_digest": query_digest(result.query),
            "hits": len(result.hits),
            "mode": result.mode,
            "plan": result.plan,
        },
        personal={"query": result.query},
    )
