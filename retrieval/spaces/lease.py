"""Who builds a space: one worker at a time, with signs of life, fenced by the attempt's number and
the database's clock.

Promises: a worker whose lease lapsed, or whose space was cancelled, writes nothing any more.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connections, transaction
from django.db.models import F, Q

from accounts.models import Organization
from kaizen.kernel.clock import ClockTimestamp
from kaizen.kernel.tenancy import organization_scope
from retrieval.models import EmbeddingSpace


class LeaseLost(Exception):
    """Another worker builds the space, or nobody is to any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One worker's time at a space."""

    space_id: UUID
    space_key: int
    organization_id: UUID
    organization_key: int
    attempt: int


def is_due() -> Q:
    """Spaces to be built that nobody builds now and that needn't wait."""
    free = Q(lease_until=None) | Q(lease_until__lte=ClockTimestamp())
    may = Q(retry_at=None) | Q(retry_at__lte=ClockTimestamp())
    living = Q(organization__state=Organization.State.ACTIVE)
    return Q(state=EmbeddingSpace.State.BUILDING) & free & may & living


def claim(space_id: UUID) -> Lease | None:
    """Take a space that is due, or None."""
    with transaction.atomic():
        found = (
            EmbeddingSpace.objects.select_for_update(skip_locked=True, no_key=True, of=("self",))
            .select_related("organization")
            .filter(is_due(), pk=space_id)
            .first()
        )
        if found is None:
            return None
        EmbeddingSpace.objects.filter(pk=found.pk).update(
            attempt=F("attempt") + 1, lease_until=_until(), sent_at=None
        )
    return Lease(
        space_id=found.pk,
        space_key=found.key,
        organization_id=found.organization_id,
        organization_key=found.organization.key,
        attempt=found.attempt + 1,
    )


@contextmanager
def hold(lease: Lease) -> Iterator[EmbeddingSpace]:
    """One transaction with the space locked. Raises LeaseLost when it is another's."""
    with organization_scope(lease.organization_id):
        held = (
            EmbeddingSpace.objects.select_for_update(no_key=True, of=("self",))
            .filter(_mine(lease))
            .first()
        )
        if held is None:
            raise LeaseLost
        yield held


def release(lease: Lease, **changes: Any) -> None:
    """Give the lease back, with these columns changed. Nothing when it is another's."""
    EmbeddingSpace.objects.filter(_mine(lease)).update(lease_until=None, **changes)


@contextmanager
def signs_of_life(lease: Lease) -> Iterator[None]:
    """Keep the lease from another thread while the block runs, calls to a provider included."""
    ended = threading.Event()

    def live() -> None:
        try:
            while not ended.wait(settings.KAIZEN_LEASE_SECONDS / 3):
                EmbeddingSpace.objects.filter(_mine(lease)).update(lease_until=_until())
        finally:
            connections.close_all()

    thread = threading.Thread(target=live, name=f"lease of {lease.space_id}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _mine(lease: Lease) -> Q:
    return Q(
        pk=lease.space_id,
        state=EmbeddingSpace.State.BUILDING,
        attempt=lease.attempt,
        lease_until__gt=ClockTimestamp(),
    )


def _until() -> Any:
    return ClockTimestamp() + timedelta(seconds=settings.KAIZEN_LEASE_SECONDS)
