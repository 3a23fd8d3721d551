"""What the peers' programs share: reading the arrays, and answering questions line by line."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Rows:
    """All passages: key, tenant, who may see it, vector."""

    keys: np.ndarray
    tenants: np.ndarray
    ends: np.ndarray
    principals: np.ndarray
    vectors: np.ndarray

    def batches(self, count: int) -> Iterator[tuple[slice, list[list[int]]]]:
        """Slices of at most `count` rows, with the principals of each row."""
        for start in range(0, len(self.keys), count):
            end = min(start + count, len(self.keys))
            lists = [
                self.principals[self.ends[at] : self.ends[at + 1]].tolist()
                for at in range(start, end)
            ]
            yield slice(start, end), lists


def read(folder: Path) -> Rows:
    """The arrays of a folder."""
    names = ("keys", "tenants", "ends", "principals", "vectors")
    return Rows(*(np.load(folder / f"{name}.npy", mmap_mode="r") for name in names))


def serve(settings: list[str], ask: Callable[[dict[str, Any], np.ndarray], list[int]]) -> None:
    """Say what settings there are, then answer until the input ends."""
    folder = Path(sys.argv[1])
    questions = np.load(folder / "questions.npy")
    _say({"settings": settings})
    for line in sys.stdin:
        task = json.loads(line)
        vector = questions[task["question"]]
        began = time.perf_counter()
        keys = ask(task, vector)
        _say({"ms": 1000 * (time.perf_counter() - began), "keys": keys})


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
