"""Leases: who may act for a run, for how long, and that nobody else can."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from agents.guard.contract import LeaseLost
from audit.models import AuditEvent, AuditPending
from conversations import leases, turns
from conversations.leases import Lease
from conversations.models import Run
from tests.conversations.worlds import (
    ask,
    claim,
    finish,
    journal_of,
    lapse,
    make_world,
    open_gate,
    state_of,
)


@pytest.mark.django_db
def test_claiming_takes_the_oldest_queued_run() -> None:
    world = make_world()
    first, second = ask(world), ask(world)
    Run.objects.filter(pk=second.run.pk).update(created_at=timezone.now() - timedelta(hours=1))
    assert [claim().run_id, claim().run_id] == [second.run.pk, first.run.pk]
    assert leases.claim() is None


@pytest.mark.django_db
def test_a_claimed_run_carries_a_hashed_lease() -> None:
    world = make_world()
    turn = ask(world)
    lease = claim()
    run = Run.objects.get()
    assert lease == Lease(
        run_id=turn.run.pk,
        organization_id=world.organization.id,
        attempt=1,
        secret=lease.secret,
    )
    assert (run.state, run.attempt, len(run.lease_hash)) == ("running", 1, 64)
    assert len(lease.secret) == 43
    assert lease.secret not in str(Run.objects.values().get())
    left = run.lease_until - timezone.now()
    assert timedelta(0) < left <= timedelta(seconds=settings.KAIZEN_LEASE_SECONDS)
    assert journal_of(turn.conversation)[-1] == (
        3,
        "run_started",
        {"run": str(run.pk), "message": str(run.answer_id), "attempt": 1},
    )


@pytest.mark.django_db
def test_ended_and_running_runs_are_not_claimed() -> None:
    world = make_world()
    ended = ask(world)
    turns.stop(world.authority, run_id=ended.run.pk)
    ask(world)
    claim()
    assert leases.claim() is None


def test_two_claimers_at_once_take_different_runs(committed_db: str) -> None:
    world = make_world()
    first, second = ask(world), ask(world)
    taken: list[object] = []

    def take() -> None:
        lease = leases.claim()
        taken.append(lease and lease.run_id)
        connection.close()

    with transaction.atomic():
        mine = claim()  # Not committed yet: the other must not wait for it, nor take the same.
        for _ in range(2):
            other = threading.Thread(target=take)
            other.start()
            other.join(10)
    assert mine.run_id == first.run.pk
    assert taken == [second.run.pk, None]


@pytest.mark.django_db
def test_a_lease_that_holds_gives_the_run_locked_and_is_not_extended() -> None:
    world = make_world()
    turn = ask(world)
    lease = claim()
    until = Run.objects.get().lease_until
    with transaction.atomic():
        assert leases.lock(lease).pk == turn.run.pk
    assert Run.objects.get().lease_until == until


@pytest.mark.django_db
@pytest.mark.parametrize(
    "forged",
    [
        {"attempt": 2},
        {"attempt": 0},
        {"secret": "x" * 43},
        {"secret": ""},
        {"organization_id": "other"},
        {"run_id": "other"},
    ],
)
def test_what_is_not_exactly_the_lease_is_lost(forged: dict[str, object]) -> None:
    world, other = make_world(), make_world()
    ask(world)
    lease = claim()
    ids = {"organization_id": other.organization.id, "run_id": ask(other).run.pk}
    wrong = {name: ids.get(name, value) for name, value in forged.items()}
    before = state_of(world)
    with transaction.atomic(), pytest.raises(LeaseLost):
        leases.lock(replace(lease, **wrong))  # type: ignore[arg-type]
    if "organization_id" not in forged:
        assert leases.renew(replace(lease, **wrong)) is False  # type: ignore[arg-type]
    assert state_of(world) == before


@pytest.mark.django_db
def test_a_lapsed_lease_is_lost_and_cannot_be_renewed() -> None:
    world = make_world()
    ask(world)
    lease = claim()
    lapse(lease)
    before = state_of(world)
    with transaction.atomic(), pytest.raises(LeaseLost):
        leases.lock(lease)
    assert leases.renew(lease) is False
    assert state_of(world) == before


@pytest.mark.django_db
def test_a_later_attempt_fences_the_earlier_one_off() -> None:
    world = make_world()
    turn = ask(world)
    old = claim()
    turns.requeue(turn.run.pk, attempt=old.attempt)
    new = claim()
    with transaction.atomic(), pytest.raises(LeaseLost):
        leases.lock(old)
    assert leases.renew(old) is False
    with transaction.atomic():
        assert leases.lock(new).attempt == 2


@pytest.mark.django_db
def test_a_run_that_ended_has_no_lease() -> None:
    world = make_world()
    ask(world)
    gate = open_gate()
    finish(gate)
    with transaction.atomic(), pytest.raises(LeaseLost):
        leases.lock(gate.lease)
    assert leases.renew(gate.lease) is False


@pytest.mark.django_db
def test_renewing_extends_from_now() -> None:
    world = make_world()
    ask(world)
    lease = claim()
    Run.objects.update(lease_until=Now() + timedelta(seconds=1))
    assert leases.renew(lease) is True
    left = Run.objects.get().lease_until - timezone.now()
    assert left > timedelta(seconds=settings.KAIZEN_LEASE_SECONDS - 5)


@pytest.mark.django_db
def test_a_late_frame_is_audited_without_its_secret() -> None:
    world = make_world()
    ask(world)
    lease = claim()
    leases.note_stale(lease, frame="Heartbeat")
    event = AuditEvent.objects.get(action="agents.stale_frame")
    assert event.data == {"run": str(lease.run_id), "attempt": 1, "frame": "Heartbeat"}
    assert AuditPending.objects.filter(event_id=event.id).count() == 1
