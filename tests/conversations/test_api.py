"""The API of conversations, by session and by key: turns, events, stops, errors as problem+json."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from accounts.models import ApiKey
from accounts.permissions import Verb
from audit.models import AuditEvent
from conversations.models import Conversation, Message, Run
from kaizen.kernel.clock import now
from tests.conversations.callers import Caller, problem
from tests.conversations.worlds import (
    World,
    answer,
    ask,
    audited,
    make_world,
    state_of,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(params=[(), ("chat",)], ids=["session", "key"])
def scopes(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return request.param  # type: ignore[no-any-return]


def hello(world: World) -> dict[str, str]:
    return {"agent": str(world.agent.pk), "text": "Hello"}


def test_a_first_turn(scopes: tuple[str, ...]) -> None:
    world = make_world()
    response = Caller(world.member, *scopes).post("turns/", hello(world), key="k-1")
    run = Run.objects.get()
    assert response.status_code == 201
    assert response.json() == {
        "conversation": str(run.conversation_id),
        "run": str(run.pk),
        "message": str(run.question_id),
        "answer": str(run.answer_id),
        "state": "queued",
        "replayed": False,
    }
    event = AuditEvent.objects.get(action="conversations.turn_started")
    assert event.channel == ("key" if scopes else "session")


def test_k46_the_same_key_names_the_same_run(scopes: tuple[str, ...]) -> None:
    world = make_world()
    caller = Caller(world.member, *scopes)
    first = caller.post("turns/", hello(world), key="k-1").json()
    again = caller.post("turns/", hello(world), key="k-1")
    assert (again.status_code, again.json()) == (201, {**first, "replayed": True})
    other = caller.post("turns/", {**hello(world), "text": "Bye"}, key="k-1")
    assert problem(other) == (409, "idempotency_key")
    assert (Message.objects.count(), Run.objects.count()) == (1, 1)


def test_without_a_key_each_request_is_its_own_turn() -> None:
    world = make_world()
    caller = Caller(world.member, "chat")
    runs = {caller.post("turns/", hello(world)).json()["run"] for _ in range(2)}
    assert len(runs) == 2


def test_a_further_turn(scopes: tuple[str, ...]) -> None:
    world = make_world()
    first = answer(world, "Two.")
    caller = Caller(world.member, *scopes)
    path = f"conversations/{first.conversation.pk}/turns/"
    response = caller.post(path, {"text": "And?"})
    assert response.status_code == 201
    assert response.json()["conversation"] == str(first.conversation.pk)
    assert problem(caller.post(path, {"text": "More"})) == (409, "busy")


def test_what_is_refused_says_why_and_changes_nothing() -> None:
    world = make_world()
    caller = Caller(world.member, "chat")
    before = state_of(world)
    good = hello(world)
    for body, key, expected in (
        ("{", "", (400, "parse_error")),
        ("[]", "", (400, "invalid")),
        ({}, "", (400, "invalid")),
        ({**good, "text": "   "}, "", (400, "invalid")),
        ({**good, "text": "x" * 100_001}, "", (400, "invalid")),
        ({**good, "agent": "x"}, "", (400, "invalid")),
        ({**good, "agent": "01890000-0000-7000-8000-000000000000"}, "", (404, "missing")),
        (good, "k" * 256, (400, "invalid")),
    ):
        assert problem(caller.post("turns/", body, key=key)) == expected, (body, key)
    text = Client().post(caller.base + "turns/", "x", content_type="text/plain")
    assert problem(text) == (401, "unauthenticated")
    assert state_of(world) == before


def test_k23_lone_surrogates_are_a_field_error_or_replaced_never_a_crash(shared_data: Any) -> None:
    world = make_world()
    body = json.loads((shared_data / "cases" / "surrogate-message.json").read_text())
    response = Caller(world.member, "chat").post("turns/", {**hello(world), **body})
    assert response.status_code in (201, 400)
    assert Message.objects.count() == (response.status_code == 201)


def test_a_key_without_the_scope_is_denied_everywhere() -> None:
    world = make_world()
    turn = answer(world, "Two.")
    caller = Caller(world.member, "search")
    conversation = f"conversations/{turn.conversation.pk}/"
    before = state_of(world)
    for path in (
        "conversations/",
        conversation,
        f"{conversation}export/",
        f"runs/{turn.run.pk}/",
    ):
        assert problem(caller.get(path)) == (403, "scope"), path
    for path in ("turns/", f"{conversation}turns/", f"runs/{turn.run.pk}/stop/"):
        assert problem(caller.post(path, hello(world))) == (403, "scope"), path
    assert state_of(world) == before


@pytest.mark.parametrize("wrong", ["kz_nonsense", "revoked", "expired", "elsewhere"])
def test_a_key_that_does_not_hold_is_nobody(wrong: str) -> None:
    world = make_world()
    caller = Caller(world.member, "chat")
    if wrong == "kz_nonsense":
        caller.headers["Authorization"] = f"Bearer {wrong}"
    elif wrong == "revoked":
        ApiKey.objects.update(revoked_at=now())
    elif wrong == "expired":
        ApiKey.objects.update(expires_at=now() - timedelta(seconds=1))
    else:
        caller.base = f"/o/{make_world().organization.slug}/api/v1/"
    response = caller.post("turns/", hello(world))
    assert problem(response) == (401, "unauthenticated")
    assert response["WWW-Authenticate"] == 'Bearer realm="kaizen"'
    assert Run.objects.count() == 0


def test_a_session_needs_the_csrf_token() -> None:
    world = make_world()
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.member.user)
    response = client.post(
        f"/o/{world.organization.slug}/api/v1/turns/",
        data=json.dumps(hello(world)),
        content_type="application/json",
    )
    assert response.status_code == 403
    assert Run.objects.count() == 0


def test_k10_ids_of_others_are_as_missing_as_unused_ones(scopes: tuple[str, ...]) -> None:
    world, other = make_world(), make_world()
    turn = answer(other, "Canary")
    strangers = [Caller(world.member, *scopes), Caller(world.admin, *scopes)]
    unused = "01890000-0000-7000-8000-000000000000"
    before = state_of(other)
    for caller in strangers:
        for identity, run in ((turn.conversation.pk, turn.run.pk), (unused, unused)):
            path = f"conversations/{identity}/"
            answers = [
                caller.get(path),
                caller.get(f"{path}export/"),
                caller.patch(path, {"title": "x"}),
                caller.delete(path),
                caller.post(f"{path}turns/", {"text": "x"}),
                caller.get(f"runs/{run}/"),
                caller.post(f"runs/{run}/stop/"),
                caller.post(f"runs/{run}/retry/"),
            ]
            assert [problem(answer_) for answer_ in answers] == [(404, "missing")] * 8
            assert all(b"Canary" not in answer_.content for answer_ in answers)
    assert state_of(other) == before


def test_a_conversation_and_its_export(scopes: tuple[str, ...]) -> None:
    world = make_world()
    document = world.add_document()
    turn = answer(world, "Form 4471 [[{cite}]].", searches=True)
    caller = Caller(world.member, *scopes)
    body = caller.get(f"conversations/{turn.conversation.pk}/").json()
    said, told = body.pop("messages")
    assert body == {
        "id": str(turn.conversation.pk),
        "title": "How many days do I get?",
        "agent": str(world.agent.pk),
        "active_run": None,
        "ended_run": None,
        "after": 7,
        "may_change": True,
    }
    assert (said["role"], said["text"], said["run"], said["state"]) == (
        "user",
        "How many days do I get?",
        None,
        None,
    )
    assert (told["text"], told["run"], told["state"], told["salvaged"], told["withheld"]) == (
        "Form 4471 [1].",
        str(turn.run.pk),
        "succeeded",
        False,
        False,
    )
    assert [source["document"] for source in told["sources"]] == [str(document.pk)]
    export = caller.get(f"conversations/{turn.conversation.pk}/export/")
    assert export["Content-Disposition"] == 'attachment; filename="conversation.json"'
    assert export.json()["messages"] == [said, told]
    assert audited(world, "conversations.read", "conversations.exported") == [
        "conversations.read",
        "conversations.exported",
    ]


def test_after_a_revocation_no_answer_of_the_api_holds_the_passage() -> None:
    world = make_world()
    world.add_document()
    turn = answer(world, "Form 4471 [[{cite}]].", searches=True)
    caller = Caller(world.member, "chat")
    path = f"conversations/{turn.conversation.pk}/"
    reads = (path, f"{path}export/")
    assert all(b"4471" in caller.get(read).content for read in reads)
    world.revoke()
    for read in reads:
        response = caller.get(read)
        assert (response.status_code, b"4471" in response.content) == (200, False), read


def test_the_list_pages_by_the_last_row_and_costs_the_same() -> None:
    world = make_world()
    for number in range(12):
        ask(world, f"Question {number}")
    caller = Caller(world.member, "chat")
    first = caller.get("conversations/?limit=10").json()
    assert [item["title"] for item in first["results"]] == [
        f"Question {number}" for number in range(11, 1, -1)
    ]
    rest = caller.client.get(first["next"], headers=caller.headers).json()
    assert [item["title"] for item in rest["results"]] == ["Question 1", "Question 0"]
    assert rest["next"] is None


def test_rename_and_archive() -> None:
    world = make_world()
    turn = answer(world, "Two.")
    caller = Caller(world.member, "chat")
    path = f"conversations/{turn.conversation.pk}/"
    assert caller.patch(path, {"title": "Leave"}).json()["title"] == "Leave"
    assert caller.delete(path).status_code == 204
    assert caller.get("conversations/").json()["results"] == []
    assert Conversation.objects.get().archived_at is not None


def test_stop_and_retry() -> None:
    world = make_world()
    turn = ask(world)
    caller = Caller(world.member, "chat")
    stopped = caller.post(f"runs/{turn.run.pk}/stop/").json()
    assert (stopped["state"], stopped["error_code"]) == ("cancelled", "stopped")
    again = caller.post(f"runs/{turn.run.pk}/retry/", key="r-1")
    assert again.status_code == 201
    assert caller.post(f"runs/{turn.run.pk}/retry/", key="r-1").json() == {
        **again.json(),
        "replayed": True,
    }
    run = caller.get(f"runs/{again.json()['run']}/").json()
    assert (run["state"], run["attempt"], run["finished_at"]) == ("queued", 0, None)
    assert problem(caller.post(f"runs/{turn.run.pk}/retry/")) == (409, "conflict")


def test_a_watcher_may_read_and_not_speak() -> None:
    world = make_world()
    turn = answer(world, "Two.")
    caller = Caller(world.another((Verb.VIEW, turn.conversation)), "chat")
    path = f"conversations/{turn.conversation.pk}/"
    assert caller.get(path).json()["may_change"] is False
    assert problem(caller.post(f"{path}turns/", {"text": "x"})) == (403, "denied")
    assert problem(caller.patch(path, {"title": "x"})) == (403, "denied")
