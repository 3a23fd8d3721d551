"""Kaizen's own processes: what each one runs with, and the watch over them.

The web, worker and beat processes share one environment. The agent runtime gets a stripped one and
its connection token on standard input. No process gets the database owner's URL.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kaizen.embedded.child import Child, ProcessSpec
from kaizen.embedded.console import Console
from kaizen.embedded.environment import HOST

STOP_ORDER = ("runtime", "beat", "worker", "web")
STOP_SECONDS = 12.0
QUIET_CELERY = ("--without-gossip", "--without-mingle", "--without-heartbeat")
ROOT_WARNING = "ignore:You're running the worker with superuser privileges"


@dataclass(frozen=True)
class StackConfig:
    """All that the processes depend on.

    Args:
        root: the checkout, where every process runs.
        home: the folder for beat's own file.
        python: the interpreter of web, worker and beat.
        runtime_python: the interpreter of the agent runtime.
        environment: what web, worker and beat get (DATABASE_URL and so on).
        runtime_token: shared by web and runtime, nobody else.
        port: where the web processes answer.
        listener: descriptor of the socket bound to the port.
    """

    root: Path
    home: Path
    python: Path
    runtime_python: Path
    environment: Mapping[str, str]
    runtime_token: str = field(repr=False)
    port: int
    listener: int
    web_processes: int = 1
    worker_processes: int = 2
    runtime_processes: int = 1


def process_specs(config: StackConfig) -> list[ProcessSpec]:
    """Return how each process is started; the names of several of a kind end in -1, -2."""
    shared = {
        **config.environment,
        "DJANGO_SETTINGS_MODULE": config.environment.get("DJANGO_SETTINGS_MODULE")
        or "kaizen.settings",
        "PYTHONUNBUFFERED": "1",
    }
    shared.pop("DATABASE_OWNER_URL", None)
    shared.pop("KAIZEN_RUNTIME_TOKEN", None)
    # The web process opens a connection for every reading of every open page: it keeps a pool.
    web = {
        **shared,
        "KAIZEN_RUNTIME_TOKEN": config.runtime_token,
        "KAIZEN_DATABASE_POOL": shared.get("KAIZEN_DATABASE_POOL", "1"),
    }
    python = str(config.python)
    celery = (python, "-m", "celery", "--quiet", "-A", "kaizen")
    # Celery prints a paragraph about root on every start; the account is the newcomer's own choice.
    worker = {**shared, "PYTHONWARNINGS": ROOT_WARNING} if os.geteuid() == 0 else shared
    return [
        *(
            ProcessSpec(
                name=name,
                command=(
                    *(python, "-m", "daphne", "--fd", str(config.listener)),
                    *("--no-server-name", "--verbosity", "0", "kaizen.asgi:application"),
                ),
                environment=web,
                folder=config.root,
                descriptors=(config.listener,),
                patience=4.0,
            )
            for name in _names("web", config.web_processes)
        ),
        ProcessSpec(
            name="worker",
            command=(
                *(*celery, "worker", "--concurrency", str(config.worker_processes)),
                *("--loglevel", "INFO", *QUIET_CELERY),
            ),
            environment=worker,
            folder=config.root,
            patience=8.0,
        ),
        ProcessSpec(
            name="beat",
            command=(
                *(*celery, "beat", "--loglevel", "INFO", "--pidfile", ""),
                *("--schedule", str(config.home / "beat-schedule")),
            ),
            environment=shared,
            folder=config.root,
            patience=2.0,
        ),
        *(
            ProcessSpec(
                name=name,
                command=(
                    *(str(config.runtime_python), "-u", "-m", "agents.runtime"),
                    *("--backend", f"ws://{HOST}:{config.port}/bridge/"),
                ),
                environment={
                    "PATH": os.environ.get("PATH", os.defpath),
                    "LANG": os.environ.get("LANG", "C.UTF-8"),
                },
                folder=config.root,
                standard_input=config.runtime_token,
                patience=3.0,
            )
            for name in _names("runtime", config.runtime_processes)
        ),
    ]


def _names(kind: str, count: int) -> list[str]:
    return [kind] if count == 1 else [f"{kind}-{number}" for number in range(1, count + 1)]


class Supervisor:
    """Starts, watches and stops a set of processes."""

    def __init__(self, specs: list[ProcessSpec], *, console: Console) -> None:
        self.children = {spec.name: Child(spec, line=console.line) for spec in specs}

    def start(self, *kinds: str) -> None:
        """Start the processes of these kinds, all of them when none is named."""
        for child in self.children.values():
            if not kinds or child.kind in kinds:
                child.start()

    def watch(self) -> bool:
        """Restart what has died; say whether anything was started. Call it a few times a second."""
        restarted = [child.watch() for child in self.children.values()]
        return any(restarted)

    def stop(self) -> None:
        """Stop all: runtimes first, the web last. Whoever is not done in time is killed."""
        until = time.monotonic() + STOP_SECONDS
        for kind in STOP_ORDER:
            of_kind = [c for c in self.children.values() if c.kind == kind]
            for child in of_kind:
                child.ask_to_stop()
            for child in of_kind:
                left = max(0.2, until - time.monotonic())
                child.stop(seconds=min(child.spec.patience, left))

    def kill(self) -> None:
        """End all of it now."""
        for child in self.children.values():
            child.stop(seconds=0)
