"""What a world looks like: sizes, seeds and names. Pure.

Twenty unequal organisations; sources of about a thousand passages, documents of ten. Worlds are
built from one seed and judged on questions from another.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise

BUILD_SEED = 4_711
JUDGE_SEED = int(os.environ.get("BENCH_SEED", "90_210"))
DIMENSION = 384
PER_SOURCE = 1_000
PER_DOCUMENT = 10
SOURCES_PER_PROJECT = 10
WORDS = 30_000
TOKENS = 85
SPACE_MODEL = "bench"
SPACE_DIGEST = "bench-vectors"
# One word, one term: what is typed is what is looked up.
TEXT_CONFIG = "simple"
RESTRICTED = 0.01
SHARES = {"0.1 %": 0.001, "1 %": 0.01, "10 %": 0.1, "50 %": 0.5, "100 %": 1.0}
CALLERS_PER_CELL = 4
# Thousandths of all passages.
_ORGANIZATIONS = (314, 160, 112, 84, 66, 54, 40, 34, 28, 23, 19, 16, 13, 10, 8, 6.5, 5, 4, 2, 1.5)


@dataclass(frozen=True)
class OrganizationShape:
    """One organisation: how many passages, and who is in it."""

    number: int
    sources: tuple[int, ...]

    @property
    def passages(self) -> int:
        """Of all its sources."""
        return sum(self.sources)

    @property
    def users(self) -> int:
        """Members beside the measured callers."""
        return min(300, max(5, self.passages // 500))

    @property
    def teams(self) -> int:
        """Teams beside those of the measured callers."""
        return min(60, max(3, self.passages // 2_000))


def shape_world(size: int) -> list[OrganizationShape]:
    """The organisations of a world of about `size` passages, largest first."""
    return [
        OrganizationShape(number, _cut(round(size * share / 1000)))
        for number, share in enumerate(_ORGANIZATIONS)
    ]


def _cut(passages: int) -> tuple[int, ...]:
    """Sources of like size, in whole documents; two at least."""
    count = max(2, round(passages / PER_SOURCE))
    documents = max(count, passages // PER_DOCUMENT)
    edges = [documents * number // count for number in range(count + 1)]
    return tuple(PER_DOCUMENT * (end - start) for start, end in pairwise(edges))


def topics_of(size: int) -> int:
    """More text has more topics."""
    return max(60, size // 500)


def measured(shapes: list[OrganizationShape]) -> dict[str, OrganizationShape]:
    """The organisations that are measured: about 2,000 passages, about 4 % of all, the largest."""
    total = sum(shape.passages for shape in shapes)
    middle = max(10_000, 0.04 * total)
    rest = shapes[1:]
    small = min(rest, key=lambda shape: abs(shape.passages - 2_000))
    others = [shape for shape in rest if shape is not small]
    return {
        "small": small,
        "middle": min(others, key=lambda shape: abs(shape.passages - middle)),
        "largest": shapes[0],
    }
