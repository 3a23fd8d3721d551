"""Runs a long command quietly, and shows that it is alive.

The command's output goes to a log file. After two seconds a line tells what is happening and for
how long; on a terminal it is redrawn in place. Standard library only, since nothing is installed
yet.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

QUIET_SECONDS = 2.0
LINE_EVERY_SECONDS = 10.0
POLL_SECONDS = 0.1


def say(text: str) -> None:
    """Write one line for the person at the terminal."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def last_line(log: Path) -> str:
    """Return the newest line of the log, or nothing; reads only its end."""
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - 2000))
        lines = stream.read().decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def run(
    title: str,
    command: Sequence[str | Path],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
) -> bool:
    """Run the command, output appended to the log, and say whether it succeeded."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        output.write(f"\n== {title}: {' '.join(str(word) for word in command)}\n".encode())
        output.flush()
        process = subprocess.Popen(  # noqa: S603  our own command line
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment) if environment is not None else None,
        )
        try:
            watch(title, process, log)
        except KeyboardInterrupt:
            process.wait()
            raise
    return process.returncode == 0


def watch(title: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for the process and show progress once it has taken two seconds."""
    started = time.monotonic()
    next_line = QUIET_SECONDS
    redraw = sys.stdout.isatty()
    while process.poll() is None:
        time.sleep(POLL_SECONDS)
        seconds = time.monotonic() - started
        if seconds < next_line:
            continue
        if redraw:
            width = os.get_terminal_size(sys.stdout.fileno()).columns or 80
            text = f"{title} ... {seconds:.0f} s  {last_line(log)}"[: max(20, width - 1)]
            sys.stdout.write(f"\r\033[K{text}")
            sys.stdout.flush()
            next_line = seconds + 0.5
        else:
            say(f"{title} ... {seconds:.0f} s")
            next_line = seconds + LINE_EVERY_SECONDS
    if next_line > QUIET_SECONDS:
        state = "done" if process.returncode == 0 else "failed"
        start = "\r\033[K" if redraw else ""
        say(f"{start}{title}: {state} in {time.monotonic() - started:.0f} s")
