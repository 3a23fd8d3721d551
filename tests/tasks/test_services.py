"""Saving a task is agreeing to it: what is stored, what is refused, and that a refusal stores
nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db.models import Model

from accounts.authority import Channel, Narrowing
from accounts.permissions import Verb
from agents.models import Agent
from audit.models import AuditEvent
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Conflict, Denied, Invalid, KaizenError, Missing
from tasks import queries, services
from tasks.delegation import Proven, Reason, Refusal, prove
from tasks.models import Delegation, Task
from tests.factories import authority_of, grant, make_member, make_organization
from tests.tasks.factories import DUE, World, make_due, make_world, save

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return make_world()


def events(*, of: Model | None = None) -> list[str]:
    found = AuditEvent.objects.filter(action__startswith="tasks.").order_by("at", "id")
    if of is not None:
        found = found.filter(object_id=str(of.pk))
    return list(found.values_list("action", flat=True))


def test_saving_stores_task_consent_and_audit_together(world: World) -> None:
    before = now()
    task = save(world)
    assert (task.owner, task.agent, task.cron, task.time_zone, task.state) == (
        world.member.user,
        world.agent,
        "0 8 * * 1",
        "Europe/Amsterdam",
        "active",
    )
    assert task.next_due_at > before
    delegation = Delegation.objects.get(task=task)
    assert (delegation.user, delegation.revoked_at) == (world.member.user, None)
    assert delegation.expires_at - delegation.granted_at == timedelta(days=30)
    assert events(of=task) == ["tasks.saved", "tasks.consented"]
    outcome = prove(task)
    assert isinstance(outcome, Proven)
    assert (outcome.authority.user_id, outcome.authority.channel) == (
        world.member.user_id,
        Channel.DELEGATION,
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"consent": False}, "consent"),
        ({"days": 0}, "days"),
        ({"days": 31}, "days"),
        ({"name": " \n"}, "name"),
        ({"name": "n" * 121}, "name"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": "p" * 20_001}, "prompt"),
        ({"cron": "0 8 * *"}, "cron"),
        ({"cron": "0 " * 61}, "cron"),
        ({"time_zone": "Mars/Olympus"}, "time_zone"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_written(
    world: World, change: dict[str, object], field: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        save(world, **change)
    assert list(refusal.value.data["errors"]) == [field]
    assert (Task.objects.count(), Delegation.objects.count(), events()) == (0, 0, [])


def test_without_the_tick_the_sentence_says_why(world: World) -> None:
    with pytest.raises(Invalid) as refusal:
        save(world, consent=False)
    assert refusal.value.message == (
        "Tick that the agent may work with your rights while you are away; without it nothing runs."
    )


def test_an_agent_one_may_not_use_is_refused_and_nothing_is_written(world: World) -> None:
    stranger = make_member(make_organization())
    with pytest.raises(Missing):
        services.save_task(
            authority_of(stranger),
            name="Spy",
            agent_id=world.agent.pk,
            prompt="Tell me",
            cron="* * * * *",
            time_zone="UTC",
            consent=True,
        )
    assert (Task.objects.count(), events()) == (0, [])


@pytest.mark.parametrize("channel", [Channel.RUN, Channel.DELEGATION])
def test_a_run_can_not_agree_to_anything(world: World, channel: Channel) -> None:
    authority = replace(
        world.authority.narrowed(Narrowing()), channel=channel, narrowing=Narrowing()
    )
    with pytest.raises(Denied):
        services.save_task(
            authority,
            name="More of me",
            agent_id=world.agent.pk,
            prompt="Go on for ever",
            cron="* * * * *",
            time_zone="UTC",
            consent=True,
        )
    assert Task.objects.count() == 0


def test_changing_a_task_ends_the_earlier_consent(world: World) -> None:
    task = save(world)
    changed = save(world, task=task, prompt="What is new?", days=7)
    assert changed.pk == task.pk
    old, new = Delegation.objects.filter(task=task).order_by("granted_at")
    assert old.revoked_at is not None
    assert (new.revoked_at, new.expires_at - new.granted_at) == (None, timedelta(days=7))
    assert new.digest != old.digest
    assert isinstance(prove(changed), Proven)


def test_only_the_owner_changes_or_agrees_whatever_was_granted(world: World) -> None:
    task = save(world)
    colleague = make_member(world.organization)
    grant(colleague, Verb.MANAGE, task)
    other = authority_of(colleague)
    for act in (
        lambda: services.save_task(
            other,
            task=task,
            name=task.name,
            agent_id=task.agent_id,
            prompt="Send me the salaries",
            cron=task.cron,
            time_zone=task.time_zone,
            consent=True,
        ),
        lambda: services.renew_consent(other, task=task, consent=True),
    ):
        with pytest.raises(Denied):
            act()
    task.refresh_from_db()
    assert task.prompt == "What is still open?"
    assert Delegation.objects.filter(task=task).count() == 1


@pytest.mark.parametrize(
    ("verb", "refused"),
    [
        (
            None,
            {"pause": Missing, "resume": Missing, "revoke_consent": Missing, "archive": Missing},
        ),
        (
            Verb.VIEW,
            {"pause": Denied, "resume": Denied, "revoke_consent": Denied, "archive": Denied},
        ),
        (Verb.CHANGE, {"revoke_consent": Denied, "archive": Denied}),
        (Verb.MANAGE, {}),
    ],
)
def test_buttons_follow_the_verbs(
    world: World, verb: Verb | None, refused: dict[str, type[KaizenError]]
) -> None:
    task = save(world)
    colleague = make_member(world.organization)
    if verb is not None:
        grant(colleague, verb, task)
    found: dict[str, type[KaizenError]] = {}
    for name in ("pause", "resume", "revoke_consent", "archive"):
        try:
            getattr(services, name)(authority_of(colleague), task=task)
        except KaizenError as error:
            found[name] = type(error)
    assert found == refused
    task.refresh_from_db()
    if verb in (None, Verb.VIEW):
        assert task.state == Task.State.ACTIVE
        assert events(of=task) == ["tasks.saved", "tasks.consented"]


def test_pausing_and_resuming_keeps_the_consent(world: World) -> None:
    task = save(world)
    paused = services.pause(world.authority, task=task)
    assert paused.state == "paused"
    assert prove(paused) == Refusal(reason=Reason.INACTIVE)
    resumed = services.resume(world.authority, task=task)
    assert (resumed.state, resumed.next_due_at > now()) == ("active", True)
    assert isinstance(prove(resumed), Proven)


def test_an_archived_task_is_left_alone(world: World) -> None:
    task = save(world)
    services.archive(world.authority, task=task)
    services.archive(world.authority, task=task)
    task.refresh_from_db()
    assert (task.state, task.next_due_at) == ("archived", None)
    assert Delegation.objects.filter(task=task, revoked_at=None).count() == 0
    with pytest.raises(Conflict):
        services.resume(world.authority, task=task)
    with pytest.raises(Conflict):
        services.renew_consent(world.authority, task=task, consent=True)
    assert events(of=task) == [
        "tasks.saved",
        "tasks.consented",
        "tasks.consent_revoked",
        "tasks.archived",
    ]
    assert list(queries.list_tasks(world.authority)) == []


def test_renewing_needs_the_tick_and_covers_the_agent_as_it_is_now(world: World) -> None:
    task = save(world)
    services.revoke_consent(world.authority, task=task)
    with pytest.raises(Invalid):
        services.renew_consent(world.authority, task=task, consent=False)
    assert prove(task) == Refusal(reason=Reason.REVOKED)
    services.renew_consent(world.authority, task=task, consent=True, days=1)
    assert isinstance(prove(task), Proven)


def test_the_list_shows_the_callers_tasks_in_one_query(
    world: World, django_assert_num_queries: object
) -> None:
    tasks = [save(world, name=f"Task {number}") for number in range(3)]
    services.revoke_consent(world.authority, task=tasks[0])
    make_due(tasks[1])
    Agent.objects.filter(pk=world.agent.pk).update(name="Renamed")
    authority = world.authority
    # The list with owner, agent, newest occurrence and consent is one statement.
    with django_assert_num_queries(1):  # type: ignore[operator]
        views = queries.view_tasks(queries.list_tasks(authority))
    assert [(view.name, view.agent.name, view.refusal) for view in views] == [
        ("Task 2", "Renamed", ""),
        ("Task 1", "Renamed", ""),
        ("Task 0", "Renamed", "The agreement to unattended work was withdrawn."),
    ]
    assert [view.last and (view.last.state, view.last.due_at) for view in views] == [
        None,
        ("due", DUE),
        None,
    ]
    assert views[0].schedule_words == "Every Monday at 08:00"
    assert queries.view_tasks(queries.list_tasks(authority_of(world.admin))) == []


def test_an_admin_pauses_any_task_of_the_organisation_and_none_of_another(world: World) -> None:
    task = save(world)
    foreign = make_world()
    with pytest.raises(Missing):
        services.pause(authority_of(foreign.admin), task=task)
    task.refresh_from_db()
    assert task.state == "active"
    assert services.pause(authority_of(world.admin), task=task).state == "paused"
