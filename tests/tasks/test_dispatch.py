"""From due time to run and back: once each, never silently lost, and stopped when consent ends."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

import pytest
from django.db import connections

from audit.models import AuditEvent
from conversations.models import Conversation, Run
from kaizen.kernel.clock import now
from tasks import dispatch, services
from tasks.models import Occurrence, Task
from tests.tasks.factories import DUE, World, make_due, make_world, save


@pytest.fixture
def world(db: None) -> World:
    return make_world()


def due_task(world: World, at: datetime = DUE, **changes: object) -> Task:
    """A task whose next due time is `at`."""
    task = save(world, **changes)
    Task.objects.filter(pk=task.pk).update(next_due_at=at)
    task.refresh_from_db()
    return task


def start(task: Task) -> Occurrence:
    occurrence = make_due(task)
    dispatch.execute(occurrence.pk)
    occurrence.refresh_from_db()
    assert occurrence.state == Occurrence.State.RUNNING
    return occurrence


def end(occurrence: Occurrence, state: Run.State, message: str = "") -> None:
    assert Run.objects.filter(pk=occurrence.run_id).update(
        state=state, error_message=message, finished_at=DUE
    )


def test_a_due_task_becomes_one_occurrence_and_moves_on(world: World) -> None:
    task = due_task(world)
    assert dispatch.dispatch_due(at=DUE - timedelta(seconds=1)) == 0
    assert dispatch.dispatch_due(at=DUE + timedelta(seconds=3)) == 1
    assert dispatch.dispatch_due(at=DUE + timedelta(seconds=8)) == 0
    occurrence = Occurrence.objects.get()
    assert (occurrence.task, occurrence.due_at, occurrence.state, occurrence.reason) == (
        task,
        DUE,
        "due",
        "",
    )
    task.refresh_from_db()
    assert task.next_due_at == DUE + timedelta(days=7)


def test_the_message_is_sent_once_the_occurrence_is_committed(
    world: World, django_capture_on_commit_callbacks: object
) -> None:
    due_task(world)
    with django_capture_on_commit_callbacks() as callbacks:  # type: ignore[operator]
        dispatch.dispatch_due(at=DUE)
    assert len(callbacks) == 1


def test_paused_and_archived_tasks_are_never_due(world: World) -> None:
    services.pause(world.authority, task=due_task(world))
    services.archive(world.authority, task=due_task(world))
    assert dispatch.dispatch_due(at=DUE + timedelta(days=365)) == 0


def test_k62_after_downtime_one_run_stands_for_all_that_was_missed(world: World) -> None:
    task = due_task(world, cron="0 * * * *")  # due at 07:00; nothing ran until 11:10
    back = DUE + timedelta(hours=4, minutes=10)
    assert dispatch.dispatch_due(at=back) == 1
    occurrence = Occurrence.objects.get()
    assert occurrence.due_at == DUE + timedelta(hours=4)
    assert occurrence.reason == (
        "5 due times were missed while nothing was running; this one run stands for them."
    )
    task.refresh_from_db()
    assert task.next_due_at == DUE + timedelta(hours=5)
    # Then the normal rhythm.
    assert dispatch.dispatch_due(at=DUE + timedelta(hours=5, seconds=2)) == 1
    assert Occurrence.objects.get(due_at=DUE + timedelta(hours=5)).reason == ""


def test_a_due_time_that_is_on_time_is_not_counted_as_missed(world: World) -> None:
    due_task(world, cron="0 * * * *")
    dispatch.dispatch_due(at=DUE + timedelta(hours=1, seconds=10))
    assert Occurrence.objects.get().reason == (
        "1 due time was missed while nothing was running; this one run stands for it."
    )


def test_a_schedule_gone_bad_pauses_its_task_and_lets_the_others_run(world: World) -> None:
    bad, good = due_task(world), due_task(world)
    Task.objects.filter(pk=bad.pk).update(time_zone="Gone/Zone")
    assert dispatch.dispatch_due(at=DUE) == 1
    assert Occurrence.objects.get().task == good
    bad.refresh_from_db()
    assert (bad.state, bad.next_due_at) == ("paused", None)


def test_k62_two_schedulers_make_one_occurrence_of_each_due_time(committed_db: str) -> None:
    task = due_task(make_world(), cron="* * * * *")
    barrier = threading.Barrier(2)
    made: list[int] = []

    def tick() -> None:
        for minute in range(10):
            barrier.wait(30)
            made.append(dispatch.dispatch_due(at=DUE + timedelta(minutes=minute, seconds=1)))
        connections.close_all()

    threads = [threading.Thread(target=tick) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    due = list(Occurrence.objects.filter(task=task).order_by("due_at"))
    assert [occurrence.due_at for occurrence in due] == [
        DUE + timedelta(minutes=minute) for minute in range(10)
    ]
    assert sum(made) == 10


def test_executing_starts_the_owners_run_in_a_conversation_of_their_own(world: World) -> None:
    task = save(world)
    occurrence = start(task)
    run = Run.objects.get()
    assert (occurrence.run, occurrence.conversation) == (run, run.conversation)
    assert (run.user, run.trigger, run.question.text) == (
        world.member.user,
        Run.Trigger.TASK,
        "What is still open?",
    )
    assert (run.conversation.title, run.agent_version) == (
        "Monday digest",
        world.agent.current_version,
    )
    assert AuditEvent.objects.filter(action="tasks.dispatched", channel="delegation").count() == 1


def test_executing_again_changes_nothing(world: World) -> None:
    occurrence = start(save(world))
    dispatch.execute(occurrence.pk)
    assert (Run.objects.count(), Conversation.objects.count()) == (1, 1)


def test_an_unknown_occurrence_is_dropped(world: World) -> None:
    dispatch.execute(world.organization.pk)
    assert Run.objects.count() == 0


def test_two_workers_start_one_run(committed_db: str) -> None:
    occurrence = make_due(save(make_world()))
    barrier = threading.Barrier(2)

    def work() -> None:
        barrier.wait(30)
        dispatch.execute(occurrence.pk)
        connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert Run.objects.count() == 1
    occurrence.refresh_from_db()
    assert occurrence.state == "running"


def test_a_turn_that_can_not_start_refuses_with_its_reason_and_leaves_nothing(world: World) -> None:
    task = save(world)
    world.agent.language_model.enabled = False
    world.agent.language_model.save()
    occurrence = make_due(task)
    dispatch.execute(occurrence.pk)
    occurrence.refresh_from_db()
    assert (occurrence.state, occurrence.reason) == (
        "refused",
        "The language model of this agent is switched off. Tell an administrator.",
    )
    assert (Run.objects.count(), Conversation.objects.count()) == (0, 0)


@pytest.mark.parametrize(
    ("ended", "message", "expected"),
    [
        (Run.State.SUCCEEDED, "", ("succeeded", "")),
        (Run.State.FAILED, "The provider refused.", ("failed", "The provider refused.")),
        (Run.State.FAILED, "", ("failed", "The run broke off.")),
        (Run.State.CANCELLED, "", ("failed", "The run was stopped.")),
    ],
)
def test_an_ended_run_settles_its_occurrence_once(
    world: World, ended: Run.State, message: str, expected: tuple[str, str]
) -> None:
    occurrence = start(save(world))
    dispatch.settle()
    occurrence.refresh_from_db()
    assert occurrence.state == "running"
    end(occurrence, ended, message)
    dispatch.settle()
    dispatch.settle()
    occurrence.refresh_from_db()
    assert (occurrence.state, occurrence.reason, occurrence.finished_at) == (*expected, DUE)
    assert AuditEvent.objects.filter(action="tasks.finished").count() == 1


def test_withdrawing_consent_stops_what_is_running(world: World) -> None:
    task = save(world)
    occurrence = start(task)
    services.revoke_consent(world.authority, task=task)
    dispatch.settle()
    run = Run.objects.get()
    # No runtime had taken it yet, so it ends at once; a running one is told to stop.
    assert (run.state, run.error_code) == ("cancelled", "consent_ended")
    dispatch.settle()
    occurrence.refresh_from_db()
    assert (occurrence.state, occurrence.reason) == (
        "failed",
        "The agreement to unattended work ended, so this was stopped.",
    )


def test_a_new_consent_lets_what_is_running_go_on(world: World) -> None:
    task = save(world)
    start(task)
    save(world, task=task, prompt="What is new?")
    dispatch.settle()
    assert Run.objects.get().state == "queued"


def test_a_lost_message_is_sent_again_and_a_hopeless_one_given_up(
    world: World, django_capture_on_commit_callbacks: object
) -> None:
    task = save(world)
    fresh, lost, old = (make_due(task, DUE + timedelta(minutes=minute)) for minute in range(3))
    Occurrence.objects.filter(pk=lost.pk).update(created_at=now() - timedelta(seconds=31))
    Occurrence.objects.filter(pk=old.pk).update(created_at=now() - timedelta(minutes=61))
    with django_capture_on_commit_callbacks() as callbacks:  # type: ignore[operator]
        dispatch.settle()
    assert len(callbacks) == 1
    assert [
        (occurrence.state, occurrence.reason)
        for occurrence in Occurrence.objects.filter(pk__in=[fresh.pk, lost.pk, old.pk]).order_by(
            "due_at"
        )
    ] == [
        ("due", ""),
        ("due", ""),
        ("refused", "It could not be started within an hour."),
    ]
