"""The lexical branch: three words of which any may stand, and words that everybody uses; with the
caller's rights and without, in every organisation and share.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.bench import results, statements, truth
from tests.bench.scene import Caller, Scene, fits_words, scenes
from tests.bench.statements import LEXICAL, LEXICAL_BARE
from tests.bench.timing import ROUNDS, Times, execute, orders, timed
from tests.bench.world import World

DEPTH = 60


def run(world: World) -> None:
    """Measure and keep."""
    organizations = {}
    for number, scene in enumerate(scenes(world)):
        questions = truth.ask(world, scene.stored, ROUNDS, salt=number)
        organizations[scene.organization.name] = {
            "passages": scene.organization.passages,
            "cells": {
                share: {
                    "visible": sorted(caller.count for caller in callers),
                    "three": measure(scene, callers, [q.words for q in questions]),
                    "frequent": measure(scene, callers, [q.frequent for q in questions]),
                    "single": measure(scene, callers, [q.frequent[:1] for q in questions]),
                }
                for share, callers in scene.callers.items()
            },
        }
    results.write("lexical", world.size, {"organizations": organizations})


def measure(scene: Scene, callers: list[Caller], texts: list[tuple[str, ...]]) -> dict[str, Any]:
    """With rights and without, and whether all that came back may be seen."""
    names = ["ours", "bare"]
    times = {name: Times() for name in names}
    order, foreign, rows = orders(names), 0, 0
    for at, words in enumerate(texts):
        terms = fits_words(scene.organization, words)
        for caller in callers:
            given = {
                **statements.who(caller.authority),
                "terms": terms,
                "limit": DEPTH,
            }
            asked = {"ours": (LEXICAL, given), "bare": (LEXICAL_BARE, given)}
            if at == 0:
                for name in names:
                    execute(asked[name])
            for name in order():
                spent, found = timed(partial(execute, asked[name]))
                times[name].values.append(spent)
                if name == "ours":
                    allowed = truth.are_visible(
                        [row[0] for row in found], scene.stored, caller.visible
                    )
                    foreign += len(found) - sum(allowed)
                    rows += len(found)
    return {name: times[name].as_dict() for name in names} | {"rows": rows, "foreign": foreign}
