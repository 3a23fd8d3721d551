"""What is written down about a sync: that it began, what it did, how it ended, when it is next due.

Promises: every ending names its reason in plain words on the connection and on the run; a source
whose rights can't be read is hidden in a transaction of its own, at once.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import F

from audit.record import record_system
from kaizen.kernel.clock import ClockTimestamp
from kaizen.kernel.jobs import enqueue
from kaizen.kernel.text import make_storable
from retrieval.connectors.contract import ConnectorError
from retrieval.connectors.leases import Lease, hold, release
from retrieval.connectors.pace import delay_after, spread
from retrieval.connectors.store import Outcome
from retrieval.models import Connection, Source, SyncRun
from retrieval.models.connections import LONGEST_MESSAGE

SYNC_JOB = "retrieval.sync"
MOST_LOST = 3
"""A connection whose worker died so often in a row is left alone for a while."""
KEPT_RUNS = 50
COUNTS = ("seen", "added", "changed", "deleted", "failed")
_COLUMN = {Outcome.ADDED: "added", Outcome.CHANGED: "changed"}


def begin(connection: Connection, lease: Lease) -> UUID:
    """Open a pass, or go on with the open one. Returns the run that counts what is done."""
    running = SyncRun.objects.filter(connection=connection, state=SyncRun.State.RUNNING)
    if lease.taken_over:
        running.update(
            state=SyncRun.State.LOST,
            ended_at=ClockTimestamp(),
            message="The worker stopped in the middle; another went on from the last page.",
        )
        connection.consecutive_failures += 1
    if not connection.pass_open:
        connection.pass_number += 1
        connection.pass_open, connection.pass_lists = True, None
    connection.save(
        update_fields=["pass_number", "pass_open", "pass_lists", "consecutive_failures"]
    )
    run = running.order_by("-started_at").first()
    if run is None:
        run = SyncRun.objects.create(
            organization_id=connection.organization_id,
            connection=connection,
            attempt=lease.attempt,
        )
    return run.pk


def count(run_id: UUID, **numbers: int) -> None:
    """Add to what the run has done."""
    changes = {name: F(name) + number for name, number in numbers.items() if number}
    if changes:
        SyncRun.objects.filter(pk=run_id).update(**changes)


def count_stored(run_id: UUID, outcome: Outcome) -> None:
    """Add one stored item to what the run has done."""
    if outcome in _COLUMN:
        count(run_id, **{_COLUMN[outcome]: 1})


def go_on_later(lease: Lease) -> None:
    """The slice is over: another job goes on with this run, from the last page."""
    with hold(lease):
        enqueue(SYNC_JOB, connection_id=lease.connection_id)
        release(lease)


def stop(lease: Lease, run_id: UUID) -> None:
    """The connection was paused; it goes on from the last page when it is resumed."""
    with hold(lease):
        _end(lease, run_id, state=SyncRun.State.STOPPED, message="Paused.")
        release(lease)


def fail(lease: Lease, run_id: UUID, error: ConnectorError) -> None:
    """The source system can't be read; try again later, and ever later."""
    message = make_storable(error.message).text[:LONGEST_MESSAGE] or "It can't be read."
    with hold(lease) as connection:
        failures = connection.consecutive_failures + 1
        delay = delay_after(
            failures, retry=error.retry, retry_after=error.retry_after, spread=spread
        )
        _end(lease, run_id, state=SyncRun.State.FAILED, message=message)
        changes: dict[str, Any] = {
            "consecutive_failures": failures,
            "last_error": message,
            "next_sync_at": ClockTimestamp() + timedelta(seconds=delay),
        }
        if connection.state == Connection.State.ACTIVE:
            changes["state"] = Connection.State.FAILING
        release(lease, **changes)


def succeed(
    connection: Connection, lease: Lease, run_id: UUID, *, held: str, mirrors: bool
) -> None:
    """The pass is over: all that changed is stored. `held` says what was held back, if anything.

    Rights that couldn't be read are known again by this.
    """
    run = SyncRun.objects.get(pk=run_id)
    message = held or _failures(run.failed)
    state = SyncRun.State.HELD if held else SyncRun.State.SUCCEEDED
    _end(lease, run_id, state=state, message=message)
    if mirrors and connection.source.acl_unknown_since is not None:
        Source.objects.filter(pk=connection.source_id).update(acl_unknown_since=None)
        record_system(
            connection.organization_id, "retrieval.rights_known", subject=connection.source
        )
    changes: dict[str, Any] = {
        "pass_open": False,
        "pass_lists": None,
        "consecutive_failures": 0,
        "last_error": message,
        "last_success_at": ClockTimestamp(),
        "next_sync_at": ClockTimestamp() + timedelta(minutes=connection.interval_minutes),
    }
    if connection.state == Connection.State.FAILING:
        changes["state"] = Connection.State.ACTIVE
    release(lease, **changes)


def hide_source(lease: Lease) -> None:
    """The rights can't be read: until they can, nothing of the source is anybody's."""
    with hold(lease) as connection:
        hidden = Source.objects.filter(pk=connection.source_id, acl_unknown_since=None)
        if hidden.update(acl_unknown_since=ClockTimestamp()):
            record_system(
                connection.organization_id, "retrieval.rights_unknown", subject=connection.source
            )


def _end(lease: Lease, run_id: UUID, *, state: SyncRun.State, message: str) -> None:
    SyncRun.objects.filter(pk=run_id).update(
        state=state, ended_at=ClockTimestamp(), message=message[:LONGEST_MESSAGE]
    )
    run = SyncRun.objects.select_related("connection").get(pk=run_id)
    numbers = {
        name: getattr(run, name) for name in ("seen", "added", "changed", "deleted", "failed")
    }
    record_system(
        lease.organization_id,
        "retrieval.synced",
        subject=run.connection,
        data={"state": state, **numbers},
    )
    old = SyncRun.objects.filter(connection_id=lease.connection_id).order_by("-started_at", "-pk")
    SyncRun.objects.filter(pk__in=list(old.values_list("pk", flat=True)[KEPT_RUNS:])).delete()


def _failures(failed: int) -> str:
    if not failed:
        return ""
    what = "item" if failed == 1 else "items"
    return f"{failed:,} {what} couldn't be taken over; what can be tried again is."
