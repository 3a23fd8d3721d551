"""The vector branch in every organisation and share: recall against exact, rows, time; beside the
organisation's graph without rights, exact distances, a filter afterwards, one graph for all.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.bench import clients, results, statements, truth
from tests.bench.clients import Statement
from tests.bench.scene import Caller, Scene, scenes
from tests.bench.server import say
from tests.bench.shape import JUDGE_SEED
from tests.bench.statements import EXACT, FETCH, GLOBAL, GRAPH, ROUTER
from tests.bench.timing import ROUNDS, Times, execute, orders, timed
from tests.bench.world import DATABASE, World

FETCHED = 200
LIMIT = 10
_GLOBAL_UP_TO = 200_000


def run(world: World) -> None:
    """Measure and keep."""
    if world.size <= _GLOBAL_UP_TO or os.environ.get("BENCH_GLOBAL"):
        statements.build_global(world.server, DATABASE)
    with_global = statements.has_global(world.server, DATABASE)
    organizations = {}
    loads: dict[str, list[Statement]] = {"router": [], "global": []}
    for number, scene in enumerate(scenes(world)):
        questions = truth.ask(world, scene.stored, ROUNDS, salt=number)
        organizations[scene.organization.name] = {
            "passages": scene.organization.passages,
            "cells": {
                share: measure_cell(scene, callers, questions, with_global=with_global)
                for share, callers in scene.callers.items()
            },
        }
        for question in questions[:8]:
            for caller in scene.every():
                given = near(scene, caller, question)
                loads["router"].append((ROUTER, given))
                loads["global"].append((GLOBAL, given))
    if not with_global:
        del loads["global"]
    say("8 clients")
    mixed = clients.run_clients({name: mix(jobs) for name, jobs in loads.items()})
    results.write("vector", world.size, {"organizations": organizations, "clients": mixed})


def mix(jobs: list[Statement]) -> list[Statement]:
    """In one order that has nothing to do with who asks."""
    return random.Random(JUDGE_SEED).sample(jobs, len(jobs))


def near(
    scene: Scene, caller: Caller, question: truth.Question, limit: int = LIMIT
) -> dict[str, Any]:
    """The parameters for a caller and a question."""
    return statements.near(
        caller.authority,
        space=scene.organization.space_key,
        vector=question.vector,
        limit=LIMIT,
    )


def measure_cell(
    scene: Scene, callers: list[Caller], questions: list[truth.Question], *, with_global: bool
) -> dict[str, Any]:
    """All contestants on every question of every caller."""
    names = ["router", "exact", "graph", "fetch", *(["global"] if with_global else [])]
    times = {name: Times() for name in names}
    recalls: dict[str, list[float]] = {name: [] for name in names}
    short = dict.fromkeys(names, 0)
    order = orders(names)
    for at, question in enumerate(questions):
        scores = scene.stored.scores(question.vector)
        for caller in callers:
            given = near(scene, caller, question)
            contestants = _contestants(given)
            if at == 0:
                for name in names:
                    execute(contestants[name]())
            for name in order():
                statement = contestants[name]()
                spent, rows = timed(partial(execute, statement))
                times[name].values.append(spent)
                found = [row[0] for row in rows]
                if name == "graph":
                    continue
                if name == "fetch":
                    allowed = truth.are_visible(found, scene.stored, caller.visible)
                    found = [key for key, may in zip(found, allowed, strict=True) if may]
                score = truth.recall(found, scene.stored, scores, caller.visible, LIMIT)
                recalls[name].append(score)
                short[name] += len(found[:LIMIT]) < min(LIMIT, caller.count)
    cell: dict[str, Any] = {"visible": sorted(caller.count for caller in callers)}
    for name in names:
        cell[name] = times[name].as_dict()
        if recalls[name]:
            cell[name] |= {
                "recall": round(sum(recalls[name]) / len(recalls[name]), 4),
                "worst": round(min(recalls[name]), 2),
                "short": short[name],
            }
    return cell


def _contestants(given: dict[str, Any]) -> dict[str, Callable[[], Statement]]:
    return {
        "router": lambda: (ROUTER, given),
        "exact": lambda: (EXACT, given),
        "graph": lambda: (GRAPH, given),
        "fetch": lambda: (FETCH, given | {"limit": FETCHED}),
        "global": lambda: (GLOBAL, given),
    }
