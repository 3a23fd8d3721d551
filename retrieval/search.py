"""Search: one SELECT over the caller's live relation, by words and by meaning, fused.

Promises: both branches see only rows that the relation lets through, in the snapshot of that one
statement (`retrieval.statement`); what a caller may not see changes neither result nor count. Each
search is audited. Nothing is cached. Not for: reading passages again later (`retrieval.passages`),
deciding rights (`retrieval.acl`).
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import connection
from django.utils.crypto import salted_hmac

from accounts.authority import Authority
from audit.record import record
from kaizen.kernel.errors import Unavailable
from retrieval.acl import caller
from retrieval.embedders.choice import embedder_for
from retrieval.embedders.contract import Embedder
from retrieval.embedders.rerank import RERANKED, Reranker, find_reranker, order_anew, rerank_hits
from retrieval.marks import find_marks
from retrieval.media import kind_of
from retrieval.query import Filters, Query, parse_query
from retrieval.statement import (
    DEPTH,
    EXACT_UP_TO,
    FACET_DEPTH,
    HIT_COLUMNS,
    MOST_FACETS,
    PER_DOCUMENT,
    SIMILAR,
    STATEMENT,
)
from retrieval.vectors import vector_literal

logger = logging.getLogger(__name__)

MOST_HITS = 50
NO_MEANING = "Search by meaning isn't available just now; only words were searched."


class Mode(StrEnum):
    """Which branches run."""

    HYBRID = "hybrid"
    LEXICAL = "lexical"
    SEMANTIC = "semantic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A passage that was found.

    `marks` are spans of `text` that hold words of the query. `score` tells its place alone, 1 for
    the first: the scores behind it count what the caller may not see, and stay in the database.
    """

    chunk_id: UUID
    chunk_key: int
    version_id: UUID
    document_id: UUID
    source_id: UUID
    source_name: str
    title: str
    path: str
    url: str
    media_type: str
    author: str
    tags: tuple[str, ...]
    heading_path: tuple[str, ...]
    page: int | None
    text: str
    updated_at: datetime
    dated_at: datetime | None
    score: float
    lexical_rank: int | None
    vector_rank: int | None
    marks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """How a search was done, for admins: the counts include what the caller may not see, and terms
    are stems.

    Attributes:
        plan: how distances were computed: exact, nearest, or empty.
        visible: passages that the caller may see here, as the sources count them.
        scanned: postings that were read.
        terms, dropped: what was looked up, and what was too frequent to help.
        capped: whether the postings of frequent words were read only in part, best first.
    """

    plan: str = ""
    visible: int | None = None
    scanned: int = 0
    terms: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    capped: bool = False
    vector_ms: float = 0.0
    lexical_ms: float = 0.0
    total_ms: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetValue:
    """One value that found documents have, and how many of the best ones have it."""

    value: str
    label: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a search found.

    Attributes:
        mode: the branches that had something to work with.
        degraded: one sentence when a branch that was asked for could not run; else empty.
        visible: whether there is anything at all that the caller may search here.
        similar_words: words of the query that stand nowhere, so that ones like them were searched.
        facets: by source, type, author and tag, over the documents of the best passages, if asked.
    """

    query: str
    hits: tuple[Hit, ...]
    mode: Mode
    degraded: str
    visible: bool
    trace: Trace
    similar_words: tuple[str, ...] = ()
    facets: dict[str, tuple[FacetValue, ...]] | None = None


def search(
    authority: Authority,
    *,
    query: str,
    limit: int = 10,
    filters: Filters = Filters(),  # noqa: B008  frozen
    mode: Mode = Mode.HYBRID,
    recency: bool = False,
    facets: bool = False,
    embedder: Embedder | None = None,
) -> SearchResult:
    """The passages that fit `query` best among those the caller may view.

    At least min(limit, visible passages) hits unless words alone are searched or the query demands
    or excludes words. `recency` prefers newer documents among those that fit. Raises Invalid for a
    blank or too long query.
    """
    result = search_unrecorded(
        authority,
        query=query,
        limit=limit,
        filters=filters,
        mode=mode,
        recency=recency,
        facets=facets,
        embedder=embedder,
    )
    _audit(authority, result)
    return result


def search_unrecorded(
    authority: Authority,
    *,
    query: str,
    limit: int = 10,
    filters: Filters = Filters(),  # noqa: B008  frozen
    mode: Mode = Mode.HYBRID,
    recency: bool = False,
    facets: bool = False,
    embedder: Embedder | None = None,
) -> SearchResult:
    """`search` without its event, for `retrieval.quality.see_as` alone: who looks there as somebody
    else is written down under their own name.
    """
    began = time.perf_counter()
    parts = parse_query(query)
    limit = max(1, min(limit, MOST_HITS))
    embedder = embedder or embedder_for(authority.organization_id)
    vector, degraded = None, ""
    if mode is not Mode.LEXICAL:
        try:
            vector = vector_literal(embedder.embed_query(parts.meaning))
        except Unavailable as error:
            logger.warning("search by meaning is off: %s", error.message)
            degraded = NO_MEANING
    reranker = None if recency else find_reranker(authority.organization_id)
    parameters = _parameters(authority, parts, filters, mode=mode, vector=vector, facets=facets) | {
        "space_digest": embedder.digest,
        "recency": recency,
        "limit": limit if reranker is None else max(limit, RERANKED),
    }
    rows = _run(STATEMENT, parameters)
    similar: dict[str, list[str]] = {}
    by_words = json.loads(rows[0][3] or "{}")
    if set(by_words.get("terms", ())) - set(by_words.get("found", ())):
        similar = dict(_run(SIMILAR, {**parameters, "found": by_words["found"]}))
        if similar:
            parameters["more_terms"] = sorted(
                {term for terms in similar.values() for term in terms}
            )
            rows = _run(STATEMENT, parameters)
    result = _result(rows, parts, mode=mode, has_vector=vector is not None, similar=similar)
    if reranker is not None:
        hits, unordered = _rerank(reranker, result.hits, parts.meaning)
        result = replace(result, hits=hits[:limit])
        degraded = f"{degraded} {unordered}".strip()
    spent = 1000 * (time.perf_counter() - began)
    trace = replace(result.trace, total_ms=round(spent, 2))
    return replace(result, degraded=degraded, trace=trace)


def _rerank(reranker: Reranker, hits: tuple[Hit, ...], query: str) -> tuple[tuple[Hit, ...], str]:
    """The hits in the order of a cross-encoder, and a sentence where it couldn't be asked."""
    texts = [f"{hit.title}\n{hit.text}" for hit in hits]
    reranking = rerank_hits(reranker, query=query, texts=texts)
    if reranking.scores is None:
        return hits, reranking.degraded
    order = order_anew(
        reranking.scores,
        documents=[hit.document_id for hit in hits],
        texts=[hit.text for hit in hits],
        per_document=PER_DOCUMENT,
    )
    placed = enumerate((hits[at] for at in order), start=1)
    return tuple(replace(hit, score=round(1 / place, 4)) for place, hit in placed), ""


