"""Ordering the best passages anew by a cross-encoder, where an organisation has chosen one.

Promises: off by default; only passages that the caller may see are sent, to the address an admin
entered; whatever goes wrong, the order stays as it was and one sentence says so. Not for: finding
passages or deciding rights (`retrieval.search`).
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from cryptography.fernet import InvalidToken

from kaizen.kernel.errors import Unavailable
from retrieval.embedders.calls import Patience, post_json
from retrieval.embedders.contract import REFUSED
from retrieval.models import RerankModel

logger = logging.getLogger(__name__)

NO_RERANK = "The results couldn't be ordered anew just now; they stand as they were found."
RERANKED = 40
"""So many of the best passages are ordered anew, where a search asks for fewer."""
REST_SECONDS = 10.0
"""For so long searches do without a provider that failed."""
_LONGEST_TEXT = 8_000


class Reranker(Protocol):
    """Whoever says how well each text answers a query."""

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """One finite score a text, in the order given; a higher one fits better.

        Raises Unavailable.
        """
        ...


@dataclass(frozen=True, slots=True)
class Reranking:
    """The scores, or None where nothing is reranked. `degraded` says that it should have been."""

    scores: list[float] | None
    degraded: str = ""


@dataclass(frozen=True, slots=True)
class RemoteReranker:
    """A server with `/rerank`, as Cohere, Voyage, Jina, vLLM and TEI have it."""

    base_url: str
    name: str
    wire: str
    seconds: float
    api_key: str = field(default="", repr=False)

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """See `Reranker`."""
        if not texts:
            return []
        cut = [text[:_LONGEST_TEXT] for text in texts]
        payload: dict[str, Any] = {"query": query}
        if self.wire == RerankModel.Wire.TEXTS:
            payload |= {"texts": cut, "truncate": True}
        else:
            payload |= {"model": self.name, "documents": cut}
        reply = post_json(
            f"{self.base_url.rstrip('/')}/rerank",
            payload,
            key=self.api_key,
            patience=Patience(each=self.seconds, total=self.seconds, tries=1),
        )
        return _read_scores(reply, len(texts))


@dataclass(frozen=True, slots=True)
class AbsentReranker:
    """Stands for a model that can't be used, and says why when it is asked."""

    reason: str

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """Raises Unavailable."""
        raise Unavailable(self.reason, code=REFUSED)


def find_reranker(organization_id: UUID) -> Reranker | None:
    """The reranker that an organisation's searches use. None, the default: they use none. One
    query.
    """
    enabled = RerankModel.objects.filter(organization_id=organization_id, enabled=True)
    try:
        model = enabled.first()
    except InvalidToken:
        return AbsentReranker("The key of the rerank model can't be decrypted. Enter it anew.")
    return None if model is None else reranker_of(model)


def reranker_of(model: RerankModel) -> RemoteReranker:
    """The reranker that `model` describes."""
    return RemoteReranker(model.base_url, model.name, model.wire, model.seconds, model.api_key)


def rerank_hits(reranker: Reranker, *, query: str, texts: Sequence[str]) -> Reranking:
    """How well each of `texts` answers `query`, in their order.

    A model that fails is no error here, and is left alone for a moment.
    """
    if not texts:
        return Reranking(None)
    if time.monotonic() < _resting.get(reranker, 0.0):
        return Reranking(None, NO_RERANK)
    try:
        return Reranking(reranker.rerank(query, texts))
    except Unavailable as error:
        logger.warning("reranking is off for a moment: %s", error.message)
        if len(_resting) > _MOST_RESTING:
            _resting.clear()
        _resting[reranker] = time.monotonic() + REST_SECONDS
        return Reranking(None, NO_RERANK)


def order_anew(
    scores: Sequence[float],
    *,
    documents: Sequence[Hashable],
    texts: Sequence[str],
    per_document: int,
) -> list[int]:
    """The places of the hits, best first; copies, and more than so many of one document, come last.

    Equal scores keep their order.
    """
    first: list[int] = []
    more: list[int] = []
    shown: Counter[Hashable] = Counter()
    seen: set[str] = set()
    for at in sorted(range(len(scores)), key=lambda at: -scores[at]):
        is_more = texts[at] in seen or shown[documents[at]] >= per_document
        (more if is_more else first).append(at)
        seen.add(texts[at])
        shown[documents[at]] += 1
    return first + more


_resting: dict[Reranker, float] = {}
_MOST_RESTING = 1_000


def _read_scores(reply: Any, count: int) -> list[float]:
    """The scores by their index. Raises Unavailable unless there is exactly one for each text."""
    items = reply
    if isinstance(reply, dict):
        items = reply.get("results") or reply.get("data")
    scores: dict[Any, Any] = {}
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            scores[item.get("index")] = item.get("relevance_score", item.get("score"))
    if set(scores) != set(range(count)) or not all(map(_is_number, scores.values())):
        raise Unavailable("The provider doesn't answer with one score for each text.", code=REFUSED)
    return [float(scores[at]) for at in range(count)]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
