"""The end of a pass: what a listing no longer names goes, what only moved stays itself.

Promises: nothing is deleted unless the whole listing was read; a listing that would take more than
half of the documents of a connection deletes nothing until an admin has said so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import OuterRef, Subquery

from retrieval.connectors import items, outcome
from retrieval.connectors.leases import Lease, hold
from retrieval.connectors.store import lock_by_id, move_document, remove_documents
from retrieval.models import Connection, Document, DocumentVersion, SyncItem

GUARDED_FROM = 20
_BATCH = 50


@dataclass(frozen=True, slots=True)
class Held:
    """Deletions that wait for an admin."""

    count: int


def finish_pass(lease: Lease, run_id: UUID, *, mirrors: bool) -> Held | None:
    """Delete what a complete listing didn't name, and end the pass."""
    held = None
    with hold(lease) as connection:
        listed = bool(connection.pass_lists)
    if listed:
        held = _find_held(lease)
        if held is None:
            while _delete_some(lease, run_id, mirrors=mirrors):
                pass
    with hold(lease) as connection:
        message = ""
        if held is not None:
            kept = items.count_documents(connection)
            message = (
                f"The other side names {kept - held.count:,} of {kept:,} documents. The other "
                f"{held.count:,} were not deleted: look whether the other side is whole. If it "
                "is, choose “Allow the deletions”."
            )
        connection.held_deletions = held.count if held is not None else 0
        if listed and held is None:
            connection.deletions_allowed = False
        connection.save(update_fields=["held_deletions", "deletions_allowed"])
        outcome.succeed(connection, lease, run_id, held=message, mirrors=mirrors)
    return held


def remove_everything(lease: Lease) -> None:
    """Remove a connection with its documents, a few at a time."""
    while True:
        with hold(lease) as connection:
            ids = items.list_document_ids(connection, limit=_BATCH)
            if not ids:
                break
            documents = lock_by_id(connection.organization_id, ids)
            remove_documents(connection.organization_id, documents, reason="disconnected")
    with hold(lease) as connection:
        Connection.objects.filter(pk=connection.pk).delete()


def _find_held(lease: Lease) -> Held | None:
    """Whether so much is missing that an admin has to look."""
    with hold(lease) as connection:
        kept = items.count_documents(connection)
        unnamed = items.list_unnamed(connection).filter(
            document__isnull=False, document__deleted_at=None
        )
        missing = unnamed.count()
        if connection.deletions_allowed or kept < GUARDED_FROM or missing * 2 <= kept:
            return None
        return Held(missing)


def _delete_some(lease: Lease, run_id: UUID, *, mirrors: bool) -> bool:
    """Delete the next few that weren't named. Returns whether there were any."""
    with hold(lease) as connection:
        unnamed: Sequence[SyncItem] = list(items.list_unnamed(connection)[:_BATCH])
        if not unnamed:
            return False
        moves = {} if mirrors else _find_moves(connection, unnamed)
        ids = {row.document_id for row in unnamed if row.document_id} | set(moves.values())
        locked = {document.pk: document for document in lock_by_id(connection.organization_id, ids)}
        gone = []
        for row in unnamed:
            old = locked.get(row.document_id) if row.document_id else None
            if old is None:
                continue
            new = locked.get(moves[old.pk]) if old.pk in moves else None
            if new is None:
                gone.append(old)
            else:
                _merge(connection, old=old, new=new)
        remove_documents(connection.organization_id, gone, reason="gone upstream")
        SyncItem.objects.filter(pk__in=[row.pk for row in unnamed]).delete()
        outcome.count(run_id, deleted=len(gone))
    return True


def _find_moves(connection: Connection, unnamed: Sequence[SyncItem]) -> dict[UUID, UUID]:
    """Which of the documents that are gone turned up under a new name in this pass: those whose
    bytes a new one has, without rights of its own. Each new one is taken once.

    Not asked where rights are mirrored: there the new one's are the right ones.
    """
    newest = DocumentVersion.objects.filter(document=OuterRef("pk")).order_by("-number")
    rows = Document.objects.filter(
        organization_id=connection.organization_id, deleted_at=None
    ).annotate(blob=Subquery(newest.values("blob")[:1]))
    old = rows.filter(pk__in=[row.document_id for row in unnamed if row.document_id])
    blobs = dict(old.values_list("pk", "blob"))
    new = rows.filter(
        acl_state=Document.AclState.INHERIT,
        blob__in=[blob for blob in blobs.values() if blob],
        pk__in=SyncItem.objects.filter(
            connection=connection, first_pass=connection.pass_number
        ).values("document_id"),
    )
    by_blob: dict[UUID, list[UUID]] = {}
    for pk, blob in new.order_by("-external_id").values_list("pk", "blob"):
        by_blob.setdefault(blob, []).append(pk)
    return {
        pk: by_blob[blob].pop()
        for pk, blob in sorted(blobs.items(), key=lambda pair: str(pair[0]))
        if by_blob.get(blob)
    }


def _merge(connection: Connection, *, old: Document, new: Document) -> None:
    """Keep the old document, under the new one's name: its grants and citations go on."""
    remove_documents(connection.organization_id, [new], reason="moved")
    move_document(old, to=new)
    SyncItem.objects.filter(connection=connection, document=new).update(
        document=old, first_pass=connection.pass_number
    )
