"""Changes to what describes a document and to where it lies. Each checks the relation, changes, and
writes its audit event as one unit.

Promises: moving a document embeds nothing again, and who may see it changes in the same
transaction; only another title has it read again, since a title is searched. Locks: document, its
parts, then sources.
"""

from __future__ import annotations

from django.db import IntegrityError, transaction

from accounts.authority import Authority
from accounts.permissions import Verb
from audit.record import record
from kaizen.kernel.errors import Conflict
from retrieval.acl import get_document, get_source
from retrieval.details import Details, put_details, title_from_name
from retrieval.ingest.index import move_passages
from retrieval.intake import lock_document, read_again
from retrieval.models import Document, Source, SyncItem
from retrieval.parts import is_archive, is_part, with_parts


@transaction.atomic
def update_document(authority: Authority, *, document: Document, details: Details) -> Document:
    """Change what describes a document; a blank title gives way to its file's name.

    Needs change on it. Raises Missing, Denied.
    """
    get_document(authority, document.pk, Verb.CHANGE)
    document = lock_document(document.pk)
    changed = put_details(document, details)
    if not document.title:
        document.title = title_from_name(document.file_name)
    if not changed:
        return document
    if "title" in changed and not is_archive(document):
        read_again(document)
    else:
        document.save(update_fields=[*changed, "title"])
    record(
        authority,
        "retrieval.document_changed",
        subject=document,
        data={"fields": sorted(changed)},
    )
    return document


@transaction.atomic
def move_document(authority: Authority, *, document: Document, source: Source) -> Document:
    """Put a document, an archive with its parts, into another source.

    Needs change on it and on both sources. Raises Missing, Denied; Conflict where the other source
    has one of the same external id, or a connection or an archive says where it lies.
    """
    document = get_document(authority, document.pk, Verb.CHANGE)
    left = get_source(authority, document.source_id, Verb.CHANGE)
    source = get_source(authority, source.pk, Verb.CHANGE)
    if left.pk == source.pk:
        return document
    document = lock_document(document.pk)
    if SyncItem.objects.filter(document=document).exists():
        raise Conflict("A connection keeps this document up to date. Move it in its own system.")
    if is_part(document):
        raise Conflict("This document came out of an archive. Move the archive.")
    moved = list(with_parts(document))
    taken = Document.objects.filter(
        organization_id=source.organization_id,
        source=source,
        external_id__in=[one.external_id for one in moved],
        deleted_at=None,
    )
    if taken.exists():
        raise _same_place()
    for one in moved:
        move_passages(one, source=source)
        one.source = source
        try:
            with transaction.atomic():
                one.save(update_fields=["source"])
        except IntegrityError:
            raise _same_place() from None
    data = {"from": str(left.pk), "to": str(source.pk), "documents": len(moved)}
    record(authority, "retrieval.document_moved", subject=document, data=data)
    return document


def _same_place() -> Conflict:
    return Conflict("The other source has a document of the same external id already.")
