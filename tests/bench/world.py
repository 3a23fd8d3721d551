"""Builds a world once and keeps it: `.kaizen/bench/<size>-<digest>/`, where the digest is of the
schema and of what makes worlds.

Stages are written down as they are done, so that a build that was cut off goes on where it can.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from tests import servers
from tests.bench.server import HOME, BenchServer, held, running, say, use
from tests.bench.shape import BUILD_SEED

DATABASE = "world"
WORKERS = max(1, min(4, os.cpu_count() or 1))
_MAKERS = ("shape.py", "material.py", "load.py", "rights.py", "building.py")


def digest() -> str:
    """Of the schema and of the code that makes worlds."""
    here = Path(__file__).parent
    root = servers.ROOT
    files = sorted([*root.glob("*/migrations/*.py"), *root.glob("retrieval/models/*.py")])
    files += [root / "accounts" / "models.py", *(here / name for name in _MAKERS)]
    whole = hashlib.sha256()
    for file in files:
        whole.update(file.read_bytes())
    return whole.hexdigest()[:12]


def folder_of(size: int) -> Path:
    """Where the world of this size is or will be. BENCH_REUSE takes the newest whole one, whatever
    schema it has; `python -m tests.bench functions` then gives it today's functions.
    """
    if os.environ.get("BENCH_REUSE"):
        whole = [path.parent for path in HOME.glob(f"{size}-{BUILD_SEED}-*/world.json")]
        if whole:
            return max(whole, key=lambda path: path.stat().st_mtime)
    return HOME / f"{size}-{BUILD_SEED}-{digest()}"


@dataclass(frozen=True)
class Organization:
    """A measured organisation."""

    name: str
    id: UUID
    key: int
    slug: str
    space_key: int
    passages: int
    callers: dict[str, list[int]]


@dataclass(frozen=True)
class World:
    """A built world and its running server."""

    size: int
    folder: Path
    server: BenchServer
    organizations: dict[str, Organization]

    @property
    def url(self) -> str:
        """The address for the product's own role."""
        return self.server.url(DATABASE)


@contextmanager
def opened(size: int) -> Iterator[World]:
    """The world of this size with its server running; Django points at it."""
    folder = folder_of(size)
    if not (folder / "world.json").exists():
        raise SystemExit(f"no world of {size:,} passages: python -m tests.bench world")
    with running(folder) as server:
        use(server.url(DATABASE))
        yield World(size, folder, server, _read(folder))


@contextmanager
def fresh(name: str) -> Iterator[BenchServer]:
    """An empty database of this name, as the product migrates it; Django points at it."""
    with running(HOME / f"fresh-{digest()}") as server:
        server.make_database(name)
        use(server.url(name))
        yield server


def _read(folder: Path) -> dict[str, Organization]:
    found: dict[str, Any] = json.loads((folder / "world.json").read_text())
    return {
        name: Organization(name=name, **{**row, "id": UUID(row["id"])})
        for name, row in found["organizations"].items()
    }


class Stages:
    """Which stages of a build are done, in a file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "stages.json"
        self.done: dict[str, float] = (
            json.loads(self.path.read_text()) if self.path.exists() else {}
        )

    def run(self, name: str, act: Callable[[], object]) -> None:
        """Do `act` unless it was done before."""
        if name in self.done:
            return
        say(f"{name} ...")
        began = time.perf_counter()
        act()
        self.done[name] = round(time.perf_counter() - began, 1)
        self.path.write_text(json.dumps(self.done))
        say(f"{name}: {self.done[name]:,.1f} s")

    def forget(self) -> None:
        """Begin anew."""
        self.done = {}
        self.path.unlink(missing_ok=True)


def build(size: int) -> None:
    """Build the world of this size unless it is there."""
    folder = folder_of(size)
    if (folder / "world.json").exists():
        say(f"the world of {size:,} passages is in {folder}")
        return
    say(f"building a world of {size:,} passages in {folder}")
    with held(folder):
        stages = Stages(folder)
        server = BenchServer(folder)
        server.start(loading=True)
        try:
            if "load" not in stages.done:
                stages.forget()
                stages.run("database", lambda: server.make_database(DATABASE))
            use(server.url(DATABASE))
            from tests.bench import building

            with multiprocessing.get_context("spawn").Pool(WORKERS, prepare_worker) as pool:
                building.run(server, folder, stages, size=size, map_over=pool.imap_unordered)
        finally:
            server.stop()
    say(f"built: {sum(stages.done.values()):,.0f} s in all")


def prepare_worker() -> None:
    """Set up Django in a process of a pool; the address is in the environment."""
    import django

    django.setup()
