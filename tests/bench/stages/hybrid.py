"""The whole search: the product's one statement with its rights and without, `search()` around it
with its audit, and eight clients at once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from retrieval.search import search
from tests.bench import clients, results, statements, truth
from tests.bench.clients import Statement
from tests.bench.scene import Caller, scenes
from tests.bench.server import say
from tests.bench.stages.vector import mix
from tests.bench.statements import GivenVector
from tests.bench.timing import ROUNDS, Times, execute, orders, timed
from tests.bench.world import World


def run(world: World) -> None:
    """Measure and keep."""
    organizations: dict[str, Any] = {}
    loads: dict[str, list[Statement]] = {"ours": [], "bare": []}
    for number, scene in enumerate(scenes(world)):
        questions = truth.ask(world, scene.stored, ROUNDS, salt=number)
        cells = {}
        for share, callers in scene.callers.items():
            cells[share] = measure(callers, questions)
            for question in questions[:8]:
                for caller in callers:
                    statement = _statement(caller, question)
                    loads["ours"].append(statement)
                    loads["bare"].append((statements.without_rights(statement[0]), statement[1]))
        organizations[scene.organization.name] = {
            "passages": scene.organization.passages,
            "cells": cells,
        }
    say("8 clients")
    mixed = clients.run_clients({name: mix(jobs) for name, jobs in loads.items()})
    results.write("hybrid", world.size, {"organizations": organizations, "clients": mixed})


def measure(callers: list[Caller], questions: list[truth.Question]) -> dict[str, Any]:
    """One cell."""
    names = ["ours", "bare", "search"]
    times = {name: Times() for name in names}
    order, embedder = orders(names), GivenVector()
    for at, question in enumerate(questions):
        embedder.vector = question.vector
        for caller in callers:
            statement = _statement(caller, question)
            contestants = {
                "ours": partial(execute, statement),
                "bare": partial(execute, (statements.without_rights(statement[0]), statement[1])),
                "search": partial(search, caller.authority, query=question.text, embedder=embedder),
            }
            if at == 0:
                for name in names:
                    contestants[name]()
            for name in order():
                times[name].values.append(timed(contestants[name])[0])
    return {
        "visible": sorted(caller.count for caller in callers),
        **{name: times[name].as_dict() for name in names},
    }


def _statement(caller: Caller, question: truth.Question) -> Statement:
    return statements.capture(caller.authority, words=question.text, vector=question.vector)
