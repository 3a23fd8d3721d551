"""How long things take: contestants in turn on the same question, in another order each time."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.db import connection

from tests.bench.clients import Statement

# Questions a caller and cell.
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "25"))


@dataclass
class Times:
    """Milliseconds of one contestant, and what goes with them."""

    values: list[float] = field(default_factory=list)

    @property
    def p50(self) -> float:
        """The median."""
        return statistics.median(self.values) if self.values else 0.0

    @property
    def p95(self) -> float:
        """The 95th percentile."""
        return float(np.percentile(self.values, 95)) if self.values else 0.0

    def as_dict(self) -> dict[str, float]:
        """For JSON."""
        return {"p50": round(self.p50, 3), "p95": round(self.p95, 3), "n": len(self.values)}


def execute(statement: Statement) -> list[tuple[Any, ...]]:
    """Run it as the product does."""
    with connection.cursor() as cursor:
        cursor.execute(*statement)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def timed(act: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds, and what came of it."""
    began = time.perf_counter()
    result = act()
    return 1000 * (time.perf_counter() - began), result


def interleave(
    contestants: dict[str, Callable[[], Any]], order: Sequence[str]
) -> dict[str, tuple[float, Any]]:
    """Each contestant once, in this order."""
    return {name: timed(contestants[name]) for name in order}


def orders(names: Sequence[str], *, seed: int = 1) -> Callable[[], list[str]]:
    """Another order at each call."""
    dice = np.random.default_rng(seed)
    return lambda: [names[at] for at in dice.permutation(len(names)).tolist()]


def ratio(above: float, below: float) -> float:
    """A quotient that survives nothing below the line."""
    return above / below if below else 0.0
