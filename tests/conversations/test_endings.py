"""How runs end: the answer, the table of moves, fencing by attempt and lease."""

from __future__ import annotations

from itertools import product

import pytest
from django.utils import timezone

from audit.models import AuditEvent
from conversations import turns
from conversations.active import end_run
from conversations.jobs import sweep
from conversations.models import JournalEvent, Message, Run
from conversations.states import check_move
from kaizen.kernel.errors import Conflict
from tests.conversations.worlds import (
    answer,
    ask,
    audited,
    claim,
    finish,
    journal_of,
    kinds_of,
    lapse,
    make_world,
    open_gate,
    state_of,
    write,
)

LEGAL = {
    ("queued", "running"),
    ("queued", "failed"),
    ("queued", "cancelled"),
    ("running", "queued"),
    ("running", "waiting"),
    ("running", "succeeded"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("waiting", "queued"),
    ("waiting", "failed"),
    ("waiting", "cancelled"),
}


@pytest.mark.parametrize(("old", "new"), list(product(Run.State.values, repeat=2)))
def test_the_table_of_moves(old: str, new: str) -> None:
    if (old, new) in LEGAL:
        check_move(Run(state=old), new)
    else:
        with pytest.raises(Conflict):
            check_move(Run(state=old), new)


@pytest.mark.django_db
def test_a_finished_run_has_its_text_as_a_message() -> None:
    world = make_world()
    turn = ask(world)
    gate = open_gate()
    write(gate, "Two ")
    write(gate, "days.", offset=4)
    finish(gate)
    said = Message.objects.get(role="assistant")
    assert (said.pk, said.text) == (turn.run.answer_id, "Two days.")
    assert (said.parent, said.run, said.author) == (turn.message, turn.run, None)
    turn.conversation.refresh_from_db()
    assert turn.conversation.head == said
    turn.run.refresh_from_db()
    assert (turn.run.state, turn.run.salvaged, turn.run.error_code) == ("succeeded", False, "")
    assert (turn.run.lease_hash, turn.run.lease_until) == ("", None)
    assert turn.run.finished_at is not None
    assert journal_of(turn.conversation)[-1] == (
        6,
        "run_finished",
        {
            "run": str(turn.run.pk),
            "message": str(said.pk),
            "state": "succeeded",
            "salvaged": False,
            "error_code": "",
            "error_message": "",
            "length": 9,
        },
    )
    event = AuditEvent.objects.get(action="conversations.run_finished")
    assert (event.channel, event.actor_id) == ("system", None)
    assert event.data == {"state": "succeeded", "salvaged": False, "code": ""}


@pytest.mark.django_db
def test_a_run_without_text_leaves_no_message() -> None:
    world = make_world()
    turn = ask(world)
    finish(open_gate(), Run.State.FAILED, code="overloaded", message="x" * 600)
    assert Message.objects.filter(role="assistant").count() == 0
    turn.conversation.refresh_from_db()
    assert turn.conversation.head == turn.message
    turn.run.refresh_from_db()
    assert (turn.run.error_code, turn.run.error_message) == ("overloaded", "x" * 500)


@pytest.mark.django_db
def test_an_ended_run_does_not_end_again() -> None:
    world = make_world()
    turn = answer(world, "Two.")
    before = state_of(world)
    with pytest.raises(Conflict):
        turns.finish_locked(turn.run, state=Run.State.FAILED)
    assert state_of(world) == before


# --- given back


@pytest.mark.django_db
def test_a_run_given_back_is_queued_again_and_gets_the_next_attempt() -> None:
    world = make_world()
    turn = ask(world)
    lease = claim()
    turns.requeue(turn.run.pk, attempt=lease.attempt)
    turn.run.refresh_from_db()
    assert (turn.run.state, turn.run.lease_hash, turn.run.lease_until) == ("queued", "", None)
    assert kinds_of(turn.conversation)[-2:] == ["run_started", "run_requeued"]
    assert claim().attempt == 2


@pytest.mark.django_db
@pytest.mark.parametrize("attempt", [0, 2])
def test_giving_back_another_attempt_does_nothing(attempt: int) -> None:
    world = make_world()
    turn = ask(world)
    claim()
    before = state_of(world)
    turns.requeue(turn.run.pk, attempt=attempt)
    assert state_of(world) == before


@pytest.mark.django_db
def test_a_run_stopped_meanwhile_ends_instead_of_being_given_back() -> None:
    world = make_world()
    turn = ask(world)
    lease = claim()
    turns.stop(world.authority, run_id=turn.run.pk)
    turns.requeue(turn.run.pk, attempt=lease.attempt)
    turn.run.refresh_from_db()
    assert (turn.run.state, turn.run.error_code) == ("cancelled", "stopped")


# --- lost


@pytest.mark.django_db
def test_a_lost_run_keeps_its_text_and_may_be_tried_again() -> None:
    world = make_world()
    turn = ask(world)
    gate = open_gate()
    write(gate, "Two d")
    assert turns.lose(turn.run.pk, attempt=gate.lease.attempt) is True
    turn.run.refresh_from_db()
    assert (turn.run.state, turn.run.salvaged, turn.run.error_code) == ("failed", True, "lost")
    assert Message.objects.get(role="assistant").text == "Two d"
    assert turns.retry(world.authority, run_id=turn.run.pk, key="r").run.state == "queued"


@pytest.mark.django_db
def test_only_the_standing_attempt_can_be_lost() -> None:
    world = make_world()
    turn = ask(world)
    turns.requeue(turn.run.pk, attempt=claim().attempt)
    claim()
    before = state_of(world)
    assert turns.lose(turn.run.pk, attempt=1) is False
    assert state_of(world) == before
    assert turns.lose(turn.run.pk, attempt=2) is True


@pytest.mark.django_db
def test_the_sweep_ends_runs_whose_lease_has_lapsed_and_no_others() -> None:
    world = make_world()
    lapsed, alive = ask(world), ask(world)
    lease = claim()
    claim()
    assert turns.lose(lapsed.run.pk) is False
    lapse(lease)
    sweep()
    lapsed.run.refresh_from_db()
    alive.run.refresh_from_db()
    assert (lapsed.run.state, lapsed.run.salvaged) == ("failed", True)
    assert alive.run.state == "running"
    before = state_of(world)
    sweep()
    assert state_of(world) == before


@pytest.mark.django_db
def test_a_stopped_run_that_is_lost_counts_as_stopped() -> None:
    world = make_world()
    turn = ask(world)
    lease = claim()
    turns.stop(world.authority, run_id=turn.run.pk)
    lapse(lease)
    assert turns.lose(turn.run.pk) is True
    turn.run.refresh_from_db()
    assert (turn.run.state, turn.run.salvaged, turn.run.error_code) == (
        "cancelled",
        False,
        "stopped",
    )


# --- as its runtime says


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("outcome", "reason", "problem", "ended"),
    [
        ("answered", "end", None, ("succeeded", False, "")),
        ("answered", "end", ("limited", "Wait."), ("succeeded", False, "")),
        ("limit", "steps", None, ("failed", True, "limit_steps")),
        ("failed", "empty_reply", None, ("failed", True, "empty_reply")),
        ("failed", "overloaded", ("quota", "Used up."), ("failed", True, "quota")),
    ],
)
def test_a_run_ends_as_its_runtime_says(
    outcome: str,
    reason: str,
    problem: tuple[str, str] | None,
    ended: tuple[str, bool, str],
) -> None:
    world = make_world()
    turn = ask(world)
    end_run(claim(), outcome, reason, problem)
    turn.run.refresh_from_db()
    assert (turn.run.state, turn.run.salvaged, turn.run.error_code) == ended


@pytest.mark.django_db
def test_a_stop_wins_over_what_the_runtime_says() -> None:
    world = make_world()
    turn = ask(world)
    lease = claim()
    turns.stop(world.authority, run_id=turn.run.pk)
    end_run(lease, "answered", "end", None)
    turn.run.refresh_from_db()
    assert turn.run.state == "cancelled"


@pytest.mark.django_db
def test_a_runtime_that_lost_its_lease_ends_nothing() -> None:
    world = make_world()
    ask(world)
    lease = claim()
    lapse(lease)
    before = state_of(world)
    end_run(lease, "answered", "end", None)
    assert state_of(world) == before


@pytest.mark.django_db
def test_every_end_is_journaled_once_with_its_attempt() -> None:
    world = make_world()
    turn = ask(world)
    turns.requeue(turn.run.pk, attempt=claim().attempt)
    finish(open_gate())
    event = JournalEvent.objects.get(kind="run_finished")
    assert (event.run_id, event.attempt) == (turn.run.pk, 2)
    assert event.at <= timezone.now()
    assert audited(world, "conversations.run_finished") == ["conversations.run_finished"]
