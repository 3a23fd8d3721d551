"""Finds and ends what a killed earlier run left behind, and nothing else.

A recorded process number is never enough: numbers are reused. A process counts as ours only when
its whole command line and its working folder are the recorded ones too.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Seen:
    """A running process as the operating system describes it."""

    number: int
    command: tuple[str, ...]
    folder: str


def look_at(number: int) -> Seen | None:
    """Describe a process; None when it is gone, a zombie, or not ours to look at."""
    if not PROC.is_dir():
        return _look_with_ps(number)
    here = PROC / str(number)
    try:
        words = (here / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        folder = str((here / "cwd").readlink())
    except OSError:
        return None
    command = tuple(word.decode("utf-8", "replace") for word in words)
    return Seen(number, command, folder) if any(command) else None


def _look_with_ps(number: int) -> Seen | None:
    """Where there is no /proc: `ps` tells no working folder, so the command line alone must do."""
    if shutil.which("ps") is None:
        return None
    answer = subprocess.run(  # noqa: S603  our own command line
        ["ps", "-o", "command=", "-p", str(number)],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    return Seen(number, tuple(answer), "") if answer else None


def describe(number: int) -> str:
    """Return a process's command line and working folder in one text; empty when it is gone."""
    seen = look_at(number)
    return f"{' '.join(seen.command)} [{seen.folder}]" if seen else ""


def find_running(recorded: int, *, command: Sequence[str], folder: Path) -> list[int]:
    """Return the processes that run exactly this command in exactly this folder.

    All processes are looked at, since one may have been restarted after the record was written.
    Where there is no /proc only the recorded one is.
    """
    wanted = " ".join(command)
    return [
        seen.number
        for seen in _look_at_all(recorded)
        if " ".join(seen.command) == wanted and seen.folder in ("", str(folder))
    ]


def _look_at_all(recorded: int) -> Iterator[Seen]:
    numbers = [int(entry) for entry in os.listdir(PROC) if entry.isdigit()] if PROC.is_dir() else []
    for number in numbers or [recorded]:
        seen = look_at(number)
        if seen is not None:
            yield seen


def is_running(number: int) -> bool:
    """Say whether a process exists and is no zombie."""
    return look_at(number) is not None


def stop_process(number: int, *, first: signal.Signals, seconds: float) -> None:
    """End a process that is not our child: ask, wait, then kill. Returns when it is gone."""
    for wanted, patience in ((first, seconds), (signal.SIGKILL, 5.0)):
        try:
            os.kill(number, wanted)
        except (ProcessLookupError, PermissionError):
            return
        until = time.monotonic() + patience
        while is_running(number) and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        if not is_running(number):
            return
