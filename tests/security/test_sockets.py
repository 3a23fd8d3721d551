"""Websockets: who may open one, what closes one, and what a runtime can't do with the bridge.

Over the product's own processes, since handshakes, close codes and cookies are theirs. Times in
cases are hang guards here, times five.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from pytest_django.plugin import DjangoDbBlocker
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from accounts.models import Membership
from accounts.permissions import Verb, user_grants_of
from agents.models import ModelCall, ToolCall
from agents.runtime import protocol
from agents.services import publish_agent
from audit.models import AuditEvent
from conversations import turns
from conversations.models import Conversation, JournalEvent, Message, Run
from kaizen import asgi
from tests import factories, servers
from tests.client import Member, collect_until
from tests.conftest import connected_to
from tests.providers.server import ModelServer
from tests.stack import Stack
from tests.world import Desk, make_desk, use_model

GUARD = 25.0
QUESTION = "How many days of leave for moving house?"


def _caught_up(frame: dict[str, Any]) -> bool:
    return frame["type"] == "caught_up"


def _rows() -> tuple[int, ...]:
    tables = (Run, Message, JournalEvent, Conversation, ToolCall, ModelCall, AuditEvent)
    return tuple(table._default_manager.count() for table in tables)


async def _until_closed(socket: ClientConnection) -> tuple[int, list[dict[str, Any]]]:
    """The close code and what came before it."""
    found: list[dict[str, Any]] = []
    try:
        async with asyncio.timeout(GUARD):
            while True:
                found.append(json.loads(await socket.recv()))
    except ConnectionClosed as closed:
        assert closed.rcvd is not None, "the server went away without a word"
        return closed.rcvd.code, found


def _routes_of(application: Any) -> list[str]:
    """The patterns of the members' websocket router, however it is wrapped."""
    while not hasattr(application, "routes"):
        application = getattr(application, "application", None) or application.inner
    return [str(route.pattern) for route in application.routes]


def test_the_websocket_routes_are_those_this_file_walks() -> None:
    known = "o/<slug:slug>/ws/conversations/<uuid:conversation_id>/"
    assert _routes_of(asgi._member) == [known, ""]


# --- who may open one


@dataclass(frozen=True)
class Talk:
    """A finished conversation of the desk's reader."""

    desk: Desk
    member: Member
    conversation: str
    run: str


@pytest.fixture
def talk(desk: Desk) -> Talk:
    member = desk.sign_in(desk.reader)
    turn = member.ask(desk.agent.pk, QUESTION)
    member.wait_until_finished(turn)
    return Talk(desk, member, turn["conversation"], turn["run"])


def _stranger(talk: Talk) -> Member:
    return _enter(talk, factories.make_user().email)


def _foreigner(talk: Talk) -> Member:
    return _enter(talk, factories.make_member(factories.make_organization()).user.email)


def _suspended(talk: Talk) -> Member:
    state = Membership.State.SUSPENDED
    return _enter(talk, factories.make_member(talk.desk.organization, state=state).user.email)


def _ungranted(talk: Talk) -> Member:
    return talk.desk.sign_in(talk.desk.outsider)


def _nobody(talk: Talk) -> Member:
    return Member(talk.desk.stack.address, talk.desk.organization.slug)


def _enter(talk: Talk, email: str) -> Member:
    return _nobody(talk).sign_in(email)


@pytest.mark.parametrize(
    ("who", "code"),
    [
        (_nobody, 4401),
        (_stranger, 4403),
        (_foreigner, 4403),
        (_suspended, 4403),
        (_ungranted, 4403),
    ],
)
def test_a_socket_of_who_may_not_is_closed_alike_for_foreign_and_unused_ids(
    talk: Talk, who: Callable[[Talk], Member], code: int
) -> None:
    member = who(talk)
    before = _rows()

    async def open_both() -> list[tuple[int, list[dict[str, Any]]]]:
        found = []
        for conversation in (talk.conversation, str(uuid4())):
            for render in ("text", "html"):
                async with member.socket(conversation, render=render) as socket:
                    found.append(await _until_closed(socket))
        return found

    assert asyncio.run(open_both()) == [(code, [])] * 4
    assert _rows() == before


