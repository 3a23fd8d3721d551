"""What every embedder promises: normalised float32 rows of one length, in the order asked.

`checked` is the one door for vectors from outside: a wrong number, length or value is an error that
says so, and never a row in the index. Not for: choosing an embedder (`retrieval.embedders.choice`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from kaizen.kernel.errors import Unavailable

Vectors = npt.NDArray[np.float32]

DIMENSION = 384
"""The length of this deployment's vectors: that of the column `retrieval_vector.embedding`."""
REFUSED = "embedder_refused"
"""Code of an Unavailable that trying again doesn't mend: key, address, name or size is wrong."""


class Embedder(Protocol):
    """Whoever turns texts into vectors of one embedding space."""

    @property
    def model(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One normalised row a text, in the order given."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """One normalised vector."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of the whole text, uncut, without the marks that the model adds."""
        ...


@runtime_checkable
class CountingEmbedder(Protocol):
    """An embedder whose provider says how many tokens it charges for."""

    def embed_counted(self, texts: Sequence[str]) -> tuple[Vectors, int]:
        """As `embed_documents`, and the tokens charged."""
        ...


def embed_counted(embedder: Embedder, texts: Sequence[str]) -> tuple[Vectors, int]:
    """The vectors of `texts`, and the tokens that were charged for; 0 where nobody charges."""
    if isinstance(embedder, CountingEmbedder):
        return embedder.embed_counted(texts)
    return embedder.embed_documents(texts), 0


def checked(rows: Sequence[Sequence[float]], *, dimension: int, cut: bool = False) -> Vectors:
    """`rows` normalised. With `cut` longer ones are shortened first.

    Raises:
        Unavailable: a row has another length, isn't finite, or has no direction.
    """
    vectors = np.zeros((len(rows), dimension), dtype=np.float32)
    for at, row in enumerate(rows):
        vectors[at] = _checked_row(row, dimension, cut=cut)
    return vectors


def _checked_row(row: Sequence[float], dimension: int, *, cut: bool) -> Vectors:
    try:
        values = np.asarray(row, dtype=np.float64)
    except (TypeError, ValueError):
        raise Unavailable(
            "The embedding model answers with something that isn't a vector.", code=REFUSED
        ) from None
    if values.ndim != 1 or len(values) < dimension or (len(values) > dimension and not cut):
        raise Unavailable(wrong_length(values.size, dimension), code=REFUSED)
    values = values[:dimension]
    length = float(np.linalg.norm(values))
    if not np.isfinite(values).all() or not np.isfinite(length) or length < 1e-9:
        raise Unavailable(
            "The embedding model answers with a vector that holds no usable numbers.", code=REFUSED
        )
    return (values / length).astype(np.float32)


def wrong_length(found: int, dimension: int) -> str:
    """Why a model of another size can't be used here."""
    return (
        f"The model answers with vectors of {found:,} numbers, and this deployment's index holds "
        f"{dimension:,}. Choose a model of that size, one that can be asked for it, or one that "
        "was trained to be cut."
    )