def query_digest(query: str) -> str:
    """A keyed digest of a query: tells equal ones apart from others and can't be guessed back."""
    return salted_hmac("kaizen.retrieval.query", query, algorithm="sha256").hexdigest()


def _parameters(
    authority: Authority,
    parts: Query,
    filters: Filters,
    *,
    mode: Mode,
    vector: str | None,
    facets: bool,
) -> dict[str, Any]:
    depth = FACET_DEPTH if facets else DEPTH
    by_words = mode is not Mode.SEMANTIC or vector is None
    rank_phrases = bool(parts.phrases) and by_words and vector is not None
    documents = filters.of_documents()
    return {
        **caller(authority)._asdict(),
        "sources": None if filters.source_ids is None else list(filters.source_ids),
        "filter": None if documents is None else json.dumps(documents),
        "words": list(parts.words),
        "more_terms": [],
        "phrases": list(parts.phrases),
        "phrase_words": parts.phrase_words,
        "excluded": list(parts.excluded),
        "vector": vector,
        "semantic_depth": 0 if vector is None or rank_phrases else depth,
        "lexical_depth": depth if by_words else 0,
        "rank_phrases": rank_phrases,
        "exact_up_to": EXACT_UP_TO,
        "facets": facets,
        "most_facets": MOST_FACETS,
    }


