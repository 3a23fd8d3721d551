"""Who syncs a connection: one worker at a time, with signs of life, fenced by the attempt's number
and the database's clock.

Promises: a worker whose lease lapsed or was taken writes nothing any more; one that hangs in
foreign code gives no signs of life for ever. Every write of a sync goes through `hold`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connections, transaction
from django.db.models import F, Q

from accounts.models import Organization
from kaizen.kernel.clock import ClockTimestamp
from kaizen.kernel.tenancy import organization_scope
from retrieval.models import Connection

STUCK_AFTER = 30 * 60.0
"""Seconds without progress after which a worker stops saying that it lives."""


class LeaseLost(Exception):
    """The sync was taken over, or the connection changed meanwhile: nothing more may be written."""


class Stopped(Exception):
    """The connection was paused, or is being removed."""


@dataclass(slots=True, kw_only=True)
class Lease:
    """One attempt at syncing a connection. `taken_over` says that the last one's worker died."""

    connection_id: UUID
    organization_id: UUID
    attempt: int
    taken_over: bool
    progress_at: float = field(default_factory=time.monotonic)

    def note_progress(self) -> None:
        """Say that the sync isn't stuck."""
        self.progress_at = time.monotonic()


def claim(connection_id: UUID) -> Lease | None:
    """Take a connection that is due and that nobody syncs, or None."""
    with transaction.atomic():
        found = (
            Connection.objects.select_for_update(skip_locked=True, no_key=True, of=("self",))
            .filter(pk=connection_id)
            .filter(is_due())
            .first()
        )
        if found is None:
            return None
        Connection.objects.filter(pk=found.pk).update(
            attempt=F("attempt") + 1, lease_until=_until(), sent_at=None
        )
    return Lease(
        connection_id=found.pk,
        organization_id=found.organization_id,
        attempt=found.attempt + 1,
        taken_over=found.lease_until is not None,
    )


def is_due() -> Q:
    """Connections that may be synced now: wanted, and held by nobody who lives."""
    wanted = Q(state__in=[Connection.State.ACTIVE, Connection.State.FAILING])
    usable = Q(source__archived_at=None, source__organization__state=Organization.State.ACTIVE) & Q(
        next_sync_at__lte=ClockTimestamp()
    )
    free = Q(lease_until=None) | Q(lease_until__lte=ClockTimestamp())
    return ((wanted & usable) | Q(state=Connection.State.ENDING)) & free


@contextmanager
def hold(lease: Lease) -> Iterator[Connection]:
    """One transaction with the connection locked. Raises LeaseLost when it is another's."""
    with organization_scope(lease.organization_id):
        held = (
            Connection.objects.select_for_update(no_key=True, of=("self",))
            .select_related("source__organization")
            .filter(_mine(lease))
            .first()
        )
        if held is None:
            raise LeaseLost
        yield held
        # Unless the block gave the lease back. Nobody could take it while the row was locked.
        Connection.objects.filter(pk=held.pk, lease_until__isnull=False).update(
            lease_until=_until()
        )
    lease.note_progress()


def check_wanted(lease: Lease) -> None:
    """Give a sign of life. Raises Stopped when the sync isn't wanted any more, or LeaseLost."""
    lease.note_progress()
    going = Connection.objects.filter(_mine(lease))
    if not going.update(lease_until=_until()):
        raise LeaseLost
    state = going.values_list("state", flat=True).first()
    if state not in (Connection.State.ACTIVE, Connection.State.FAILING):
        raise Stopped


def release(lease: Lease, **changes: Any) -> None:
    """Give the lease back, with these columns changed. Nothing when it is another's."""
    Connection.objects.filter(_mine(lease)).update(lease_until=None, **changes)


@contextmanager
def signs_of_life(lease: Lease) -> Iterator[None]:
    """Keep the lease from another thread while the block runs, foreign code included."""
    ended = threading.Event()

    def live() -> None:
        try:
            while not ended.wait(settings.KAIZEN_LEASE_SECONDS / 3):
                if time.monotonic() - lease.progress_at < STUCK_AFTER:
                    Connection.objects.filter(_mine(lease)).update(lease_until=_until())
        finally:
            connections.close_all()

    thread = threading.Thread(target=live, name=f"lease of {lease.connection_id}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _mine(lease: Lease) -> Q:
    return Q(pk=lease.connection_id, attempt=lease.attempt, lease_until__gt=ClockTimestamp())


def _until() -> Any:
    return ClockTimestamp() + timedelta(seconds=settings.KAIZEN_LEASE_SECONDS)
