"""A worker's hold on a document that it reads or unpacks: waiting -> reading, and back.

Promises: one worker at a time holds a document; one that gives no sign of life for STALE_AFTER is
given up; one that lost its claim (deleted, replaced, taken over) can write nothing, since every
writing function here takes the document's lock and looks again. Not for: what is done meanwhile.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from kaizen.kernel.clock import ClockTimestamp
from kaizen.kernel.tenancy import organization_scope
from retrieval.models import Blob, Document

STALE_AFTER = timedelta(seconds=120)
"""A reading whose worker gave no sign of life for so long is up for another."""
_SIGN_OF_LIFE = 5.0


class ClaimLost(Exception):
    """The document was deleted, replaced or taken over while it was being read."""


@dataclass(slots=True)
class Claim:
    """What a worker holds: the document as it was claimed. `at`, its last sign of life, fences it
    off.
    """

    document_id: UUID
    organization_id: UUID
    version_id: UUID
    blob: Blob
    file_name: str
    media_type: str
    title: str
    at: datetime
    last_sign: float = field(default_factory=time.monotonic)


def find_claim(document_id: UUID) -> Claim | None:
    """Take a document that waits, or whose reader fell silent; None when there is nothing to do.

    Skips one that another transaction holds.
    """
    with transaction.atomic():
        document = (
            Document.objects.select_for_update(skip_locked=True, no_key=True)
            .filter(pk=document_id, deleted_at=None)
            .filter(
                Q(state=Document.State.WAITING)
                | Q(state=Document.State.READING, state_at__lt=ClockTimestamp() - STALE_AFTER)
            )
            .first()
        )
        if document is None:
            return None
        version = document.versions.select_related("blob").order_by("-number").first()
        if version is None:
            return None
        Document.objects.filter(pk=document.pk).update(
            state=Document.State.READING, state_at=ClockTimestamp(), state_message=""
        )
        document.refresh_from_db(fields=["state_at"])
    return Claim(
        document_id=document.pk,
        organization_id=document.organization_id,
        version_id=version.pk,
        blob=version.blob,
        file_name=version.file_name,
        media_type=version.media_type,
        title=document.title,
        at=document.state_at,
    )


def claimed(claim: Claim) -> Document:
    """The claimed document with its source, locked. Raises ClaimLost."""
    document: Document | None = (
        Document.objects.select_for_update(no_key=True, of=("self",))
        .select_related("organization", "source")
        .filter(
            pk=claim.document_id, deleted_at=None, state=Document.State.READING, state_at=claim.at
        )
        .first()
    )
    if document is None:
        raise ClaimLost
    return document


def give_sign(claim: Claim, progress: str) -> None:
    """Say that it goes on, and how far it is; every few seconds, however often it is called.

    Raises ClaimLost.
    """
    if time.monotonic() - claim.last_sign < _SIGN_OF_LIFE:
        return
    with organization_scope(claim.organization_id):
        document = claimed(claim)
        Document.objects.filter(pk=document.pk).update(
            state_at=ClockTimestamp(), state_message=progress
        )
        document.refresh_from_db(fields=["state_at"])
    claim.at = document.state_at
    claim.last_sign = time.monotonic()


def put_back(claim: Claim, *, message: str = "") -> None:
    """Let the document wait for the next sweep, or for a job that the caller starts.

    The state's code stays: it counts how often a worker fell silent over it. Raises ClaimLost.
    """
    with organization_scope(claim.organization_id):
        document = claimed(claim)
        Document.objects.filter(pk=document.pk).update(
            state=Document.State.WAITING, state_message=message[:500], state_at=ClockTimestamp()
        )


def fail(claim: Claim, *, code: str, message: str, what_stays: str = "") -> str:
    """Write down why it failed; `what_stays` is said where an earlier version could be read.

    Returns what was written. Raises ClaimLost.
    """
    with organization_scope(claim.organization_id):
        document = claimed(claim)
        if document.current_version_id is not None and what_stays:
            message = f"{message} {what_stays}"
        Document.objects.filter(pk=document.pk).update(
            state=Document.State.FAILED,
            state_code=code[:40],
            state_message=message[:500],
            state_at=ClockTimestamp(),
        )
    return message
