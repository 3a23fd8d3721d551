"""The steps between stores and processes: commands that run once, and waiting for the answer."""

from __future__ import annotations

import contextlib
import http.client
import logging
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from kaizen.embedded.console import Console
from kaizen.embedded.environment import HOST
from kaizen.embedded.failures import LaunchError
from kaizen.embedded.supervisor import Supervisor

logger = logging.getLogger("kaizen.up")

QUIET_SECONDS = 2.0
REMIND_SECONDS = 10.0
ANSWER_SECONDS = 180.0
CRASHES_ALLOWED = 3
TRACEBACK = "Traceback (most recent call last)"


class Step:
    """A command that runs once: its progress is shown, a traceback goes to the log only."""

    def __init__(self, title: str, name: str, *, console: Console, keep_output: bool) -> None:
        self.output: list[str] = []
        self.reason = ""
        self._title = title
        self._name = name
        self._console = console
        self._keep_output = keep_output
        self._has_failed = False
        self._last_word = 0.0

    def run(self, command: Sequence[str], *, environment: Mapping[str, str], folder: Path) -> bool:
        """Run to the end and say whether it succeeded; `output` then holds the kept lines."""
        process = subprocess.Popen(  # noqa: S603  our own command line
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
        )
        readers = [
            threading.Thread(target=self._read, args=(process.stdout, True), daemon=True),
            threading.Thread(target=self._read, args=(process.stderr, False), daemon=True),
        ]
        for reader in readers:
            reader.start()
        try:
            self._wait(process)
        except BaseException:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()
            raise
        for reader in readers:
            reader.join(timeout=5)
        return process.returncode == 0

    def _wait(self, process: subprocess.Popen[str]) -> None:
        """Tell that it still runs: after two seconds, then whenever it was silent for long."""
        started, patience = time.monotonic(), QUIET_SECONDS
        self._last_word = started
        while process.poll() is None:
            time.sleep(0.05)
            now = time.monotonic()
            if now - self._last_word > patience:
                self._last_word, patience = now, REMIND_SECONDS
                self._console.say(f"{self._title} ... {now - started:.0f} s")

    def _read(self, stream: IO[str], is_output: bool) -> None:
        with stream:
            for line in stream:
                text = line.rstrip().removeprefix("CommandError: ")
                if is_output and self._keep_output:
                    self.output.append(text)
                elif not is_output and (self._has_failed or text.startswith(TRACEBACK)):
                    self._has_failed = True
                    self.reason = text or self.reason
                    logger.error("%s| %s", self._name, text)
                elif text:
                    self._last_word = time.monotonic()
                    self._console.line(self._name, text)


def is_healthy(port: int) -> bool:
    """Say whether the web processes answer that all is well."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5.0)
    try:
        connection.request("GET", "/healthz", headers={"Host": f"localhost:{port}"})
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def wait_until_healthy(supervisor: Supervisor, *, port: int, console: Console, log: Path) -> None:
    """Wait until the web answers and all that was started runs. Raises LaunchError otherwise."""
    started, next_word = time.monotonic(), QUIET_SECONDS
    while (seconds := time.monotonic() - started) < ANSWER_SECONDS:
        supervisor.watch()
        failing = [
            c.spec.name for c in supervisor.children.values() if c.crashes >= CRASHES_ALLOWED
        ]
        if failing:
            raise LaunchError(f"{' and '.join(failing)} can't be kept running. Details: {log}")
        started_ones = [c for c in supervisor.children.values() if c.process is not None]
        if is_healthy(port) and all(child.is_running() for child in started_ones):
            return
        if seconds > next_word:
            next_word = seconds + REMIND_SECONDS
            console.say(f"Waiting for the first answer ... {seconds:.0f} s")
        time.sleep(0.2)
    raise LaunchError(f"Kaizen did not answer within {ANSWER_SECONDS:.0f} s. Details: {log}")
