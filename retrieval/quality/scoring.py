"""How a search is scored: nDCG, recall, and what it should never have brought. Pure.

A ranking is the distinct documents of a result, in the order of their best passages. Every expected
document has gain 1. What its reader may not view counts neither for nor against a search: no right
answer would show it. Not for: searching or rights (`retrieval.quality.score_runs`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

NDCG_DEPTH = 10
RECALL_DEPTHS = (10, 50)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One question's score for one reader; None where nothing was expected that they may view.

    Attributes:
        first_rank: the place of the first expected document in the ranking, from 1.
        expected, hidden: expected documents that the reader may view, and that they may not.
        leaked: documents in the ranking that the reader may not view, or that were forbidden.
    """

    ndcg_10: float | None
    recall_10: float | None
    recall_50: float | None
    first_rank: int | None
    expected: int
    hidden: int
    found: int
    leaked: tuple[UUID, ...]


def rank_documents(document_ids: Iterable[UUID]) -> tuple[UUID, ...]:
    """The documents of passages, each at the place of its best passage."""
    return tuple(dict.fromkeys(document_ids))


def score(
    ranking: Sequence[UUID],
    *,
    expected: Collection[UUID],
    forbidden: Collection[UUID],
    viewable: Collection[UUID],
) -> Score:
    """The score of `ranking`. `viewable` holds those of all these documents that its reader may
    view, found out independently of the search.
    """
    countable = {document for document in expected if document in viewable}
    return Score(
        ndcg_10=ndcg(ranking, countable, depth=NDCG_DEPTH),
        recall_10=recall(ranking, countable, depth=RECALL_DEPTHS[0]),
        recall_50=recall(ranking, countable, depth=RECALL_DEPTHS[1]),
        first_rank=first_rank(ranking, countable),
        expected=len(countable),
        hidden=len(set(expected)) - len(countable),
        found=len(ranking),
        leaked=leaks(ranking, viewable=viewable, forbidden=forbidden),
    )


def ndcg(ranking: Sequence[UUID], expected: Collection[UUID], *, depth: int) -> float | None:
    """Discounted gain of the first `depth` documents as a share of the best order's; None without
    expected documents.
    """
    if not expected:
        return None
    gained = sum(
        1 / math.log2(place + 1)
        for place, document in enumerate(ranking[:depth], start=1)
        if document in expected
    )
    best = sum(1 / math.log2(place + 1) for place in range(1, min(depth, len(expected)) + 1))
    return gained / best


def recall(ranking: Sequence[UUID], expected: Collection[UUID], *, depth: int) -> float | None:
    """The share of expected documents among the first `depth`; None without expected documents."""
    if not expected:
        return None
    return sum(document in expected for document in ranking[:depth]) / len(expected)


def first_rank(ranking: Sequence[UUID], expected: Collection[UUID]) -> int | None:
    """The place of the first expected document, from 1; None when none was found."""
    for place, document in enumerate(ranking, start=1):
        if document in expected:
            return place
    return None


def leaks(
    ranking: Sequence[UUID], *, viewable: Collection[UUID], forbidden: Collection[UUID]
) -> tuple[UUID, ...]:
    """Documents that stand in the ranking and mustn't, in its order."""
    return tuple(
        document for document in ranking if document not in viewable or document in forbidden
    )