def test_the_rightful_member_is_shown_the_conversation(talk: Talk) -> None:
    """The positive control of the test above."""

    async def watch() -> list[dict[str, Any]]:
        async with talk.member.socket(talk.conversation) as socket:
            return await collect_until(socket, _caught_up)

    assert "run_finished" in [frame.get("kind") for frame in asyncio.run(watch())]


def test_K21_a_foreign_origin_is_refused_in_the_handshake(talk: Talk) -> None:
    before = _rows()

    async def open_from(origin: str | None) -> int:
        cookies = "; ".join(f"{name}={value}" for name, value in talk.member.cookies().items())
        address = talk.member.address.replace("http", "ws", 1)
        url = f"{address}/o/{talk.member.slug}/ws/conversations/{talk.conversation}/?after=0"
        try:
            async with connect(url, additional_headers={"Cookie": cookies}, origin=origin):
                return 101
        except InvalidStatus as refused:
            return int(refused.response.status_code)

    for origin in ("https://evil.test", "http://127.0.0.1.evil.test", "null", None):
        assert asyncio.run(open_from(origin)) == 403
    assert _rows() == before
    assert asyncio.run(open_from(talk.member.address)) == 101


def test_an_unknown_websocket_address_is_refused_without_a_traceback(talk: Talk) -> None:
    stack = talk.desk.stack

    async def open_at(path: str) -> int:
        try:
            async with connect(stack.address.replace("http", "ws", 1) + path, origin=stack.address):
                return 101
        except InvalidStatus as refused:
            return int(refused.response.status_code)

    before = len(stack.lines)
    for path in ("/", "/ws/", f"/o/{talk.member.slug}/ws/nothing/", "/bridge", "/o/x/bridge/"):
        assert asyncio.run(open_at(path)) == 403
    said = "\n".join(line for _, line in stack.lines[before:])
    assert "Traceback" not in said


def test_frames_that_name_another_conversations_run_change_nothing(talk: Talk) -> None:
    """An own socket is no way to a foreign run."""
    other = factories.make_organization()
    stranger = factories.make_member(other)
    agent = factories.make_agent(other)
    factories.grant(stranger, Verb.USE, agent)
    admin = factories.make_member(other, role="admin")
    turns_of = _publish_and_start(admin, stranger, agent)
    before = Run.objects.filter(pk=turns_of).values().get()

    async def send() -> list[dict[str, Any]]:
        answers = []
        async with talk.member.socket(talk.conversation) as socket:
            await collect_until(socket, _caught_up)
            for kind in ("stop", "retry"):
                for run in (str(turns_of), str(uuid4()), "no id"):
                    await socket.send(json.dumps({"type": kind, "run": run, "key": kind}))
                    found = await collect_until(socket, lambda f: f["type"] != "heartbeat")
                    answers.append(found[-1])
        return answers

    answers = asyncio.run(send())
    assert [(frame["type"], frame["code"]) for frame in answers] == [("refused", "missing")] * 6
    after = Run.objects.filter(pk=turns_of).values().get()
    assert after["stop_requested_at"] is None
    assert before["question_id"] == after["question_id"]
    assert Run.objects.filter(conversation_id=before["conversation_id"]).count() == 1


def _publish_and_start(admin: Membership, member: Membership, agent: Any) -> UUID:
    publish_agent(factories.authority_of(admin), agent=agent)
    agent.refresh_from_db()
    return turns.start(
        factories.authority_of(member), text="Foreign", key="foreign", agent=agent
    ).run.pk


# --- what closes an open one


