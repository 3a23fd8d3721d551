"""LanceDB and Chroma beside the product's vector branch: same vectors, same rights as their filter,
in turn on each question. Of each peer the fastest setting that reaches the recall counts, chosen
on other questions.

Chroma only up to 200,000 passages, LanceDB beyond with BENCH_PEERS=1 or at a million by default.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from django.db import connection

from accounts.authority import Authority
from tests.bench import results, truth, venv
from tests.bench.load import BINARY_END, BINARY_START, VECTOR_COLUMNS, VECTOR_ROW
from tests.bench.scene import Caller, Scene, scenes
from tests.bench.server import say
from tests.bench.shape import BUILD_SEED
from tests.bench.stages.vector import LIMIT, near
from tests.bench.statements import ROUTER
from tests.bench.timing import ROUNDS, Times, execute, ratio, timed
from tests.bench.venv import Peer
from tests.bench.world import World

WANTED_RECALL = 0.99
_TUNING = 6
_CHROMA_UP_TO = 200_000
# Users and teams have their numbers from different tables.
_TEAM = 1_000_000_000
_ACL = f"""
WITH rows AS (
    SELECT g.content_object_id AS key, g.user_id::bigint AS principal
    FROM retrieval_documentusergrant g
    UNION SELECT g.content_object_id, g.group_id + {_TEAM} FROM retrieval_documentteamgrant g
    UNION SELECT d.key, w.principal FROM (
        SELECT g.content_object_id AS source, g.user_id::bigint AS principal
        FROM retrieval_sourceusergrant g
        UNION SELECT g.content_object_id, g.group_id + {_TEAM} FROM retrieval_sourceteamgrant g
        UNION SELECT s.key, x.principal FROM (
            SELECT g.content_object_id AS project, g.user_id::bigint AS principal
            FROM accounts_projectusergrant g
            UNION SELECT g.content_object_id, g.group_id + {_TEAM} FROM accounts_projectteamgrant g
        ) x JOIN accounts_project p ON p.key = x.project
        JOIN retrieval_source s ON s.project_id = p.id
    ) w JOIN retrieval_source s ON s.key = w.source
    JOIN retrieval_document d ON d.source_id = s.id AND d.acl_state = 'inherit'
)
SELECT key, array_agg(principal ORDER BY principal) FROM rows GROUP BY key
"""


def run(world: World) -> None:
    """Measure and keep."""
    if not venv.ensure():
        return
    programs = ["lance", "chroma"] if world.size <= _CHROMA_UP_TO else ["lance"]
    programs = os.environ.get("BENCH_PEERS", ",".join(programs)).split(",")
    folder = world.folder / "peers"
    export(folder)
    organizations: dict[str, Any] = {}
    found = list(scenes(world)) if world.size <= _CHROMA_UP_TO else None
    tuning, judging = {}, {}
    vectors: list[np.ndarray] = []
    for number, scene in enumerate(found or scenes(world)):
        name = scene.organization.name
        tuning[name] = truth.ask(world, scene.stored, _TUNING, seed=BUILD_SEED, salt=number)
        judging[name] = truth.ask(world, scene.stored, ROUNDS, salt=number)
        vectors += [question.vector for question in (*tuning[name], *judging[name])]
    np.save(folder / "questions.npy", np.stack(vectors).astype(np.float32))
    with ExitStack() as stack:
        peers = []
        for program in programs:
            say(f"{program}: loading and indexing ...")
            peers.append(stack.enter_context(Peer(program, folder)))
        first = 0
        for scene in found or scenes(world):
            name = scene.organization.name
            questions = [*tuning[name], *judging[name]]
            cells = {}
            for share, callers in scene.callers.items():
                cells[share] = _measure(scene, callers, questions, first, peers)
                say(f"{name}, {share}: {_summary(cells[share])}")
            organizations[name] = {"passages": scene.organization.passages, "cells": cells}
            first += len(questions)
    results.write("peers", world.size, {"organizations": organizations, "peers": programs})


def _measure(
    scene: Scene,
    callers: list[Caller],
    questions: list[truth.Question],
    first: int,
    peers: list[Peer],
) -> dict[str, Any]:
    """One cell: tune each peer, then all in turn."""
    principals = {caller.authority.user_id: principals_of(caller.authority) for caller in callers}

    def ask(peer: Peer, at: int, caller: Caller, setting: str) -> tuple[float, list[int]]:
        return peer.ask(
            question=first + at,
            tenant=scene.organization.key,
            principals=principals[caller.authority.user_id],
            setting=setting,
            limit=LIMIT,
        )

    def right(found: list[int], at: int, caller: Caller) -> float:
        scores = scene.stored.scores(questions[at].vector)
        return truth.recall(found, scene.stored, scores, caller.visible, LIMIT)

    chosen = {}
    for peer in peers:
        tried = []
        for setting in peer.settings:
            runs = [
                (*ask(peer, at, caller, setting), at, caller)
                for at in range(_TUNING)
                for caller in callers[:2]
            ]
            reached = float(np.mean([right(found, at, caller) for _, found, at, caller in runs]))
            speed = float(np.median([spent for spent, *_ in runs]))
            tried.append((reached < WANTED_RECALL, speed, setting))
        chosen[peer.name] = min(tried)[2]
    times = {name: Times() for name in ("ours", *chosen)}
    recalls: dict[str, list[float]] = {name: [] for name in times}
    for at in range(_TUNING, len(questions)):
        for caller in callers:
            statement = (ROUTER, near(scene, caller, questions[at]))
            spent, rows = timed(partial(execute, statement))
            times["ours"].values.append(spent)
            recalls["ours"].append(right([row[0] for row in rows], at, caller))
            for peer in peers:
                spent, keys = ask(peer, at, caller, chosen[peer.name])
                times[peer.name].values.append(spent)
                recalls[peer.name].append(right(keys, at, caller))
    return {
        "visible": sorted(caller.count for caller in callers),
        **{
            name: times[name].as_dict()
            | {
                "recall": round(float(np.mean(recalls[name])), 4),
                "setting": chosen.get(name, ""),
                "times_ours": round(ratio(times[name].p50, times["ours"].p50), 2),
            }
            for name in times
        },
    }


def _summary(cell: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {row['p50']} ms ({row['recall']}{' ' if row['setting'] else ''}{row['setting']})"
        for name, row in cell.items()
        if isinstance(row, dict)
    )


def principals_of(authority: Authority) -> list[int]:
    """Everything by which the caller may be granted something, in the peers' numbers."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT p FROM accounts_principals(%s, %s) p",
            [authority.organization_id, authority.user_id],
        )
        return [authority.user_id, *sorted(row[0] + _TEAM for row in cursor.fetchall())]


