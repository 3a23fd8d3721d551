"""One run at a time in a checkout: the lock, the record of what runs, the sweep after a kill."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kaizen.embedded.child import Child
from kaizen.embedded.leftovers import find_running, is_running, stop_process
from kaizen.embedded.paths import Layout
from kaizen.embedded.state import write_private

logger = logging.getLogger("kaizen.up")

ASKED_SECONDS = 5.0


class AlreadyRunning(Exception):
    """Another supervisor holds the lock; carries its address, empty while it is still starting."""

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(address)


@contextlib.contextmanager
def hold_lock(layout: Layout) -> Iterator[None]:
    """Be the only supervisor of this checkout. The system frees the lock of a killed one.

    Raises AlreadyRunning.
    """
    with layout.lock.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyRunning(str(read_record(layout).get("address", ""))) from error
        yield


def read_record(layout: Layout) -> dict[str, Any]:
    """Return what the last run wrote; empty when there is none or it is unreadable."""
    try:
        record = json.loads(layout.running.read_text())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def write_record(layout: Layout, *, address: str, children: list[Child]) -> None:
    """Write down which processes run, for the run after a kill. A failure here stops nothing."""
    record = {
        "address": address,
        "supervisor": os.getpid(),
        "processes": [
            {
                "name": child.spec.name,
                "number": child.process.pid,
                "command": list(child.spec.command),
                "folder": str(child.spec.folder),
            }
            for child in children
            if child.process is not None
        ],
    }
    try:
        write_private(layout.running, json.dumps(record, indent=1))
    except OSError:
        logger.exception("the record of the running processes could not be written")


def clear_record(layout: Layout) -> None:
    """Forget a run that has stopped."""
    layout.running.unlink(missing_ok=True)


def sweep_leftovers(layout: Layout) -> list[str]:
    """End what a run whose supervisor was killed left; return the names. Needs the lock."""
    found: dict[int, str] = {}
    for entry in read_record(layout).get("processes", []):
        try:
            name, number = str(entry["name"]), int(entry["number"])
            command, folder = [str(word) for word in entry["command"]], Path(entry["folder"])
        except (KeyError, TypeError, ValueError):
            continue
        found |= dict.fromkeys(find_running(number, command=command, folder=folder), name)
    for number in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(number, signal.SIGTERM)
    until = time.monotonic() + ASKED_SECONDS
    while time.monotonic() < until and any(is_running(number) for number in found):
        time.sleep(0.05)
    for number in found:
        if is_running(number):
            stop_process(number, first=signal.SIGKILL, seconds=5.0)
    clear_record(layout)
    return sorted(set(found.values()))
