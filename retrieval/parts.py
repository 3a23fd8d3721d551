"""Documents that came out of an archive, and what holds for an archive and its parts as one.

Promises: a part is known by a mark that nothing from outside can set; taking a document out of
the library takes its parts out with it, in the same transaction. Not for: unpacking
(`retrieval.archives`).
"""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import QuerySet

from accounts.permissions import team_grants_of, user_grants_of
from kaizen.kernel.clock import now
from kaizen.kernel.jobs import enqueue
from retrieval.ingest.archive import MEDIA_TYPES
from retrieval.ingest.index import remove_passages
from retrieval.models import Document, WaitingReader

PURGE_JOB = "retrieval.purge_blobs"
_MARK = "archive:"
_ARCHIVES = frozenset(MEDIA_TYPES.values())


def mark_of(archive: Document) -> str:
    """What the parts of `archive` carry as their revision."""
    return f"{_MARK}{archive.pk}"


def is_part(document: Document) -> bool:
    """Whether the document came out of an archive."""
    return document.revision.startswith(_MARK)


def is_archive(document: Document) -> bool:
    """Whether the document may have parts: it was an archive when it was last read."""
    return document.media_type in _ARCHIVES


def parts_of(archive: Document) -> QuerySet[Document]:
    """The living documents that came out of `archive`."""
    return Document.objects.filter(
        organization_id=archive.organization_id,
        source_id=archive.source_id,
        revision=mark_of(archive),
        deleted_at=None,
    )


def lock_parts(archive: Document) -> list[Document]:
    """The parts, locked until the transaction ends; the caller holds the archive's lock."""
    if not is_archive(archive):
        return []
    rows = parts_of(archive).select_for_update(no_key=True, of=("self",))
    return list(rows.select_related("organization").order_by("pk"))


def with_parts(document: Document) -> Iterator[Document]:
    """The document, locked by the caller, and its parts."""
    yield document
    yield from lock_parts(document)


def remove_document(document: Document) -> None:
    """Take one document, locked by the caller, out of index, rights and sight; its bytes follow."""
    remove_passages(document)
    for grants in (user_grants_of(Document), team_grants_of(Document)):
        grants._default_manager.filter(content_object_id=document.key).delete()
    WaitingReader.objects.filter(document=document).delete()
    document.deleted_at = now()
    document.passage_count = 0
    document.save(update_fields=["deleted_at", "passage_count"])
    enqueue(PURGE_JOB, document_id=document.pk)