@pytest.fixture
def streaming(desk: Desk, model_server: ModelServer) -> Iterator[Talk]:
    """A conversation whose answer is being written for a long time."""
    agent = use_model(desk, model_server, "long-2000:20")
    member = desk.sign_in(desk.reader)
    turn = member.ask(agent.pk, "Count, please.")
    yield Talk(desk, member, turn["conversation"], turn["run"])
    run = Run.objects.get(pk=turn["run"])
    turns.cancel(run.pk, code="stopped", message="")
    desk.stack.wait_for(lambda: _has_ended(run), what="the end of the run")


def _has_ended(run: Run) -> bool:
    run.refresh_from_db()
    return run.state in Run.ENDED


def _is_text(frame: dict[str, Any]) -> bool:
    return "text" in (frame["type"], frame.get("kind"))


def _sign_out(talk: Talk) -> None:
    token = talk.member.cookie("csrftoken")
    talk.member.open("/logout/", form={"csrfmiddlewaretoken": token})


def _deactivate(talk: Talk) -> None:
    user = talk.desk.reader.user
    user.is_active = False
    user.save()


def _change_password(talk: Talk) -> None:
    user = talk.desk.reader.user
    user.set_password("another long test password")
    user.save()


def _suspend(talk: Talk) -> None:
    Membership.objects.filter(pk=talk.desk.reader.pk).update(state=Membership.State.SUSPENDED)


def _take_the_conversation(talk: Talk) -> None:
    deleted, _ = (
        user_grants_of(Conversation)
        ._default_manager.filter(user=talk.desk.reader.user, content_object_id=talk.conversation)
        .delete()
    )
    assert deleted == 1


def _suspend_the_organization(talk: Talk) -> None:
    organization = talk.desk.organization
    organization.state = "suspended"
    organization.save()


CLOSES: list[tuple[Callable[[Talk], None], int]] = [
    (_sign_out, 4401),
    (_deactivate, 4401),
    (_change_password, 4401),
    (_suspend, 4403),
    (_take_the_conversation, 4403),
    (_suspend_the_organization, 4403),
]


@pytest.mark.parametrize(("act", "code"), CLOSES)
def test_K16_a_live_socket_closes_when_its_right_ends(
    streaming: Talk, act: Callable[[Talk], None], code: int
) -> None:
    async def watch() -> int:
        async with streaming.member.socket(streaming.conversation) as socket:
            await collect_until(socket, _is_text)
            await asyncio.to_thread(act, streaming)
            return (await _until_closed(socket))[0]

    assert asyncio.run(watch()) == code


@pytest.mark.parametrize(("act", "code"), CLOSES)
def test_K16_a_late_frame_on_an_old_socket_starts_no_run(
    talk: Talk, act: Callable[[Talk], None], code: int
) -> None:
    before = Run.objects.count(), Message.objects.count()

    async def send() -> tuple[int, list[dict[str, Any]]]:
        async with talk.member.socket(talk.conversation) as socket:
            await collect_until(socket, _caught_up)
            await asyncio.to_thread(act, talk)
            await socket.send(json.dumps({"type": "send", "text": "Late", "key": "late"}))
            return await _until_closed(socket)

    closed, frames = asyncio.run(send())
    assert closed == code
    assert not [frame for frame in frames if frame["type"] not in ("refused", "heartbeat")]
    assert (Run.objects.count(), Message.objects.count()) == before


def test_a_frame_in_time_starts_a_run(talk: Talk) -> None:
    """The positive control of the test above."""

    async def send() -> dict[str, Any]:
        async with talk.member.socket(talk.conversation) as socket:
            await collect_until(socket, _caught_up)
            await socket.send(json.dumps({"type": "send", "text": QUESTION, "key": "in time"}))
            found = await collect_until(socket, lambda f: f["type"] in ("accepted", "refused"))
            return found[-1]

    accepted = asyncio.run(send())
    assert accepted["type"] == "accepted"
    assert Run.objects.filter(pk=accepted["run"]).exists()


# --- the bridge


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
            return (await _until_closed(socket))[0]

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
    bridge.wait_for(lambda: _has_ended(run), what="the end of the run")
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
