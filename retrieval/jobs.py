"""Background work of retrieval: thin, idempotent, by id.

The document's state is the outbox; the sweep finds the lost.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from celery import shared_task
from django.db import transaction

from kaizen.kernel.clock import ClockTimestamp
from kaizen.kernel.jobs import enqueue
from retrieval.archives import expand_document
from retrieval.blobs import purge_document
from retrieval.connectors import jobs as connector_jobs  # noqa: F401  registers its jobs
from retrieval.documents import INGEST_JOB, PURGE_JOB
from retrieval.embedders import jobs as embedder_jobs  # noqa: F401  registers its jobs
from retrieval.ingest.claim import STALE_AFTER
from retrieval.ingest.contract import EXPAND_JOB
from retrieval.ingest.store import ingest_document
from retrieval.live import jobs as live_jobs  # noqa: F401  registers its jobs
from retrieval.models import Document, DocumentVersion
from retrieval.postings import find_long_tails, fold_organization
from retrieval.quality import jobs as scoring_jobs  # noqa: F401  registers its jobs

WAITING_TOO_LONG = timedelta(seconds=15)
MOST_LOST_READINGS = 3
_AT_ONCE = 100
_LOST = "lost_"


@shared_task(name=INGEST_JOB)
def ingest(*, document_id: str) -> None:
    """Read one document; nothing when it isn't waiting."""
    ingest_document(UUID(document_id))


@shared_task(name=EXPAND_JOB)
def expand(*, document_id: str) -> None:
    """Unpack one archive; nothing when it isn't waiting."""
    expand_document(UUID(document_id))


@shared_task(name=PURGE_JOB)
def purge_blobs(*, document_id: str) -> None:
    """Remove versions, passages and bytes of one deleted document."""
    purge_document(UUID(document_id))


@shared_task(name="retrieval.sweep")
def sweep() -> None:
    """Start again what a lost message or a dead worker left behind."""
    for document_id in find_lost():
        enqueue(INGEST_JOB, document_id=document_id)
    for document_id in find_unpurged():
        enqueue(PURGE_JOB, document_id=document_id)


@shared_task(name="retrieval.fold")
def fold() -> None:
    """Fold what was indexed lately into postings, for organisations with a long tail."""
    for organization_key in find_long_tails():
        fold_organization(organization_key)


@transaction.atomic
def find_lost() -> list[UUID]:
    """Documents that wait too long or whose reader fell silent, back in the queue; at most 100.

    One whose reader fell silent MOST_LOST_READINGS times in a row fails instead: it may be what
    killed it.
    """
    lost: list[UUID] = []
    rows = Document.objects.select_for_update(skip_locked=True, no_key=True).filter(deleted_at=None)
    waiting = rows.filter(
        state=Document.State.WAITING, state_at__lt=ClockTimestamp() - WAITING_TOO_LONG
    )
    reading = rows.filter(state=Document.State.READING, state_at__lt=ClockTimestamp() - STALE_AFTER)
    for document in waiting.order_by("state_at")[:_AT_ONCE]:
        # Moving the time keeps the next sweep from sending the same message again at once.
        Document.objects.filter(pk=document.pk).update(state_at=ClockTimestamp())
        lost.append(document.pk)
    for document in reading.order_by("state_at")[:_AT_ONCE]:
        times = 1 + _times_lost(document)
        if times >= MOST_LOST_READINGS:
            state, code = Document.State.FAILED, "reader_died"
            message = (
                f"Reading this file was broken off {times} times. Read it again, or upload it in "
                "another format."
            )
        else:
            state, code, message = Document.State.WAITING, f"{_LOST}{times}", ""
            lost.append(document.pk)
        Document.objects.filter(pk=document.pk).update(
            state=state, state_code=code, state_message=message, state_at=ClockTimestamp()
        )
    return lost


def find_unpurged() -> list[UUID]:
    """Deleted documents that still have versions; at most 100."""
    return list(
        DocumentVersion.objects.filter(document__deleted_at__isnull=False)
        .values_list("document_id", flat=True)
        .distinct()[:_AT_ONCE]
    )


def _times_lost(document: Document) -> int:
    number = document.state_code.removeprefix(_LOST)
    return int(number) if number != document.state_code else 0