def export(folder: Path) -> None:
    """All passages with their principals, as arrays; once a world."""
    if (folder / "exported").exists():
        return
    folder.mkdir(exist_ok=True)
    statement = f"COPY (SELECT {VECTOR_COLUMNS} FROM retrieval_vector) TO STDOUT (FORMAT binary)"
    with connection.cursor() as cursor:
        cursor.execute(_ACL)
        acl = dict(cursor.fetchall())
        with cursor.connection.cursor().copy(statement) as copy:
            data = b"".join(bytes(part) for part in copy)
    rows = np.frombuffer(data[len(BINARY_START) : -len(BINARY_END)], dtype=VECTOR_ROW)
    documents = rows["document_key"]["v"].tolist()
    lists = [acl.get(key, []) for key in documents]
    np.save(folder / "keys.npy", rows["chunk_key"]["v"].astype(np.int64))
    np.save(folder / "tenants.npy", rows["organization_key"]["v"].astype(np.int64))
    np.save(folder / "ends.npy", np.cumsum([0, *map(len, lists)], dtype=np.int64))
    np.save(folder / "principals.npy", np.array([p for row in lists for p in row], np.int64))
    vectors = np.lib.format.open_memmap(
        folder / "vectors.npy", mode="w+", dtype=np.float32, shape=rows["embedding"]["v"].shape
    )
    for at in range(0, len(rows), 50_000):
        vectors[at : at + 50_000] = rows["embedding"]["v"][at : at + 50_000]
    vectors.flush()
    (folder / "exported").touch()
