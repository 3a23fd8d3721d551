"""While a live server answers, nothing of ours is locked: a member can stop the run at once."""

from __future__ import annotations

import threading
import time
from typing import Any

from django.db import connections

from agents.guard.contract import LeaseLost
from conversations import leases, turns
from retrieval.live.accounts import connect_account
from retrieval.models import LiveResult
from tests.retrieval.live.conftest import ADA, make_scene
from tests.retrieval.live.server import McpServer
from tests.retrieval.live.test_tools import call, run_of
from tests.websites import Asked, Served


def test_a_run_is_stopped_and_its_lease_renewed_while_the_server_answers(
    committed_db: str, server: McpServer
) -> None:
    scene = make_scene(server)
    connect_account(scene.as_ada, source_id=scene.source.pk, token=ADA)
    gate = run_of(scene)
    asked, answer = threading.Event(), threading.Event()

    def slowly(request: Asked, message: dict[str, Any]) -> Served:
        asked.set()
        assert answer.wait(10)
        return server.reply(message, {"content": [{"type": "text", "text": "late"}]})

    server.instead["tools/call"] = slowly
    ended: list[object] = []

    def read() -> None:
        try:
            ended.append(call(gate, query="chair"))
        except LeaseLost as lost:
            ended.append(lost)
        finally:
            connections.close_all()

    thread = threading.Thread(target=read)
    thread.start()
    assert asked.wait(10)
    began = time.monotonic()
    assert leases.renew(gate.lease)
    turns.stop(scene.as_ada, run_id=gate.facts.run_id)
    assert time.monotonic() - began < 2
    assert ended == []  # The server is still at it.
    answer.set()
    thread.join(10)
    (how,) = ended
    assert isinstance(how, LeaseLost)
    assert LiveResult.objects.count() == 1  # Read, kept for a while, and shown to nobody.
