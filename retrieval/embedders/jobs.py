"""Background work of embedding spaces: thin, by id. The space's row is the outbox; the tick finds
what a lost message or a dead worker left.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from celery import shared_task
from django.db import transaction
from django.db.models import Q

from kaizen.kernel.clock import ClockTimestamp
from kaizen.kernel.jobs import enqueue
from retrieval.models import EmbeddingSpace
from retrieval.spaces.build import GRACE, Built, build_space, empty_space
from retrieval.spaces.changes import BUILD_JOB
from retrieval.spaces.lease import is_due

EMPTY_JOB = "retrieval.empty_space"
TURN_SECONDS = 20.0
"""So long a worker builds before it looks at what else waits, documents among it."""
SENT_TOO_LONG = timedelta(seconds=60)
_AT_ONCE = 100


@shared_task(name=BUILD_JOB)
def build(*, space_id: str) -> None:
    """Build one space for a while; nothing when it isn't due or somebody is at it."""
    if build_space(UUID(space_id), seconds=TURN_SECONDS) is Built.MORE:
        enqueue(BUILD_JOB, space_id=space_id)


@shared_task(name=EMPTY_JOB)
def empty(*, space_id: str) -> None:
    """Remove a slice of one retired space's vectors."""
    if empty_space(UUID(space_id)):
        enqueue(EMPTY_JOB, space_id=space_id)


@shared_task(name="retrieval.tend_spaces")
def tend() -> None:
    """Go on with every space that is being built or emptied."""
    for space_id in find_unbuilt():
        enqueue(BUILD_JOB, space_id=space_id)
    for space_id in find_unemptied():
        enqueue(EMPTY_JOB, space_id=space_id)


def find_unbuilt() -> list[UUID]:
    """Spaces to go on building that no message is under way for."""
    return _take(is_due())


def find_unemptied() -> list[UUID]:
    """Retired spaces with vectors that no message is under way for."""
    return _take(
        Q(
            state=EmbeddingSpace.State.RETIRED,
            emptied_at=None,
            retired_at__lte=ClockTimestamp() - GRACE,
        )
    )


@transaction.atomic
def _take(wanted: Q) -> list[UUID]:
    """At most 100 of them. Locks them, skipping those that are locked."""
    unsent = Q(sent_at=None) | Q(sent_at__lt=ClockTimestamp() - SENT_TOO_LONG)
    rows = (
        EmbeddingSpace.objects.select_for_update(skip_locked=True, no_key=True, of=("self",))
        .filter(unsent, wanted)
        .order_by("key")[:_AT_ONCE]
    )
    found = [row.pk for row in rows]
    EmbeddingSpace.objects.filter(pk__in=found).update(sent_at=ClockTimestamp())
    return found
