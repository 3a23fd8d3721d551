"""The runtimes' websocket: its token, and what frames without the run's own lease may change.

The web process runs alone; the tests are its runtime.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from pytest_django.plugin import DjangoDbBlocker
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from agents.models import ModelCall, ToolCall
from agents.runtime import protocol
from audit.models import AuditEvent
from conversations import turns
from conversations.models import JournalEvent, Message, Run
from tests import factories, servers
from tests.conftest import connected_to
from tests.providers.server import ModelServer
from tests.security.sockets import GUARD, QUESTION, has_ended, until_closed
from tests.stack import Stack
from tests.world import Desk, make_desk, use_model


@pytest.fixture(scope="module")
def bridge(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Stack]:
    """The web process alone: the tests are its runtime."""
    servers.valkey()
    name = servers.create_database()
    with connected_to(name, django_db_blocker), Stack(name) as stack:
        stack.start("web")
        yield stack
    servers.drop_database(name)


def _token() -> dict[str, str]:
    return {"Authorization": f"Bearer {settings.KAIZEN_RUNTIME_TOKEN}"}


@asynccontextmanager
async def _runtime(stack: Stack, *, capacity: int = 1) -> AsyncIterator[ClientConnection]:
    address = stack.address.replace("http", "ws", 1) + "/bridge/"
    async with connect(address, additional_headers=_token()) as socket:
        await socket.send(
            protocol.encode(
                protocol.Hello(
                    protocol=protocol.PROTOCOL_VERSION, capacity=capacity, runtime_id="test"
                )
            )
        )
        assert isinstance(await _next(socket), protocol.Welcome)
        yield socket


async def _next(socket: ClientConnection) -> protocol.BackendFrame:
    async with asyncio.timeout(GUARD):
        return protocol.parse_backend_frame(await socket.recv())


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic wrong"},
        {"Cookie": "sessionid=anything"},
    ],
    ids=["none", "wrong", "empty", "basic", "cookie"],
)
def test_the_bridge_refuses_who_does_not_know_the_token(
    bridge: Stack, headers: dict[str, str]
) -> None:
    async def knock() -> int:
        address = bridge.address.replace("http", "ws", 1) + "/bridge/"
        try:
            async with connect(address, additional_headers=headers):
                return 101
        except InvalidStatus as refused:
            return int(refused.response.status_code)

    assert asyncio.run(knock()) == 403


def test_a_signed_in_member_is_no_runtime(bridge: Stack) -> None:
    desk = make_desk(bridge, slug="bridge-member")
    cookies = desk.sign_in(desk.reader).cookies()

    async def knock() -> int:
        address = bridge.address.replace("http", "ws", 1) + "/bridge/"
        cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
        try:
            async with connect(address, additional_headers={"Cookie": cookie}):
                return 101
        except InvalidStatus as refused:
            return int(refused.response.status_code)

    assert asyncio.run(knock()) == 403


@pytest.mark.parametrize("frame", ["{}", "no json", '{"type":"hello","protocol":99}', "[]"])
def test_an_unreadable_frame_closes_the_bridge(bridge: Stack, frame: str) -> None:
    async def send() -> int:
        address = bridge.address.replace("http", "ws", 1) + "/bridge/"
        async with connect(address, additional_headers=_token()) as socket:
            await socket.send(frame)
            return (await until_closed(socket))[0]

    assert asyncio.run(send()) == 4400


def _tool(run: str, attempt: int, lease: str) -> protocol.ToolRequest:
    return protocol.ToolRequest(
        run=run,
        attempt=attempt,
        lease=lease,
        request_id=f"r-{uuid4().hex}",
        step=1,
        call_id="call_1",
        name="search",
        arguments=json.dumps({"query": QUESTION}),
    )


def _frames(run: str, attempt: int, lease: str) -> list[protocol.RuntimeFrame]:
    """One of each kind that a run's runtime may send."""
    holder = {"run": run, "attempt": attempt, "lease": lease}
    return [
        protocol.Heartbeat(**holder),
        _tool(run, attempt, lease),
        protocol.ModelRequest(
            **holder, request_id="m-1", step=1, context=("u.nothing",), allow_tools=True
        ),
        protocol.Finish(**holder, outcome="answered", reason="done", step=1),
    ]


def _of_run(run_id: object) -> tuple[Any, ...]:
    """All that a frame could change about a run."""
    run = Run.objects.filter(pk=run_id).values().first()
    if run is not None:
        run.pop("lease_until")  # Moves with the heartbeats of the rightful holder.
    return (
        run,
        JournalEvent.objects.filter(run_id=run_id).count(),
        ToolCall.objects.filter(run_id=run_id).count(),
        ModelCall.objects.filter(run_id=run_id).count(),
        Message.objects.filter(run_id=run_id).count(),
    )


def _stale() -> int:
    return AuditEvent.objects.filter(action="agents.stale_frame").count()


