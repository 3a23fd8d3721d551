"""`manage.py up` itself: everything starts, survives kills of its parts and its own, and stops."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kaizen.embedded.leftovers import is_running
from kaizen.embedded.ports import choose_port

ROOT = Path(__file__).resolve().parent.parent.parent
RUNTIME = ROOT / ".kaizen" / "runtime-venv"
PATIENCE = 240.0

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not RUNTIME.exists(), reason="the runtime's environment is not built yet"),
]


class Up:
    """One `manage.py up` with a home of its own."""

    def __init__(self, home: Path, port: int) -> None:
        self.home = home
        self.port = port
        self.lines: list[str] = []
        self._changed = threading.Condition()
        kept = ("PATH", "HOME", "LANG")
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--port", str(port), "--no-demo"],
            cwd=ROOT,
            env={name: os.environ[name] for name in kept if name in os.environ}
            | {"KAIZEN_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip())
                self._changed.notify_all()

    def wait_for(self, text: str) -> None:
        """Wait until a line holds this text."""
        with self._changed:
            found = self._changed.wait_for(
                lambda: any(text in line for line in self.lines), timeout=PATIENCE
            )
        assert found, "\n".join(self.lines)

    def number_of(self, name: str) -> int:
        """Return the number of a running process."""
        record = json.loads((self.home / "running.json").read_text())
        return next(int(p["number"]) for p in record["processes"] if p["name"] == name)

    def status(self) -> int:
        """Ask for the health page."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", "/healthz", headers={"Host": "localhost"})
        return connection.getresponse().status

    def stop(self) -> int:
        """End it as Ctrl-C or a service manager does, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Up]]:
    """Start it, any number of times, on the same data and port."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "runtime-venv").symlink_to(RUNTIME)
    port = choose_port(None)
    started: list[Up] = []

    def begin() -> Up:
        started.append(Up(home, port))
        return started[-1]

    yield begin
    if started and started[-1].process.poll() is None:
        started[-1].stop()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something that takes a moment."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_it_serves_restarts_its_parts_recovers_from_its_own_kill_and_stops(
    start: Callable[[], Up],
) -> None:
    first = start()
    first.wait_for("Kaizen is ready")
    assert first.status() == 200

    second = Up(first.home, first.port)
    assert second.process.wait(timeout=PATIENCE) == 0
    second.wait_for(f"Kaizen is already running at http://localhost:{first.port}/")

    killed = first.number_of("worker")
    os.kill(killed, signal.SIGKILL)
    first.wait_for("was killed (SIGKILL); starting again in 1 s")
    wait_until(lambda: first.number_of("worker") != killed)

    left = [first.number_of(name) for name in ("web", "worker", "beat", "runtime")]
    first.process.kill()
    first.process.wait()
    third = start()
    third.wait_for("Ended what a killed earlier run had left: beat, runtime, web, worker.")
    third.wait_for("Kaizen is ready")
    assert third.status() == 200
    assert not [number for number in left if is_running(number)]

    running = [third.number_of(name) for name in ("web", "worker", "beat", "runtime")]
    assert third.stop() == 0
    assert not [number for number in running if is_running(number)]
    assert not (third.home / "running.json").exists()
    assert not [line for line in third.lines if "Traceback" in line]
