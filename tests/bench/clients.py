"""Several clients at once: each a process with a connection that asks question after question."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import time
from collections.abc import Sequence
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.world import prepare_worker

Statement = tuple[str, dict[str, Any]]
CLIENTS = 8
SECONDS = float(os.environ.get("BENCH_SECONDS", "10"))
_WARM_UP = 2.0
# Between two acts of who reads or writes beside a change of grants: busy, not saturated.
_PAUSES = {"read": 0.05, "write": 0.2}
_jobs: dict[str, list[Statement]] = {}


def run_clients(loads: dict[str, Sequence[Statement]]) -> dict[str, dict[str, Any]]:
    """For each named load: queries a second of 8 clients together, and each query's time."""
    context = multiprocessing.get_context("spawn")
    results = {}
    with context.Pool(CLIENTS, _prepare, [dict(loads)]) as pool:
        pool.map(_connect, range(4 * CLIENTS), chunksize=1)
        for name in loads:
            start = time.time() + 1.0
            tasks = [(name, number, start) for number in range(CLIENTS)]
            runs = pool.map(_run, tasks, chunksize=1)
            times = np.concatenate([np.array(run) for run in runs])
            results[name] = {
                "qps": round(len(times) / SECONDS, 1),
                "p50": round(float(np.percentile(times, 50)), 2),
                "p95": round(float(np.percentile(times, 95)), 2),
                "n": len(times),
            }
    return results


def _prepare(loads: dict[str, list[Statement]]) -> None:
    prepare_worker()
    _jobs.update(loads)


def _connect(_: int) -> None:
    from django.db import connection

    connection.ensure_connection()
    time.sleep(0.05)


def _run(task: tuple[str, int, float]) -> list[float]:
    """Milliseconds of each query in the measured seconds."""
    from tests.bench.timing import execute, timed

    name, number, start = task
    jobs = _jobs[name]
    at = number * len(jobs) // CLIENTS
    time.sleep(max(0.0, start - time.time()))
    times: list[float] = []
    end = start + _WARM_UP + SECONDS
    while time.time() < end:
        spent, _ = timed(lambda: execute(jobs[at % len(jobs)]))  # noqa: B023  called at once
        at += 1
        if time.time() >= start + _WARM_UP:
            times.append(spent)
    return times


def begin_beside(role: str, given: str, end: Event, counts: Any, number: int) -> None:
    """A reader or a writer in a process of its own: counts what it does until the end."""
    prepare_worker()
    from tests.bench.stages import grants_load

    work = pickle.loads(Path(given).read_bytes())[role]
    act = grants_load.reader(work) if role == "read" else grants_load.writer(work)
    while not end.wait(_PAUSES[role]):
        act()
        counts[number] += 1
