"""The embedded Valkey: answers only to its password, and a left one is replaced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kaizen.embedded.leftovers import describe
from kaizen.embedded.valkey import Valkey, is_answering


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[Valkey]:
    """A started server."""
    server = Valkey(tmp_path / "valkey")
    server.start()
    yield server
    server.stop()


def port_of(server: Valkey) -> int:
    """Return the port it listens on."""
    return int(server.state.get("valkey.port") or 0)


def password_of(server: Valkey) -> str:
    """Return its password."""
    return server.state.secret("valkey.password")


def test_it_answers_to_its_password(valkey: Valkey) -> None:
    assert is_answering(port=port_of(valkey), password=password_of(valkey)) is True


def test_it_refuses_another_password(valkey: Valkey) -> None:
    assert is_answering(port=port_of(valkey), password="another") is False


def test_no_process_list_shows_its_password(valkey: Valkey) -> None:
    assert valkey.process is not None
    shown = describe(valkey.process.pid)
    assert "valkey-server" in shown
    assert password_of(valkey) not in shown


def test_server_left_by_a_killed_launcher_is_replaced(valkey: Valkey) -> None:
    successor = Valkey(valkey.directory)
    successor.start()
    try:
        assert valkey.process is not None
        assert valkey.process.wait(timeout=5) == 0
        assert is_answering(port=port_of(successor), password=password_of(successor)) is True
    finally:
        successor.stop()


def test_killed_server_starts_again_on_the_same_port(valkey: Valkey) -> None:
    before = valkey.url()
    assert valkey.process is not None
    valkey.process.kill()
    valkey.process.wait()
    valkey.start()
    assert valkey.url() == before
