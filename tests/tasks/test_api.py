"""Tasks through the API and the pages, as a member's program and browser meet them."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from accounts.permissions import Verb
from accounts.services import create_key
from conversations.models import Conversation
from kaizen.kernel.clock import now
from tasks import dispatch
from tasks.models import Delegation, Occurrence, Task
from tests.factories import grant, make_member
from tests.tasks.factories import DUE, World, make_due, make_world, save

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return make_world()


def sign_in(world: World, membership: Any = None) -> Client:
    client = Client()
    client.force_login((membership or world.member).user)
    return client


def api(world: World, path: str = "") -> str:
    return f"/o/{world.organization.slug}/api/v1/tasks/{path}"


def page(world: World, path: str = "") -> str:
    return f"/o/{world.organization.slug}/tasks/{path}"


def body(world: World, **changes: object) -> dict[str, object]:
    return {
        "name": "Monday digest",
        "agent": str(world.agent.pk),
        "prompt": "What is still open?",
        "cron": "0 8 * * 1",
        "time_zone": "Europe/Amsterdam",
        "consent": True,
        **changes,
    }


def post(client: Client, path: str, sent: object = None) -> Any:
    return client.post(path, sent or {}, content_type="application/json")


def test_a_task_is_created_read_changed_and_archived(world: World) -> None:
    client = sign_in(world)
    created = post(client, api(world), body(world))
    assert created.status_code == 201, created.content
    task = created.json()["task"]
    assert {
        name: task[name]
        for name in ("name", "agent_name", "cron", "schedule_words", "state", "last")
    } == {
        "name": "Monday digest",
        "agent_name": world.agent.name,
        "cron": "0 8 * * 1",
        "schedule_words": "Every Monday at 08:00",
        "state": "active",
        "last": None,
    }
    assert created.json()["consent"]["is_live"] is True
    assert len(created.json()["next_due"]) == 3
    listed = client.get(api(world)).json()
    assert [row["id"] for row in listed["results"]] == [task["id"]]

    changed = client.patch(
        api(world, f"{task['id']}/"),
        {"prompt": "What is new?", "consent": True, "days": 5},
        content_type="application/json",
    )
    assert (changed.status_code, changed.json()["task"]["prompt"]) == (200, "What is new?")
    assert Delegation.objects.filter(revoked_at=None).count() == 1

    assert client.delete(api(world, f"{task['id']}/")).status_code == 204
    assert client.get(api(world)).json()["results"] == []
    assert client.get(api(world, f"{task['id']}/")).json()["task"]["state"] == "archived"


def test_without_the_tick_the_problem_names_the_field_and_nothing_is_stored(world: World) -> None:
    answer = post(sign_in(world), api(world), body(world, consent=False))
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
    assert list(answer.json()["errors"]) == ["consent"]
    assert Task.objects.count() == 0


def test_pause_resume_and_revoke_answer_with_the_task_as_it_is_then(world: World) -> None:
    client, task = sign_in(world), save(world)
    paused = post(client, api(world, f"{task.pk}/pause/")).json()
    assert (paused["task"]["state"], paused["task"]["next_due_at"], paused["next_due"]) == (
        "paused",
        None,
        [],
    )
    assert post(client, api(world, f"{task.pk}/resume/")).json()["task"]["state"] == "active"
    revoked = post(client, api(world, f"{task.pk}/revoke/")).json()
    assert (revoked["consent"]["is_live"], revoked["consent"]["reason"]) == (
        False,
        "consent_revoked",
    )
    assert revoked["task"]["refusal"] == "The agreement to unattended work was withdrawn."


def test_a_stranger_to_the_task_finds_nothing_and_changes_nothing(world: World) -> None:
    task = save(world)
    client = sign_in(world, world.admin)
    assert client.get(api(world)).json()["results"] == []
    for answer in (
        client.get(api(world, f"{task.pk}/")),
        client.get(api(world, f"{task.pk}/occurrences/")),
        client.delete(api(world, f"{task.pk}/")),
        client.patch(
            api(world, f"{task.pk}/"), body(world, prompt="x"), content_type="application/json"
        ),
        *(post(client, api(world, f"{task.pk}/{verb}/")) for verb in ("pause", "resume", "revoke")),
        client.get(api(world, f"{uuid.uuid4()}/")),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "missing")
    task.refresh_from_db()
    assert (task.state, task.prompt) == ("active", "What is still open?")


def test_a_key_needs_the_scope_chat(world: World) -> None:
    save(world)
    expires_at = now() + timedelta(days=1)
    statuses = {}
    for scope in ("search", "chat"):
        _, secret = create_key(world.authority, name=scope, scopes=[scope], expires_at=expires_at)
        answer = Client().get(api(world), headers={"Authorization": f"Bearer {secret}"})
        statuses[scope] = answer.status_code
    assert statuses == {"search": 403, "chat": 200}


def test_occurrences_name_the_conversation_only_to_who_may_open_it(
    world: World, django_assert_num_queries: Any
) -> None:
    task = save(world)
    occurrence = make_due(task)
    dispatch.execute(occurrence.pk)
    Occurrence.objects.create(
        organization=world.organization,
        task=task,
        due_at=DUE + timedelta(days=7),
        state="refused",
        reason="Because.",
    )
    path = api(world, f"{task.pk}/occurrences/")
    rows = sign_in(world).get(path).json()["results"]
    conversation = Conversation.objects.get()
    assert [(row["state"], row["reason"], row["conversation"]) for row in rows] == [
        ("refused", "Because.", None),
        ("running", "", str(conversation.pk)),
    ]
    colleague = make_member(world.organization)
    grant(colleague, Verb.VIEW, task)
    rows = sign_in(world, colleague).get(path).json()["results"]
    assert [row["conversation"] for row in rows] == [None, None]


def test_the_pages_list_show_and_change_a_task(world: World) -> None:
    client = sign_in(world)
    assert client.get(page(world)).status_code == 200
    form = client.get(page(world, "new/"))
    assert b"Every Monday at 08:00" in form.content
    assert world.agent.name.encode() in form.content

    refused = client.post(page(world, "new/"), body(world, consent="", days="30"))
    assert (refused.status_code, Task.objects.count()) == (400, 0)
    assert b"without it nothing runs" in refused.content
    assert b"What is still open?" in refused.content

    saved = client.post(page(world, "new/"), body(world, consent="on", days="30"))
    task = Task.objects.get()
    assert (saved.status_code, saved["Location"]) == (302, page(world, f"{task.pk}/"))
    shown = client.get(page(world, f"{task.pk}/")).content
    assert b"Monday digest" in shown
    assert b"Every Monday at 08:00" in shown
    assert b"Monday digest" in client.get(page(world)).content

    edited = client.post(
        page(world, f"{task.pk}/edit/"), body(world, name="Tuesday digest", consent="on", days="3")
    )
    assert edited.status_code == 302
    task.refresh_from_db()
    assert task.name == "Tuesday digest"
    for verb, state in (("pause", "paused"), ("resume", "active")):
        assert client.post(page(world, f"{task.pk}/{verb}/")).status_code == 302
        task.refresh_from_db()
        assert task.state == state
    assert client.post(page(world, f"{task.pk}/revoke/")).status_code == 302
    assert b"withdrawn" in client.get(page(world, f"{task.pk}/")).content
    assert (
        client.post(page(world, f"{task.pk}/renew/"), {"consent": "on", "days": "9"}).status_code
        == 302
    )
    assert Delegation.objects.filter(revoked_at=None).count() == 1
    assert client.post(page(world, f"{task.pk}/archive/"))["Location"] == page(world)
    task.refresh_from_db()
    assert task.state == "archived"


def test_pages_of_a_foreign_task_are_not_found(world: World) -> None:
    task = save(world)
    client = sign_in(world, world.admin)
    for path in ("", "edit/"):
        assert client.get(page(world, f"{task.pk}/{path}")).status_code == 404
    for verb in ("pause", "resume", "revoke", "renew", "archive"):
        assert client.post(page(world, f"{task.pk}/{verb}/")).status_code == 404
    task.refresh_from_db()
    assert task.state == "active"


@pytest.mark.parametrize(
    ("sent", "wrong"),
    [
        ({"agent": ""}, b"Choose an agent."),
        ({"days": "many"}, b"An agreement lasts from 1 to 30 days."),
        ({"days": "31"}, b"An agreement lasts from 1 to 30 days."),
        ({"cron": "every monday"}, b"A schedule has five fields"),
        ({"time_zone": "Here"}, b"There is no time zone called"),
    ],
)
def test_the_form_comes_back_with_the_sentence(
    world: World, sent: dict[str, str], wrong: bytes
) -> None:
    values = body(world, consent="on", days="30")
    answer = sign_in(world).post(page(world, "new/"), {**values, **sent})
    assert answer.status_code == 400
    assert wrong in answer.content
    assert Task.objects.count() == 0
