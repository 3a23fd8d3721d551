"""How a sync writes documents: for an organisation and a source, with no caller.

Promises: the same item with the same bytes changes nothing; a document with rights of its own is
nobody's before they stand; what goes leaves the index in the same transaction. Every function runs
in the caller's transaction under the connection's lease. Locks: connection, blob, documents by
their ids, then source.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from audit.record import record_system
from retrieval.blobs import Content, store_content
from retrieval.connectors.incoming import Incoming
from retrieval.connectors.rights import mirror_rights
from retrieval.details import title_from_name
from retrieval.intake import add_version, is_newest, read_again
from retrieval.models import Connection, Document
from retrieval.parts import is_archive, remove_document, with_parts

_DETAILS = ("revision", "file_name", "path", "url", "author", "tags", "dated_at")


class Outcome(StrEnum):
    """What storing an item did."""

    ADDED = "added"
    CHANGED = "changed"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class Stored:
    """The document of an item, and what storing it did."""

    document: Document
    outcome: Outcome


def lock_documents(connection: Connection, keys: Iterable[str]) -> dict[str, Document]:
    """The living documents of these items, by key, locked."""
    rows = (
        Document.objects.select_for_update(no_key=True, of=("self",))
        .select_related("organization")
        .filter(
            organization_id=connection.organization_id,
            source_id=connection.source_id,
            external_id__in=list(keys),
            deleted_at=None,
        )
        .order_by("pk")
    )
    return {document.external_id: document for document in rows}


def store_item(
    connection: Connection, incoming: Incoming, *, content: Content, media_type: str, mirrors: bool
) -> Stored:
    """Make the document of an item hold these bytes and details, with its rights.

    A new one is made with its rights in the same transaction; other bytes become its next version.
    """
    blob = store_content(connection.organization_id, content)
    document = lock_documents(connection, [incoming.key]).get(incoming.key)
    is_new = document is None
    if document is None:
        document = _make(connection, incoming)
    reread = _retitle(document, incoming)
    has_details = _set_details(document, incoming)
    if not is_newest(document, content):
        number = add_version(
            document,
            blob=blob,
            file_name=incoming.file_name,
            media_type=media_type or incoming.media_type,
        )
        document.title = incoming.title or title_from_name(incoming.file_name)
        data = {"digest": content.digest, "size": len(content.data), "version": number}
        record_system(
            connection.organization_id,
            "retrieval.document_added",
            subject=document,
            data={**data, "connection": str(connection.pk)},
        )
        reread = True
    reread = reread or document.state == Document.State.FAILED
    _save(document, reread=reread)
    if mirrors or incoming.acl is not None:
        mirror_rights(connection.organization_id, {document.pk: incoming.acl}, [document])
    changed = reread or has_details
    outcome = Outcome.ADDED if is_new else (Outcome.CHANGED if changed else Outcome.SAME)
    return Stored(document, outcome)


def remove_documents(organization_id: UUID, documents: Sequence[Document], *, reason: str) -> None:
    """Delete documents, locked by the caller: gone from the next search, page and download."""
    for document in documents:
        for gone in with_parts(document):
            remove_document(gone)
            record_system(
                organization_id,
                "retrieval.document_deleted",
                subject=gone,
                data={"reason": reason},
            )


def lock_by_id(organization_id: UUID, document_ids: Iterable[UUID]) -> list[Document]:
    """Living documents, locked, in the order of their ids."""
    return list(
        Document.objects.select_for_update(no_key=True, of=("self",))
        .select_related("organization")
        .filter(organization_id=organization_id, pk__in=list(document_ids), deleted_at=None)
        .order_by("pk")
    )


def move_document(document: Document, *, to: Document) -> None:
    """Let `document` go on where `to`, of the same bytes, has turned up; `to` is gone by then."""
    was_named_by_file = document.title == title_from_name(document.file_name)
    for name in (*_DETAILS, "external_id"):
        setattr(document, name, getattr(to, name))
    title = title_from_name(document.file_name)
    reread = was_named_by_file and document.title != title
    if reread:
        document.title = title
    document.save(update_fields=["external_id"])
    # The parts of an archive are named by its path.
    _save(document, reread=reread or is_archive(document))
    data = {"instead_of": str(to.pk)}
    record_system(
        document.organization_id, "retrieval.document_relocated", subject=document, data=data
    )


def _make(connection: Connection, incoming: Incoming) -> Document:
    document, _ = Document.objects.get_or_create(
        organization_id=connection.organization_id,
        source_id=connection.source_id,
        external_id=incoming.key,
        deleted_at=None,
        defaults={
            "file_name": incoming.file_name,
            "title": incoming.title or title_from_name(incoming.file_name),
        },
    )
    return lock_documents(connection, [incoming.key])[document.external_id]


def _set_details(document: Document, incoming: Incoming) -> bool:
    """Take over what describes the item. Returns whether anything but the revision differed."""
    values = {name: getattr(incoming, name) for name in _DETAILS}
    values["tags"] = list(incoming.tags)
    changed = [name for name in _DETAILS if getattr(document, name) != values[name]]
    for name in changed:
        setattr(document, name, values[name])
    return any(name != "revision" for name in changed)


def _retitle(document: Document, incoming: Incoming) -> bool:
    """Take over another title; one that was only the file's name goes with the name.

    Returns whether there is another: it is part of what is searched, so the document is read again.
    """
    title = incoming.title
    if not title and document.title == title_from_name(document.file_name):
        title = title_from_name(incoming.file_name)
    if not title or document.title == title:
        return False
    document.title = title
    return True


def _save(document: Document, *, reread: bool) -> None:
    """Save, and put the document into the queue where it has to be read.

    Whoever reads an earlier version of it loses their claim by this.
    """
    if reread:
        read_again(document)
    else:
        document.save(update_fields=[*_DETAILS, "title"])
