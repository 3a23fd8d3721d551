"""Background work of connections: thin, by id. The connection's row is the outbox; the tick finds
what is due, what a lost message left, and what a dead worker held.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from celery import shared_task
from django.db import transaction
from django.db.models import Q

from kaizen.kernel.clock import ClockTimestamp
from kaizen.kernel.jobs import enqueue
from retrieval.connectors.leases import is_due
from retrieval.connectors.outcome import SYNC_JOB
from retrieval.connectors.sync import sync_connection
from retrieval.models import Connection

SENT_TOO_LONG = timedelta(seconds=120)
_AT_ONCE = 100


@shared_task(name=SYNC_JOB)
def sync(*, connection_id: str) -> None:
    """Sync one connection; nothing when it isn't due or somebody is at it."""
    sync_connection(UUID(connection_id))


@shared_task(name="retrieval.sync_due")
def sync_due() -> None:
    """Start a sync of every connection that is due."""
    for connection_id in find_due():
        enqueue(SYNC_JOB, connection_id=connection_id)


@transaction.atomic
def find_due() -> list[UUID]:
    """Connections that are due and that no message is under way for; at most 100. Locks them,
    skipping those that are locked.
    """
    unsent = Q(sent_at=None) | Q(sent_at__lt=ClockTimestamp() - SENT_TOO_LONG)
    due = (
        Connection.objects.select_for_update(skip_locked=True, no_key=True, of=("self",))
        .filter(is_due() & unsent)
        .order_by("next_sync_at")[:_AT_ONCE]
    )
    found = [connection.pk for connection in due]
    Connection.objects.filter(pk__in=found).update(sent_at=ClockTimestamp())
    return found
