"""What is right: the exact neighbours among the visible passages, computed from the stored vectors
by numpy, and the questions that are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from django.db import connection

from accounts.authority import Authority, Channel, from_user
from accounts.models import User
from retrieval.acl import visible_documents
from tests.bench import load
from tests.bench.material import Floats, noise, topics, unit, vocabulary
from tests.bench.shape import JUDGE_SEED
from tests.bench.world import Organization, World

Keys = npt.NDArray[np.int64]
# Half precision on one side and float32 sums on the other: equal to this is equal.
_TIE = 1e-4
_NEAR_PASSAGE = 0.8
_NEAR_TOPIC = 0.8


@dataclass(frozen=True)
class Question:
    """A made-up question: its vector, its words, and words that everybody uses."""

    vector: Floats
    words: tuple[str, ...]
    frequent: tuple[str, ...]

    @property
    def text(self) -> str:
        """What is typed."""
        return " ".join(self.words)


@dataclass(frozen=True)
class Stored:
    """The vectors of an organisation, as they are stored."""

    chunks: Keys
    documents: Keys
    vectors: Floats

    def scores(self, vector: Floats) -> Floats:
        """The inner product of the question with each, the question rounded as the column is."""
        scores: Floats = self.vectors @ vector.astype(np.float16).astype(np.float32)
        return scores


def read_stored(organization: Organization) -> Stored:
    """All vectors of an organisation."""
    statement = (
        f"COPY (SELECT {load.VECTOR_COLUMNS} FROM retrieval_vector "
        f"WHERE organization_key = {organization.key} AND space_key = {organization.space_key}) "
        "TO STDOUT (FORMAT binary)"
    )
    parts = []
    with connection.cursor() as cursor, cursor.connection.cursor().copy(statement) as copy:
        parts.extend(bytes(part) for part in copy)
    data = b"".join(parts)[len(load.BINARY_START) : -len(load.BINARY_END)]
    rows = np.frombuffer(data, dtype=load.VECTOR_ROW)
    return Stored(
        chunks=rows["chunk_key"]["v"].astype(np.int64),
        documents=rows["document_key"]["v"].astype(np.int64),
        vectors=rows["embedding"]["v"].astype(np.float32),
    )


def visible_rows(authority: Authority, stored: Stored) -> npt.NDArray[np.bool_]:
    """Which stored passages the caller may see, by the relation's queryset."""
    keys = np.fromiter(visible_documents(authority).values_list("key", flat=True), dtype=np.int64)
    return np.isin(stored.documents, keys)


def authority_of(user_id: int, organization: Organization) -> Authority:
    """The authority of a caller, resolved as the product does."""
    user = User.objects.get(pk=user_id)
    return from_user(user, slug=organization.slug, channel=Channel.SESSION)


def are_visible(keys: Sequence[int], stored: Stored, visible: npt.NDArray[np.bool_]) -> list[bool]:
    """Of each key, whether it is of a passage that may be seen."""
    allowed = stored.chunks[visible]
    found: list[bool] = np.isin(np.array(keys, dtype=np.int64), allowed).tolist()
    return found


def nearest(scores: Floats, visible: npt.NDArray[np.bool_], count: int) -> tuple[Keys, float]:
    """Rows of the best `count` visible ones, best first, and the score of the last."""
    rows = np.flatnonzero(visible)
    if len(rows) > count:
        rows = rows[np.argpartition(-scores[rows], count - 1)[:count]]
    rows = rows[np.argsort(-scores[rows], kind="stable")]
    return rows, float(scores[rows[-1]]) if len(rows) else 0.0


def recall(
    found: Sequence[int], stored: Stored, scores: Floats, visible: npt.NDArray[np.bool_], count: int
) -> float:
    """The share of the best `count` that was found; equal scores count as equal. What may not be
    seen counts for nothing.
    """
    best, last = nearest(scores, visible, count)
    if not len(best):
        return 1.0
    rows = np.flatnonzero(np.isin(stored.chunks, np.array(found[:count], dtype=np.int64)))
    right = visible[rows] & (scores[rows] >= last - _TIE)
    return min(1.0, float(right.sum()) / len(best))


def ask(
    world: World, stored: Stored, count: int, *, seed: int = JUDGE_SEED, salt: int = 0
) -> list[Question]:
    """Questions for an organisation: half near one of its passages, half near a topic."""
    dice = np.random.default_rng((seed, salt))
    words, _ = vocabulary()
    every = topics(world.size)
    questions = []
    for number in range(count):
        if number % 2:
            start, apart = every[int(dice.integers(0, len(every)))], _NEAR_TOPIC
        else:
            start, apart = stored.vectors[int(dice.integers(0, len(stored.vectors)))], _NEAR_PASSAGE
        ranks = np.exp(dice.uniform(np.log(100), np.log(10_000), 3)).astype(int)
        questions.append(
            Question(
                vector=unit(start + apart * noise(dice)),
                words=tuple(dict.fromkeys(words[rank] for rank in ranks.tolist())),
                frequent=tuple(words[rank] for rank in dice.choice(40, 3, replace=False).tolist()),
            )
        )
    return questions
