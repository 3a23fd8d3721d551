"""Texts as vectors by a provider that speaks `/v1/embeddings`, as OpenAI, Voyage and vLLM do.

Promises: each row belongs to its text, whatever order the reply has; every vector passed
`contract.checked`; a provider that just failed isn't asked again by searches for a few seconds.
Tokens of passages are counted by the built-in tokenizer, so that passages are cut the same whoever
embeds. Safe to share between threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from kaizen.kernel.errors import Unavailable
from retrieval.embedders.calls import (
    IN_A_JOB,
    IN_A_SEARCH,
    UNUSABLE_TEXT,
    Patience,
    post_json,
)
from retrieval.embedders.contract import REFUSED, Vectors, checked
from retrieval.embedders.local import local_embedder

REST_SECONDS = 10.0
"""For so long a search does without a provider that didn't answer the last one."""
_LONGEST_INPUT = 20_000
_SHORTEST_CUT = 200


class Sizing(StrEnum):
    """How a model comes to this deployment's dimension."""

    ASKED = "asked"
    CUT = "cut"
    OWN = "own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """How to reach a model, and what its vectors follow from."""

    base_url: str
    name: str
    digest: str
    dimension: int
    sizing: Sizing
    api_key: str = field(default="", repr=False)
    query_prefix: str = ""
    passage_prefix: str = ""
    batch: int = 64


class RemoteEmbedder:
    """One model of one provider."""

    def __init__(self, remote: Remote, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._remote = remote
        self._clock = clock
        self._rests_until = 0.0

    @property
    def model(self) -> str:
        return self._remote.name

    @property
    def digest(self) -> str:
        return self._remote.digest

    @property
    def dimension(self) -> int:
        return self._remote.dimension

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One normalised row a text, in the order given; a text that is too long is cut.

        Raises:
            Unavailable: refused, not answering, or not answering with such vectors.
        """
        return self.embed_counted(texts)[0]

    def embed_counted(self, texts: Sequence[str]) -> tuple[Vectors, int]:
        """As `embed_documents`, and the tokens that the provider charges for."""
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        tokens = 0
        prefix = self._remote.passage_prefix
        for at in range(0, len(texts), self._remote.batch):
            batch = [prefix + text[:_LONGEST_INPUT] for text in texts[at : at + self._remote.batch]]
            rows, charged = self._embed(batch, IN_A_JOB)
            vectors[at : at + len(batch)] = rows
            tokens += charged
        return vectors, tokens

    def embed_query(self, text: str) -> Vectors:
        """One normalised vector.

        Raises:
            Unavailable: as `embed_documents`, or it failed a moment ago.
        """
        if self._clock() < self._rests_until:
            raise Unavailable("The embedding provider didn't answer a moment ago.")
        try:
            rows, _ = self._embed([self._remote.query_prefix + text[:_LONGEST_INPUT]], IN_A_SEARCH)
        except Unavailable:
            self._rests_until = self._clock() + REST_SECONDS
            raise
        vector: Vectors = rows[0]
        return vector

    def count_tokens(self, text: str) -> int:
        """As the built-in tokenizer counts: an estimate of what the provider will say."""
        return local_embedder().count_tokens(text)

    def _embed(self, texts: list[str], patience: Patience) -> tuple[Vectors, int]:
        """The rows of one batch. A text that is refused is cut by half until it isn't."""
        try:
            return self._ask(texts, patience)
        except Unavailable as error:
            if error.code != UNUSABLE_TEXT or not self._takes_texts(patience):
                raise
        if len(texts) > 1:
            half = len(texts) // 2
            first, second = (self._embed(part, patience) for part in (texts[:half], texts[half:]))
            return np.concatenate([first[0], second[0]]), first[1] + second[1]
        (text,) = texts
        if len(text) < _SHORTEST_CUT:
            raise Unavailable("The provider refuses a short text.", code=REFUSED)
        return self._embed([text[: len(text) // 2]], patience)

    def _takes_texts(self, patience: Patience) -> bool:
        """Whether a harmless text is accepted: then a refusal was about the texts."""
        try:
            self._ask(["text"], patience)
        except Unavailable as error:
            if error.code != UNUSABLE_TEXT:
                raise
            return False
        return True

    def _ask(self, texts: list[str], patience: Patience) -> tuple[Vectors, int]:
        payload: dict[str, Any] = {"model": self._remote.name, "input": texts}
        if self._remote.sizing is Sizing.ASKED:
            payload["dimensions"] = self.dimension
        reply = post_json(
            f"{self._remote.base_url.rstrip('/')}/embeddings",
            payload,
            key=self._remote.api_key,
            patience=patience,
        )
        rows = _read_rows(reply, len(texts))
        is_cut = self._remote.sizing is Sizing.CUT
        return checked(rows, dimension=self.dimension, cut=is_cut), _read_tokens(reply)


def _read_rows(reply: Any, count: int) -> list[Any]:
    """The vectors by their index. Raises Unavailable unless there is exactly one for each text."""
    items = reply.get("data") if isinstance(reply, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise Unavailable("The provider answers with something else than embeddings.", code=REFUSED)
    rows = {item.get("index", at): item.get("embedding") for at, item in enumerate(items)}
    if len(items) != count or set(rows) != set(range(count)):
        raise Unavailable(
            f"The provider answers with {len(items):,} vectors for {count:,} texts.", code=REFUSED
        )
    return [rows[at] for at in range(count)]


def _read_tokens(reply: dict[str, Any]) -> int:
    usage = reply.get("usage")
    if not isinstance(usage, dict):
        return 0
    tokens = usage.get("total_tokens") or usage.get("prompt_tokens") or 0
    return tokens if isinstance(tokens, int) and tokens > 0 else 0
