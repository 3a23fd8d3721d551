"""The product's own processes, started for one test against its own database. Killable one by one.

They are started by the launcher's own `process_specs`, so a test runs exactly what `make up` runs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from kaizen.embedded.child import Child
from kaizen.embedded.supervisor import StackConfig, process_specs
from tests import servers

RUNTIME_PYTHON = servers.ROOT / ".kaizen" / "runtime-venv" / "bin" / "python"
PASSED_ON = (
    "KAIZEN_SECRET_KEY",
    "KAIZEN_FIELD_KEYS",
    "KAIZEN_HOSTS",
    "KAIZEN_HOME",
    "STORAGE_URL",
    "VALKEY_URL",
    "PATH",
    "LANG",
)


class Stack:
    """Processes around one database. Use as a context manager."""

    def __init__(
        self, database: str, *, lease_seconds: float = 30.0, web: int = 1, **extra: str
    ) -> None:
        self.database = database
        self.listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(512)
        self.listener.set_inheritable(True)
        self.port = self.listener.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.lines: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        environment |= {
            "DATABASE_URL": servers.database_url(database),
            "KAIZEN_LEASE_SECONDS": str(lease_seconds),
            **extra,
        }
        home = Path(servers.HOME) / database
        home.mkdir(parents=True, exist_ok=True)
        config = StackConfig(
            root=servers.ROOT,
            home=home,
            python=Path(sys.executable),
            runtime_python=RUNTIME_PYTHON,
            environment=environment,
            runtime_token=os.environ["KAIZEN_RUNTIME_TOKEN"],
            port=self.port,
            listener=self.listener.fileno(),
            web_processes=web,
            worker_processes=1,
        )
        self.children = {spec.name: Child(spec, line=self._line) for spec in process_specs(config)}

    def __enter__(self) -> Stack:
        return self

    def __exit__(self, *_: object) -> None:
        for name in ("runtime", "beat", "worker"):
            self.kill(name)
        for name in self.children:
            self.kill(name)
        self.listener.close()

    def start(self, *names: str) -> None:
        """Start processes by name and wait until the web answers, if it is among them."""
        for name in names:
            self.children[name].start()
        if any(name.startswith("web") for name in names):
            self.wait_for(self.answers, what="the web process")

    def kill(self, name: str) -> None:
        """SIGKILL a process and all it started."""
        child = self.children[name]
        if child.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.process.pid, signal.SIGKILL)
            child.process.wait()
            child.process = None

    def terminate(self, name: str) -> int:
        """SIGTERM a process and return its exit code."""
        process = self.children[name].process
        assert process is not None
        process.terminate()
        return process.wait(20)

    def answers(self) -> bool:
        """Whether the health check says yes."""
        try:
            with urllib.request.urlopen(f"{self.address}/healthz", timeout=5) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def wait_for(self, condition: Callable[[], bool], *, what: str, seconds: float = 40.0) -> None:
        """Wait until `condition` holds; fail with the processes' last lines otherwise."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if condition():
                return
            time.sleep(0.1)
        said = "\n".join(f"{name}: {line}" for name, line in self.lines[-60:])
        raise AssertionError(f"waited in vain for {what}\n{said}")

    def log(self) -> str:
        """Everything the processes wrote."""
        return "\n".join(line for _, line in self.lines)

    def _line(self, name: str, line: str) -> None:
        with self._lock:
            self.lines.append((name, line))
