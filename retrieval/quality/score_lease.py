"""Who scores a run: one worker at a time, fenced by the attempt's number and the database's clock.

Promises: a worker whose lease lapsed, or whose run was stopped, writes nothing any more; a run that
workers keep dying of is stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q

from accounts.models import Organization
from audit.record import record_system
from kaizen.kernel.clock import ClockTimestamp
from kaizen.kernel.tenancy import organization_scope
from retrieval.models import ScoreRow, ScoreRun
from retrieval.quality.score_runs import search_settings, settings_digest

SHORTEST_LEASE = 20.0
"""Seconds; longer than embedding one question takes."""
MOST_BROKEN_OFF = 5
_BROKEN_OFF = f"Stopped: {MOST_BROKEN_OFF} workers in a row ended before they scored a question."
_CHANGED = "The search's settings changed while this ran."


class LeaseLost(Exception):
    """Another worker scores the run, or nobody is to any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One worker's time at a run."""

    run_id: UUID
    organization_id: UUID
    attempt: int


def claim(run_id: UUID) -> Lease | None:
    """Take a run that is due, or None. One that broke off too often is stopped instead."""
    with transaction.atomic():
        found = (
            ScoreRun.objects.select_for_update(skip_locked=True, no_key=True, of=("self",))
            .filter(is_due(), pk=run_id)
            .first()
        )
        if found is None:
            return None
        lease = Lease(
            run_id=found.pk, organization_id=found.organization_id, attempt=found.attempt + 1
        )
        ScoreRun.objects.filter(pk=found.pk).update(
            attempt=lease.attempt,
            broken_off=F("broken_off") + 1,
            lease_until=_until(),
            sent_at=None,
        )
    if found.broken_off >= MOST_BROKEN_OFF:
        stop(lease, _BROKEN_OFF)
        return None
    return lease


@contextmanager
def hold(lease: Lease) -> Iterator[ScoreRun]:
    """One transaction with the run locked. Raises LeaseLost when it is another's."""
    with organization_scope(lease.organization_id):
        held = (
            ScoreRun.objects.select_for_update(no_key=True, of=("self",))
            .filter(_mine(lease))
            .first()
        )
        if held is None:
            raise LeaseLost
        yield held


def release(lease: Lease) -> None:
    """Give the lease back before the run is done. Nothing when it is another's."""
    ScoreRun.objects.filter(_mine(lease)).update(lease_until=None, broken_off=0)


def renew(run: ScoreRun) -> None:
    """Something was scored: keep the lease, within `hold`."""
    ScoreRun.objects.filter(pk=run.pk).update(lease_until=_until(), broken_off=0)


def finish(lease: Lease) -> None:
    """End a run whose searches are all scored. Raises LeaseLost."""
    with hold(lease) as run:
        changed = settings_digest(search_settings(run.organization_id)) != run.settings_digest
        _end(run, ScoreRun.State.DONE, _CHANGED if changed else "")


def stop(lease: Lease, message: str) -> None:
    """End a run that can't go on. Nothing when it is another's."""
    try:
        with hold(lease) as run:
            _end(run, ScoreRun.State.STOPPED, message)
    except LeaseLost:
        return


def _end(run: ScoreRun, state: ScoreRun.State, message: str) -> None:
    ScoreRun.objects.filter(pk=run.pk).update(
        state=state, message=message, ended_at=ClockTimestamp(), lease_until=None
    )
    scored = ScoreRow.objects.filter(
        organization_id=run.organization_id, run=run, scored_at__isnull=False
    )
    record_system(
        run.organization_id,
        "retrieval.scoring_ended",
        subject=run,
        data={
            "state": state.value,
            "searches": scored.count(),
            "with_leaks": scored.exclude(leaked=[]).count(),
        },
    )


def is_due() -> Q:
    """Runs to be scored that nobody scores now."""
    free = Q(lease_until=None) | Q(lease_until__lte=ClockTimestamp())
    living = Q(organization__state=Organization.State.ACTIVE)
    return Q(state=ScoreRun.State.RUNNING) & free & living


def _mine(lease: Lease) -> Q:
    return Q(
        pk=lease.run_id,
        state=ScoreRun.State.RUNNING,
        attempt=lease.attempt,
        lease_until__gt=ClockTimestamp(),
    )


def _until() -> Any:
    return ClockTimestamp() + timedelta(seconds=max(settings.KAIZEN_LEASE_SECONDS, SHORTEST_LEASE))