def test_frames_without_the_runs_own_lease_change_nothing_and_are_audited(bridge: Stack) -> None:
    first, second = make_desk(bridge, slug="lease-a"), make_desk(bridge, slug="lease-b")
    run = turns.start(
        factories.authority_of(first.reader), text=QUESTION, key="a", agent=first.agent
    ).run

    async def play() -> None:
        async with _runtime(bridge) as socket:
            start = await _next(socket)
            assert isinstance(start, protocol.Start)
            assert start.run == str(run.pk)
            other = await sync_to_async(_start_for)(second)
            wrong = [
                (start.run, start.attempt, "not the lease"),
                (start.run, start.attempt + 1, start.lease),
                (str(other.pk), start.attempt, start.lease),
                (str(other.pk), 1, "not the lease"),
            ]
            for given in wrong:
                for frame in _frames(*given):
                    before = await sync_to_async(_look)(run, other)
                    await socket.send(protocol.encode(frame))
                    answer = await _next(socket)
                    assert answer == protocol.LeaseLost(run=given[0]), frame
                    await _audited(before[2] + 1)
                    after = await sync_to_async(_look)(run, other)
                    assert after[:2] == before[:2], frame
            await _check_unknown_run(socket, start)
            await _check_other_connection(bridge, start)
            # The positive control: the same frame under the lease does something.
            await socket.send(protocol.encode(_tool(start.run, start.attempt, start.lease)))
            reply = await _next(socket)
            assert isinstance(reply, protocol.ToolReply)
            assert reply.outcome == "ok"

    asyncio.run(play())
    assert ToolCall.objects.filter(run_id=run.pk).count() == 1
    # The runtime left: its run is lost, and the other one was never begun.
    bridge.wait_for(lambda: has_ended(run), what="the end of the run")
    turns.cancel(Run.objects.get(user=second.reader.user).pk, code="stopped", message="")


def _start_for(desk: Desk) -> Run:
    return turns.start(
        factories.authority_of(desk.reader), text=QUESTION, key="b", agent=desk.agent
    ).run


def _look(run: Run, other: Run) -> tuple[Any, ...]:
    return _of_run(run.pk), _of_run(other.pk), _stale()


async def _audited(wanted: int) -> None:
    async with asyncio.timeout(GUARD):
        while await sync_to_async(_stale)() < wanted:
            await asyncio.sleep(0.02)


async def _check_unknown_run(socket: ClientConnection, start: protocol.Start) -> None:
    """A run that doesn't exist: the same answer, and nothing to audit it under."""
    before = await sync_to_async(_stale)()
    for name in (str(uuid4()), "no-id"):
        await socket.send(protocol.encode(_tool(name, start.attempt, start.lease)))
        assert await _next(socket) == protocol.LeaseLost(run=name)
    assert await sync_to_async(_stale)() == before


async def _check_other_connection(bridge: Stack, start: protocol.Start) -> None:
    """Even the right lease is worth nothing on a connection that doesn't hold the run."""
    address = bridge.address.replace("http", "ws", 1) + "/bridge/"
    before = await sync_to_async(_of_run)(start.run)
    async with connect(address, additional_headers=_token()) as thief:
        for frame in _frames(start.run, start.attempt, start.lease):
            await thief.send(protocol.encode(frame))
            assert await _next(thief) == protocol.LeaseLost(run=start.run)
    assert await sync_to_async(_of_run)(start.run) == before


def test_a_runtime_cannot_have_another_conversations_content_sent_to_a_model(
    bridge: Stack, model_server: ModelServer
) -> None:
    """References to what isn't this run's are left out of the provider's request."""
    foreign, own = make_desk(bridge, slug="refs-a"), make_desk(bridge, slug="refs-b")
    secret, asked = factories.canary("foreign"), factories.canary("own")
    other = turns.start(
        factories.authority_of(foreign.reader), text=secret, key="f", agent=foreign.agent
    )
    turns.stop(factories.authority_of(foreign.reader), run_id=other.run.pk)
    call = ToolCall.objects.create(
        organization=foreign.organization,
        run_id=other.run.pk,
        attempt=1,
        step=1,
        call_id="c",
        name="search",
        idempotency_key="k",
        state=ToolCall.State.ERROR,
        error=secret,
    )
    agent = use_model(own, model_server, "echo")
    turns.start(factories.authority_of(own.reader), text=asked, key="o", agent=agent)

    async def play() -> protocol.BackendFrame:
        async with _runtime(bridge) as socket:
            start = await _next(socket)
            assert isinstance(start, protocol.Start)
            references = [item.ref for item in start.context]
            await socket.send(
                protocol.encode(
                    protocol.ModelRequest(
                        run=start.run,
                        attempt=start.attempt,
                        lease=start.lease,
                        request_id="m",
                        step=1,
                        context=(
                            f"u.{other.message.pk}",
                            f"a.{other.message.pk}",
                            *references,
                            "m.1",
                            f"t.{call.pk}",
                            "x.nonsense",
                            "t.nonsense",
                        ),
                        allow_tools=False,
                    )
                )
            )
            return await _next(socket)

    reply = asyncio.run(play())
    assert isinstance(reply, protocol.ModelReply), reply
    sent = json.dumps([request.json for request in model_server.requests])
    assert asked in sent
    assert secret not in sent
