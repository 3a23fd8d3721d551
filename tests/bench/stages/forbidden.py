"""A hard world: questions of which at least 99 in 100 nearest neighbours are forbidden to whoever
asks.

Also with the graph forced where exact distances would be the plan, to see what it does there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.bench import results, truth
from tests.bench.material import noise, unit
from tests.bench.scene import Caller, Scene, scenes
from tests.bench.shape import JUDGE_SEED
from tests.bench.stages.vector import FETCHED, LIMIT, near
from tests.bench.statements import FETCH, ROUTER
from tests.bench.timing import ROUNDS, Times, execute, timed
from tests.bench.world import World

_FORBIDDEN = 0.99
_TRIES = 400
_APART = 0.6


def run(world: World) -> None:
    """Measure and keep."""
    organizations = {}
    for number, scene in enumerate(scenes(world)):
        if scene.organization.name == "small":
            continue
        cells = {}
        for share in ("0.1 %", "1 %", "10 %", "50 %"):
            cells[share] = measure(scene, scene.callers[share], salt=number)
        organizations[scene.organization.name] = {
            "passages": scene.organization.passages,
            "cells": cells,
        }
    results.write("forbidden", world.size, {"organizations": organizations})


def find_hard(scene: Scene, caller: Caller, count: int, *, salt: int) -> list[np.ndarray]:
    """Questions near passages that the caller may not see, whose neighbours are forbidden too."""
    dice = np.random.default_rng((JUDGE_SEED, salt, caller.authority.user_id))
    hidden = np.flatnonzero(~caller.visible)
    found: list[np.ndarray] = []
    for _ in range(_TRIES):
        start = scene.stored.vectors[int(dice.choice(hidden))]
        vector = unit(start + _APART * noise(dice))
        scores = scene.stored.scores(vector)
        best = np.argpartition(-scores, FETCHED)[:FETCHED]
        if caller.visible[best].mean() <= 1 - _FORBIDDEN:
            found.append(vector)
            if len(found) == count:
                break
    return found


def measure(scene: Scene, callers: list[Caller], *, salt: int) -> dict[str, Any]:
    """Recall, rows and time of the router, of its graph alone, and of a filter afterwards."""
    times = {"router": Times(), "graph": Times()}
    recalls: dict[str, list[float]] = {"router": [], "graph": [], "fetch": []}
    short = {"router": 0, "graph": 0}
    for caller in callers:
        for vector in find_hard(scene, caller, max(5, ROUNDS // 2), salt=salt):
            question = truth.Question(vector, (), ())
            given = near(scene, caller, question)
            scores = scene.stored.scores(vector)
            asked = {
                "router": (ROUTER, given),
                "graph": (ROUTER, given | {"exact_up_to": 0}),
                "fetch": (FETCH, given | {"limit": FETCHED}),
            }
            for name, statement in asked.items():
                spent, rows = timed(lambda: execute(statement))  # noqa: B023  called at once
                found = [row[0] for row in rows]
                if name == "fetch":
                    allowed = truth.are_visible(found, scene.stored, caller.visible)
                    found = [key for key, may in zip(found, allowed, strict=True) if may]
                else:
                    times[name].values.append(spent)
                    short[name] += len(found) < min(LIMIT, caller.count)
                recalls[name].append(
                    truth.recall(found, scene.stored, scores, caller.visible, LIMIT)
                )
    cell: dict[str, Any] = {
        "visible": sorted(caller.count for caller in callers),
        "questions": len(recalls["router"]),
    }
    for name, values in recalls.items():
        if values:
            cell[name] = {"recall": round(float(np.mean(values)), 4), "worst": min(values)}
            if name in times:
                cell[name] |= times[name].as_dict() | {"short": short[name]}
    return cell