def _run(statement: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _result(
    rows: list[tuple[Any, ...]],
    parts: Query,
    *,
    mode: Mode,
    has_vector: bool,
    similar: dict[str, list[str]],
) -> SearchResult:
    has_words, has_space, by_meaning, by_words, visible, facets = rows[0][:6]
    looked_for = " ".join([parts.meaning, *(term for terms in similar.values() for term in terms)])
    return SearchResult(
        query=parts.text,
        hits=tuple(
            _hit(row[6:], place, looked_for)
            for place, row in enumerate(rows, start=1)
            if row[6] is not None
        ),
        mode=_mode(mode, has_words=has_words, has_meaning=has_vector and has_space),
        degraded="",
        visible=visible,
        trace=_trace(json.loads(by_meaning or "{}"), json.loads(by_words or "{}")),
        similar_words=tuple(sorted(similar)),
        facets=None if facets is None else _facets(json.loads(facets)),
    )


def _mode(asked: Mode, *, has_words: bool, has_meaning: bool) -> Mode:
    if asked is Mode.LEXICAL or not has_meaning:
        return Mode.LEXICAL
    return Mode.HYBRID if asked is Mode.HYBRID and has_words else Mode.SEMANTIC


def _trace(by_meaning: dict[str, Any], by_words: dict[str, Any]) -> Trace:
    return Trace(
        plan=by_meaning.get("plan", ""),
        visible=by_meaning.get("visible"),
        scanned=by_words.get("scanned", 0),
        terms=tuple(by_words.get("terms", ())),
        found=tuple(by_words.get("found", ())),
        dropped=tuple(by_words.get("dropped", ())),
        capped=by_words.get("capped", False),
        vector_ms=round(by_meaning.get("ms", 0.0), 2),
        lexical_ms=round(by_words.get("ms", 0.0), 2),
    )


def _facets(found: dict[str, list[list[Any]]]) -> dict[str, tuple[FacetValue, ...]]:
    """The counts by name; media types are joined into the kinds that a person knows."""
    kinds: dict[str, int] = {}
    for value, _, count in found.pop("type"):
        kinds[kind_of(value)] = kinds.get(kind_of(value), 0) + count
    facets = {
        name: tuple(FacetValue(value=v, label=label, count=n) for v, label, n in values)
        for name, values in found.items()
    }
    ordered = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
    facets["type"] = tuple(FacetValue(value=k, label=k, count=n) for k, n in ordered)
    return facets


def _hit(row: tuple[Any, ...], place: int, looked_for: str) -> Hit:
    values = dict(zip(HIT_COLUMNS, row, strict=True))
    values["heading_path"] = tuple(values["heading_path"])
    values["tags"] = tuple(values["tags"])
    marks = find_marks(values["text"], looked_for)
    return Hit(**values, score=round(1 / place, 4), marks=marks)


def _audit(authority: Authority, result: SearchResult) -> None:
    record(
        authority,
        "retrieval.searched",
        data={
            "query_digest": query_digest(result.query),
            "hits": len(result.hits),
            "mode": result.mode,
            "plan": result.trace.plan,
            "visible": result.trace.visible,
            "scanned": result.trace.scanned,
            "capped": result.trace.capped,
            "milliseconds": round(result.trace.total_ms),
        },
        personal={"query": result.query},
    )
