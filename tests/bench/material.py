"""Made-up passages: words as uneven as in real text, and unit vectors in clusters within clusters.

A passage lies near its document, a document near its topic; a source has few topics. Noise has the
spectrum that real embeddings have around their documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from tests.bench.shape import BUILD_SEED, DIMENSION, TOKENS, WORDS, topics_of

Floats = npt.NDArray[np.float32]
_NEAR_TOPIC = 0.7
_NEAR_DOCUMENT = 0.6
_OWN_TOPICS = 3
_OWN_SHARE = 0.8
_TITLE = 4
# Of 2,464 passages of a public handbook around their documents' means, embedded by the local model:
# the strongest 10, 30, 60, 100 and 200 directions hold 0.22, 0.44, 0.61, 0.76 and 0.93 of the
# variance. These two numbers give 0.21, 0.45, 0.64, 0.77 and 0.91.
_DECAY = 1.9
_PLATEAU = 40


def _spectrum() -> Floats:
    """The standard deviation in each direction; the variances sum to one."""
    variances = (np.arange(DIMENSION) + _PLATEAU) ** -_DECAY
    return np.sqrt(variances / variances.sum()).astype(np.float32)


_DEVIATIONS = _spectrum()


def unit(vectors: Floats) -> Floats:
    """Rows of length one."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def noise(dice: np.random.Generator, *shape: int) -> Floats:
    """Vectors of length about one, more in some directions than in others."""
    return dice.standard_normal((*shape, DIMENSION), dtype=np.float32) * _DEVIATIONS


@cache
def vocabulary() -> tuple[list[str], npt.NDArray[np.float64]]:
    """The words, most frequent first, and the running sum of their shares. The first stands in
    about a quarter of all passages.
    """
    dice = np.random.default_rng(BUILD_SEED)
    consonants, vowels = "bcdfghklmnprstvz", "aeiou"
    draws = dice.integers(0, len(consonants) * len(vowels), (2 * WORDS, 4)).tolist()
    lengths = dice.integers(2, 5, 2 * WORDS).tolist()
    words: dict[str, None] = {}
    for parts, length in zip(draws, lengths, strict=True):
        pairs = (consonants[part // 5] + vowels[part % 5] for part in parts[:length])
        words["".join(pairs) + consonants[parts[-1] % 16]] = None
    if len(words) < WORDS:
        raise ValueError("the words run out")
    weights = 1 / np.arange(50, 50 + WORDS)
    return list(words)[:WORDS], np.cumsum(weights / weights.sum())


@cache
def topics(size: int) -> Floats:
    """The topics of a world."""
    return unit(noise(np.random.default_rng(BUILD_SEED + 1), topics_of(size)))


@dataclass(frozen=True)
class Passages:
    """The passages of one source."""

    vectors: Floats
    texts: list[str]
    lexemes: list[str]
    words: list[int]
    titles: list[str]


def make_source(size: int, number: int, *, documents: int, per_document: int) -> Passages:
    """The same source every time, by its number in the world."""
    dice = np.random.default_rng((BUILD_SEED, number))
    every = topics(size)
    own = dice.integers(0, len(every), _OWN_TOPICS)
    chosen = np.where(
        dice.random(documents) < _OWN_SHARE,
        own[dice.integers(0, _OWN_TOPICS, documents)],
        dice.integers(0, len(every), documents),
    )
    centres = unit(every[chosen] + _NEAR_TOPIC * noise(dice, documents))
    vectors = unit(centres[:, None] + _NEAR_DOCUMENT * noise(dice, documents, per_document))
    words, shares = vocabulary()
    titles = np.searchsorted(shares, dice.random((documents, _TITLE)))
    tokens = np.searchsorted(shares, dice.random((documents * per_document, TOKENS)))
    texts, lexemes = [], []
    for row, ids in enumerate(tokens.tolist()):
        title = titles[row // per_document].tolist()
        places: dict[int, list[str]] = {}
        for at, word in enumerate(title, start=1):
            places.setdefault(word, []).append(f"{at}A")
        for at, word in enumerate(ids, start=_TITLE + 1):
            places.setdefault(word, []).append(str(at))
        lexemes.append(" ".join(f"{words[word]}:{','.join(at)}" for word, at in places.items()))
        texts.append(" ".join(words[word] for word in ids[:20]))
    return Passages(
        vectors=vectors.reshape(-1, DIMENSION),
        texts=texts,
        lexemes=lexemes,
        words=[TOKENS + _TITLE] * len(texts),
        titles=[" ".join(words[word] for word in row) for row in titles.tolist()],
    )
