"""Websockets: who may open one, what closes one, and what a runtime can't do with the bridge.

Over the product's own processes, since handshakes, close codes and cookies are theirs. Times in
cases are hang guards here, times five.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from accounts.models import Membership
from accounts.permissions import Verb, user_grants_of
from agents.models import ModelCall, ToolCall
from agents.services import publish_agent
from audit.models import AuditEvent
from conversations import turns
from conversations.models import Conversation, JournalEvent, Message, Run
from kaizen import asgi
from tests import factories
from tests.client import Member, collect_until
from tests.providers.server import ModelServer
from tests.security.sockets import QUESTION, has_ended, until_closed
from tests.world import Desk, use_model


def _caught_up(frame: dict[str, Any]) -> bool:
    return frame["type"] == "caught_up"


def _rows() -> tuple[int, ...]:
    tables = (Run, Message, JournalEvent, Conversation, ToolCall, ModelCall, AuditEvent)
    return tuple(table._default_manager.count() for table in tables)


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
                    found.append(await until_closed(socket))
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
    desk.stack.wait_for(lambda: has_ended(run), what="the end of the run")


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


SIGNED_OUT, LOST = frozenset({4401}), frozenset({4403})
CLOSES: list[tuple[Callable[[Talk], None], frozenset[int]]] = [
    (_sign_out, SIGNED_OUT),
    # The session and the place are proven one after the other: whichever notices first.
    (_deactivate, SIGNED_OUT | LOST),
    (_change_password, SIGNED_OUT),
    (_suspend, LOST),
    (_take_the_conversation, LOST),
    (_suspend_the_organization, LOST),
]


@pytest.mark.parametrize(("act", "codes"), CLOSES)
def test_K16_a_live_socket_closes_when_its_right_ends(
    streaming: Talk, act: Callable[[Talk], None], codes: frozenset[int]
) -> None:
    async def watch() -> int:
        async with streaming.member.socket(streaming.conversation) as socket:
            await collect_until(socket, _is_text)
            await asyncio.to_thread(act, streaming)
            return (await until_closed(socket))[0]

    assert asyncio.run(watch()) in codes


@pytest.mark.parametrize(("act", "codes"), CLOSES)
def test_K16_a_late_frame_on_an_old_socket_starts_no_run(
    talk: Talk, act: Callable[[Talk], None], codes: frozenset[int]
) -> None:
    before = Run.objects.count(), Message.objects.count()

    async def send() -> tuple[int, list[dict[str, Any]]]:
        async with talk.member.socket(talk.conversation) as socket:
            await collect_until(socket, _caught_up)
            await asyncio.to_thread(act, talk)
            await socket.send(json.dumps({"type": "send", "text": "Late", "key": "late"}))
            return await until_closed(socket)

    closed, frames = asyncio.run(send())
    assert closed in codes
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
