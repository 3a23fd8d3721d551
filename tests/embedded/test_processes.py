"""What Kaizen's processes are started with, and how they are kept running and stopped."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

from kaizen.embedded.child import Child, ProcessSpec
from kaizen.embedded.leftovers import is_running
from kaizen.embedded.supervisor import StackConfig, process_specs

TOKEN = "token-of-the-runtime"


@pytest.fixture
def specs(tmp_path: Path) -> dict[str, ProcessSpec]:
    """The product's processes for an invented configuration."""
    config = StackConfig(
        root=tmp_path,
        home=tmp_path,
        python=Path(sys.executable),
        runtime_python=Path(sys.executable),
        environment={
            "DATABASE_URL": "postgresql://kaizen_app@127.0.0.1/kaizen",
            "DATABASE_OWNER_URL": "postgresql://kaizen_owner@127.0.0.1/kaizen",
            "KAIZEN_SECRET_KEY": "secret",
            "KAIZEN_RUNTIME_TOKEN": TOKEN,
        },
        runtime_token=TOKEN,
        port=8000,
        listener=5,
        web_processes=2,
    )
    return {spec.name: spec for spec in process_specs(config)}


class Lines:
    """Collects what a process says."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._changed = threading.Condition()

    def __call__(self, name: str, text: str) -> None:
        with self._changed:
            self.texts.append(f"{name}: {text}")
            self._changed.notify_all()

    def wait_for(self, text: str) -> None:
        """Wait until this line was said."""
        with self._changed:
            assert self._changed.wait_for(lambda: text in self.texts, timeout=20), self.texts


def python(code: str, *, name: str = "one", patience: float = 5.0) -> ProcessSpec:
    """A small real process."""
    return ProcessSpec(
        name=name,
        command=(sys.executable, "-u", "-c", code),
        environment={"PATH": "/usr/bin:/bin"},
        folder=Path("/"),
        patience=patience,
    )


def test_each_kind_is_a_process_of_its_own(specs: dict[str, ProcessSpec]) -> None:
    assert list(specs) == ["web-1", "web-2", "worker", "beat", "runtime"]


def test_runtime_environment_holds_no_secret(specs: dict[str, ProcessSpec]) -> None:
    assert set(specs["runtime"].environment) == {"PATH", "LANG"}


def test_runtime_token_is_on_standard_input_and_not_in_the_arguments(
    specs: dict[str, ProcessSpec],
) -> None:
    assert specs["runtime"].standard_input == TOKEN
    assert TOKEN not in " ".join(specs["runtime"].command)


def test_only_the_web_verifies_the_runtime_token(specs: dict[str, ProcessSpec]) -> None:
    holders = [name for name, spec in specs.items() if TOKEN in spec.environment.values()]
    assert holders == ["web-1", "web-2"]


def test_no_process_gets_the_owner_url(specs: dict[str, ProcessSpec]) -> None:
    assert not [name for name, spec in specs.items() if "DATABASE_OWNER_URL" in spec.environment]


def test_web_processes_share_one_socket(specs: dict[str, ProcessSpec]) -> None:
    assert specs["web-1"].descriptors == specs["web-2"].descriptors == (5,)


def test_lines_carry_the_name_of_the_process() -> None:
    lines = Lines()
    child = Child(python("print('hello')", name="beat"), line=lines)
    child.start()
    lines.wait_for("beat: hello")
    child.stop()


def test_dead_process_is_started_again_after_a_delay() -> None:
    lines = Lines()
    child = Child(python("print('up'); raise SystemExit(3)"), line=lines)
    child.start()
    assert child.process is not None
    first = child.process.pid
    child.process.wait()
    assert child.watch() is False
    lines.wait_for("one: stopped unexpectedly (exit code 3); starting again in 1 s")
    until = time.monotonic() + 10
    while not child.watch():
        assert time.monotonic() < until
        time.sleep(0.05)
    assert child.process.pid != first
    child.stop()


def test_delay_doubles_with_each_crash() -> None:
    lines = Lines()
    child = Child(python("raise SystemExit(1)"), line=lines)
    child.start()
    until = time.monotonic() + 30
    while child.crashes < 3:
        assert time.monotonic() < until
        child.watch()
        time.sleep(0.02)
    child.stop()
    assert [text.rsplit(" in ", 1)[1] for text in lines.texts] == ["1 s", "2 s", "4 s"]


def test_process_that_ignores_the_request_is_killed() -> None:
    code = "import signal,time; signal.signal(15, signal.SIG_IGN); print('deaf'); time.sleep(60)"
    lines = Lines()
    child = Child(python(code, patience=0.3), line=lines)
    child.start()
    lines.wait_for("one: deaf")
    assert child.process is not None
    number = child.process.pid
    child.stop()
    assert not is_running(number)


def test_grandchildren_end_with_their_process() -> None:
    code = (
        "import subprocess,sys,time\n"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid)\n"
        "time.sleep(60)"
    )
    lines = Lines()
    child = Child(python(code), line=lines)
    child.start()
    until = time.monotonic() + 20
    while not lines.texts:
        assert time.monotonic() < until
        time.sleep(0.02)
    grandchild = int(lines.texts[0].removeprefix("one: "))
    child.stop()
    until = time.monotonic() + 5
    while is_running(grandchild):
        assert time.monotonic() < until
        time.sleep(0.02)
