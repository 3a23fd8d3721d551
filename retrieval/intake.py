"""How a file becomes a document or its next version: what uploads, pushes and archives share.

Promises: the same bytes are never a second version; whoever reads an earlier version loses their
claim when a new one waits. Checks no rights: its callers do, or have none to check. Every function
runs in the caller's transaction. Locks: blob, then document.
"""

from __future__ import annotations

from uuid import UUID

from django.db.models import Max

from kaizen.kernel.clock import now
from kaizen.kernel.errors import Missing
from kaizen.kernel.jobs import enqueue
from retrieval.blobs import Content
from retrieval.details import title_from_name
from retrieval.models import Blob, Document, DocumentVersion, Source

INGEST_JOB = "retrieval.ingest"


def find_living(source: Source, external_id: str) -> Document | None:
    """The document of this external id that wasn't deleted."""
    return Document.objects.filter(
        organization_id=source.organization_id,
        source=source,
        external_id=external_id,
        deleted_at=None,
    ).first()


def make_document(
    source: Source, *, external_id: str, file_name: str, uploaded_by_id: int | None
) -> Document:
    """The document of this external id, locked; made where there is none."""
    found, _ = Document.objects.get_or_create(
        organization_id=source.organization_id,
        source=source,
        external_id=external_id,
        deleted_at=None,
        defaults={
            "file_name": file_name,
            "title": title_from_name(file_name),
            "uploaded_by_id": uploaded_by_id,
        },
    )
    return lock_document(found.pk)


def lock_document(document_id: UUID) -> Document:
    """The document, locked until the transaction ends.

    Raises Missing when it was deleted meanwhile.
    """
    document: Document | None = (
        Document.objects.select_for_update(no_key=True)
        .filter(pk=document_id, deleted_at=None)
        .first()
    )
    if document is None:
        raise Missing
    return document


def is_newest(document: Document, content: Content) -> bool:
    """Whether the document's last version holds these bytes."""
    version = document.versions.select_related("blob").order_by("-number").first()
    return version is not None and version.blob.digest == content.digest


def add_version(document: Document, *, blob: Blob, file_name: str, media_type: str) -> int:
    """Make the bytes the next version, without saving the document; returns its number."""
    number: int = (document.versions.aggregate(last=Max("number"))["last"] or 0) + 1
    DocumentVersion.objects.create(
        organization_id=document.organization_id,
        document=document,
        number=number,
        blob=blob,
        file_name=file_name,
        media_type=media_type,
    )
    document.file_name = file_name
    document.updated_at = now()
    return number


def read_again(document: Document) -> None:
    """Put a document that was read into the queue, since what is searched beside its text changed.

    Its passages may be cited, so they stay those of their version: the same bytes become another.
    """
    newest = document.versions.order_by("-number").first()
    if newest is not None and newest.chunks.exists():
        DocumentVersion.objects.create(
            organization_id=document.organization_id,
            document=document,
            number=newest.number + 1,
            blob_id=newest.blob_id,
            file_name=newest.file_name,
            media_type=newest.media_type,
        )
    wait(document)


def wait(document: Document, *, start: bool = True) -> None:
    """Save a document and put it into the queue to be read."""
    document.state = Document.State.WAITING
    document.state_code = document.state_message = ""
    document.state_at = now()
    document.save()
    if start:
        enqueue(INGEST_JOB, document_id=document.pk)
