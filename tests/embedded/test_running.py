"""One run at a time, and a killed run's processes are found by more than their number."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kaizen.embedded.environment import adopt_environment
from kaizen.embedded.failures import LaunchError
from kaizen.embedded.leftovers import describe
from kaizen.embedded.paths import Layout
from kaizen.embedded.ports import listen
from kaizen.embedded.running import AlreadyRunning, hold_lock, sweep_leftovers, write_record
from kaizen.embedded.state import State

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """An empty installation."""
    layout = Layout(root=tmp_path, home=tmp_path / ".kaizen")
    layout.prepare()
    return layout


def record(layout: Layout, *, number: int, command: list[str]) -> None:
    """Write the record of an earlier run with one process."""
    entry = {"name": "worker", "number": number, "command": command, "folder": str(layout.root)}
    layout.running.write_text(json.dumps({"address": "http://x/", "processes": [entry]}))


def start_sleeper(folder: Path | str) -> subprocess.Popen[bytes]:
    """A process with the command SLEEP; for an instant after its start it shows no command yet."""
    process = subprocess.Popen(SLEEP, cwd=folder, start_new_session=True)
    until = time.monotonic() + 10
    while "sleep" not in describe(process.pid) and time.monotonic() < until:
        time.sleep(0.01)
    return process


def test_process_of_a_killed_run_is_ended(layout: Layout) -> None:
    left = start_sleeper(layout.root)
    record(layout, number=left.pid, command=SLEEP)
    # The real leftover was adopted by init; here it is our child, so it must be waited for.
    assert sweep_leftovers_while_waiting(layout, left) == ["worker"]
    assert not layout.running.exists()


def sweep_leftovers_while_waiting(layout: Layout, process: subprocess.Popen[bytes]) -> list[str]:
    """Sweep; a zombie counts as gone."""
    names = sweep_leftovers(layout)
    process.wait(timeout=5)
    return names


def test_process_restarted_after_the_record_was_written_is_ended(layout: Layout) -> None:
    left = start_sleeper(layout.root)
    record(layout, number=2**22 + 1, command=SLEEP)
    assert sweep_leftovers_while_waiting(layout, left) == ["worker"]


def test_stranger_with_a_reused_number_is_left_alone(layout: Layout) -> None:
    stranger = start_sleeper(layout.root)
    record(layout, number=stranger.pid, command=["python", "-m", "celery", "worker"])
    assert sweep_leftovers(layout) == []
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_same_command_in_another_folder_is_left_alone(layout: Layout) -> None:
    stranger = start_sleeper("/")
    record(layout, number=stranger.pid, command=SLEEP)
    assert sweep_leftovers(layout) == []
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_damaged_record_is_passed_over(layout: Layout) -> None:
    layout.running.write_text('{"processes": [{"name": 1}, "x"')
    assert sweep_leftovers(layout) == []


def test_second_run_learns_the_address_of_the_first(layout: Layout) -> None:
    with hold_lock(layout):
        write_record(layout, address="http://localhost:8123/", children=[])
        with pytest.raises(AlreadyRunning, match="http://localhost:8123/"), hold_lock(layout):
            pass


def test_lock_is_free_after_the_run(layout: Layout) -> None:
    with hold_lock(layout):
        pass
    with hold_lock(layout):
        pass


def test_taken_port_is_refused_with_the_way_out() -> None:
    with listen(0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(LaunchError) as refused:
            listen(port)
    assert str(refused.value) == (
        f"Port {port} on 127.0.0.1 is already used by another program. "
        f"Stop that one, or take another port: make up PORT={port + 1}"
    )


def test_secret_is_made_once_and_kept(tmp_path: Path) -> None:
    first = State(tmp_path / "state.json").secret("secret_key")
    assert State(tmp_path / "state.json").secret("secret_key") == first
    assert len(first) >= 40


def test_state_file_is_for_its_owner_only(tmp_path: Path) -> None:
    State(tmp_path / "state.json").put("name", "value")
    assert (tmp_path / "state.json").stat().st_mode & 0o777 == 0o600


def test_damaged_state_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"secret_key": ')
    with pytest.raises(LaunchError, match=r"state\.json is damaged"):
        State(tmp_path / "state.json")


def test_command_by_hand_adopts_the_installation(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = State(layout.state)
    state.put("valkey.port", "6400")
    state.put("valkey.password", "pw")
    monkeypatch.setenv("KAIZEN_HOME", str(layout.home))
    monkeypatch.delenv("VALKEY_URL")
    adopt_environment(["manage.py", "shell"])
    assert_environment("VALKEY_URL", "redis://:pw@127.0.0.1:6400/0")


def test_environment_from_outside_wins(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    State(layout.state).put("valkey.port", "6400")
    monkeypatch.setenv("KAIZEN_HOME", str(layout.home))
    monkeypatch.setenv("VALKEY_URL", "redis://elsewhere/0")
    adopt_environment(["manage.py", "shell"])
    assert_environment("VALKEY_URL", "redis://elsewhere/0")


def test_the_launcher_itself_adopts_nothing(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    State(layout.state).put("secret_key", "from the installation")
    monkeypatch.setenv("KAIZEN_HOME", str(layout.home))
    monkeypatch.delenv("KAIZEN_SECRET_KEY")
    adopt_environment(["manage.py", "up"])
    assert_environment("KAIZEN_SECRET_KEY", None)


def assert_environment(name: str, value: str | None) -> None:
    """Compare a variable of this process."""
    assert os.environ.get(name) == value
