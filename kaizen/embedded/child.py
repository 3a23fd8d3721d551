"""One supervised process: its own group, its lines passed on, restarted with back-off."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

LONGEST_LINE = 16_384
FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 30.0
HEALTHY_AFTER_SECONDS = 60.0


@dataclass(frozen=True)
class ProcessSpec:
    """What it takes to start one process.

    Args:
        standard_input: one line handed over and then closed, for what may be in no environment.
        descriptors: open files the process inherits.
        patience: seconds it gets to stop by itself.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    standard_input: str | None = field(default=None, repr=False)
    descriptors: tuple[int, ...] = ()
    patience: float = 5.0


class Child:
    """A process that is kept running until it is stopped."""

    def __init__(self, spec: ProcessSpec, *, line: Callable[[str, str], None]) -> None:
        self.spec = spec
        self.process: subprocess.Popen[bytes] | None = None
        self.crashes = 0
        self._line = line
        self._reader: threading.Thread | None = None
        self._started = 0.0
        self._delay = FIRST_DELAY_SECONDS
        self._due: float | None = None
        self._asked = False

    @property
    def kind(self) -> str:
        """The name without the number that tells several of a kind apart."""
        return self.spec.name.partition("-")[0]

    def start(self) -> None:
        """Start the process."""
        self._due = None
        self._asked = False
        self._started = time.monotonic()
        self.process = subprocess.Popen(  # noqa: S603  our own command line
            self.spec.command,
            stdin=subprocess.DEVNULL if self.spec.standard_input is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(self.spec.environment),
            cwd=self.spec.folder,
            pass_fds=self.spec.descriptors,
            start_new_session=True,
        )
        if self.process.stdin is not None:
            # It may have died already; the watch says so.
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.write(f"{self.spec.standard_input}\n".encode())
                self.process.stdin.close()
        if self.process.stdout is not None:
            self._reader = threading.Thread(
                target=self._pass_on, args=(self.process.stdout,), daemon=True
            )
            self._reader.start()

    def watch(self) -> bool:
        """Restart the process when it has died and its delay is over; say whether that was done."""
        if self.process is None:
            return False
        code = self.process.poll()
        if code is None:
            return False
        now = time.monotonic()
        if self._due is None:
            if now - self._started > HEALTHY_AFTER_SECONDS:
                self._delay = FIRST_DELAY_SECONDS
            self.crashes += 1
            self._end_group(signal.SIGKILL)
            self._due = now + self._delay
            self._line(
                self.spec.name, f"{describe_exit(code)}; starting again in {self._delay:.0f} s"
            )
            self._delay = min(self._delay * 2, LONGEST_DELAY_SECONDS)
        if now < self._due:
            return False
        self.start()
        return True

    def is_running(self) -> bool:
        """Say whether the process is there now."""
        return self.process is not None and self.process.poll() is None

    def ask_to_stop(self) -> None:
        """Ask the process, once, to finish what it does: Celery takes a second request amiss."""
        if self.is_running() and not self._asked and self.process is not None:
            self._asked = True
            self.process.terminate()

    def stop(self, *, seconds: float | None = None) -> None:
        """Ask, wait, then kill the process with all it started."""
        if self.process is None:
            return
        self.ask_to_stop()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(self.spec.patience if seconds is None else seconds)
        self._end_group(signal.SIGKILL)
        self.process.wait()
        if self._reader is not None:
            self._reader.join(timeout=0.5)
        self.process = None

    def _end_group(self, number: signal.Signals) -> None:
        """Signal what is left of the process's own group, so that no grandchild outlives it."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def _pass_on(self, stream: IO[bytes]) -> None:
        with stream:
            while piece := stream.readline(LONGEST_LINE):
                text = piece.decode("utf-8", "replace").rstrip("\r\n")
                if text.strip():
                    self._line(self.spec.name, text)


def describe_exit(code: int) -> str:
    """Say in words how a process ended."""
    if code >= 0:
        return f"stopped unexpectedly (exit code {code})"
    try:
        return f"was killed ({signal.Signals(-code).name})"
    except ValueError:
        return f"was killed (signal {-code})"
