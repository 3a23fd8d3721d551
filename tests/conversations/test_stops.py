"""Stopping a run and trying it again: who may, when, and what it leaves."""

from __future__ import annotations

import pytest

from accounts.permissions import Verb
from conversations import turns
from conversations.models import Message, Run
from kaizen.kernel.errors import Conflict, Denied, Missing
from tests import factories
from tests.conversations.worlds import (
    answer,
    ask,
    audited,
    claim,
    finish,
    kinds_of,
    make_world,
    open_gate,
    state_of,
    write,
)

pytestmark = pytest.mark.django_db


# --- stop


def test_stopping_a_queued_run_cancels_it() -> None:
    world = make_world()
    turn = ask(world)
    turns.stop(world.authority, run_id=turn.run.pk)
    turn.run.refresh_from_db()
    assert (turn.run.state, turn.run.error_code, turn.run.salvaged) == (
        "cancelled",
        "stopped",
        False,
    )
    assert turn.run.finished_at is not None
    assert kinds_of(turn.conversation)[2:] == ["stop_requested", "run_finished"]
    assert audited(world, "conversations.")[2:] == [
        "conversations.turn_stopped",
        "conversations.run_finished",
    ]


def test_stopping_a_running_run_asks_its_process() -> None:
    world = make_world()
    turn = ask(world)
    claim()
    turns.stop(world.authority, run_id=turn.run.pk)
    turn.run.refresh_from_db()
    assert (turn.run.state, turn.run.error_code) == ("running", "stopped")
    assert turn.run.stop_requested_at is not None
    assert kinds_of(turn.conversation)[-1] == "stop_requested"


def test_stopping_twice_is_stopping_once() -> None:
    world = make_world()
    turn = ask(world)
    claim()
    turns.stop(world.authority, run_id=turn.run.pk)
    before = state_of(world)
    turns.stop(world.authority, run_id=turn.run.pk)
    assert state_of(world) == before


@pytest.mark.parametrize("state", [Run.State.SUCCEEDED, Run.State.FAILED, Run.State.CANCELLED])
def test_stopping_a_run_that_ended_changes_nothing(state: Run.State) -> None:
    world = make_world()
    turn = ask(world)
    finish(open_gate(), state)
    before = state_of(world)
    assert turns.stop(world.authority, run_id=turn.run.pk).state == state
    assert state_of(world) == before


def test_stopping_needs_the_right_to_change() -> None:
    world = make_world()
    turn = ask(world)
    watcher = world.another((Verb.VIEW, turn.conversation))
    before = state_of(world)
    with pytest.raises(Denied):
        turns.stop(factories.authority_of(watcher), run_id=turn.run.pk)
    for stranger in (world.another(), make_world().member):
        with pytest.raises(Missing):
            turns.stop(factories.authority_of(stranger), run_id=turn.run.pk)
    with pytest.raises(Missing):
        turns.stop(world.authority, run_id="not an id")
    assert state_of(world) == before


def test_the_platform_cancels_with_its_own_reason() -> None:
    world = make_world()
    turn = ask(world)
    turns.cancel(turn.run.pk, code="consent_ended", message="The consent ended.")
    turn.run.refresh_from_db()
    assert (turn.run.state, turn.run.error_code, turn.run.error_message) == (
        "cancelled",
        "consent_ended",
        "The consent ended.",
    )
    before = state_of(world)
    turns.cancel(turn.run.pk, code="again", message="")
    assert state_of(world) == before


# --- retry


def test_a_broken_answer_is_tried_again_as_a_child_run() -> None:
    world = make_world()
    turn = ask(world)
    gate = open_gate()
    write(gate, "Two d")
    finish(gate, Run.State.FAILED, salvaged=True, code="lost", message="Lost.")
    again = turns.retry(world.authority, run_id=turn.run.pk, key="r-1")
    assert (again.run.parent, again.run.question) == (turn.run, turn.message)
    assert again.run.answer_id != turn.run.answer_id
    assert (again.run.state, again.run.attempt, again.replayed) == ("queued", 0, False)
    assert Message.objects.filter(role="user").count() == 1
    finish(open_gate())


def test_a_retry_with_the_same_key_is_the_same_run() -> None:
    world = make_world()
    turn = ask(world)
    turns.stop(world.authority, run_id=turn.run.pk)
    first = turns.retry(world.authority, run_id=turn.run.pk, key="r-1")
    before = state_of(world)
    again = turns.retry(world.authority, run_id=turn.run.pk, key="r-1")
    assert (again.run, again.replayed) == (first.run, True)
    assert state_of(world) == before


def test_a_retry_of_what_went_well_or_goes_on_is_a_conflict() -> None:
    world = make_world()
    turn = ask(world)
    before = state_of(world)
    with pytest.raises(Conflict):  # queued
        turns.retry(world.authority, run_id=turn.run.pk, key="r-1")
    gate = open_gate()
    with pytest.raises(Conflict):  # running
        turns.retry(world.authority, run_id=turn.run.pk, key="r-1")
    finish(gate)
    before = state_of(world)
    with pytest.raises(Conflict):  # succeeded
        turns.retry(world.authority, run_id=turn.run.pk, key="r-1")
    assert state_of(world) == before


def test_only_the_newest_run_is_tried_again() -> None:
    world = make_world()
    turn = ask(world)
    turns.stop(world.authority, run_id=turn.run.pk)
    answer(world, "Two.", question="And?", conversation=turn.conversation)
    before = state_of(world)
    with pytest.raises(Conflict):
        turns.retry(world.authority, run_id=turn.run.pk, key="r-1")
    assert state_of(world) == before


def test_a_retry_needs_the_right_to_change() -> None:
    world = make_world()
    turn = ask(world)
    turns.stop(world.authority, run_id=turn.run.pk)
    watcher = world.another((Verb.VIEW, turn.conversation))
    before = state_of(world)
    with pytest.raises(Denied):
        turns.retry(factories.authority_of(watcher), run_id=turn.run.pk, key="r-1")
    with pytest.raises(Missing):
        turns.retry(factories.authority_of(world.another()), run_id=turn.run.pk, key="r-1")
    assert state_of(world) == before
