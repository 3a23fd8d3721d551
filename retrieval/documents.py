"""Changes to documents. Each checks the relation, changes, and writes its audit event as one unit.

Locks, always in this order: document, then source. What leaves the index leaves it in the same
transaction. Not for: reading a file into passages (`retrieval.ingest.store`).
"""

from __future__ import annotations

from django.core.files.base import File
from django.db import transaction

from accounts.authority import Authority, Capability
from accounts.models import User
from accounts.permissions import Verb, store_grant
from audit.record import record
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Conflict, Denied, Missing
from kaizen.kernel.jobs import enqueue
from kaizen.kernel.models import uuid7
from kaizen.kernel.text import shown_file_name
from retrieval.acl import (
    get_document,
    get_governed_document,
    get_source,
    visible_documents,
)
from retrieval.blobs import Content, open_content, read_content, store_content
from retrieval.details import claimed_type, external_key, short_text, title_from_name
from retrieval.ingest.index import set_inheritance
from retrieval.intake import (
    INGEST_JOB,
    add_version,
    find_living,
    is_newest,
    lock_document,
    make_document,
    wait,
)
from retrieval.models import Document, Source
from retrieval.parts import PURGE_JOB, remove_document, with_parts

__all__ = [
    "INGEST_JOB",
    "PURGE_JOB",
    "delete_document",
    "open_blob",
    "record_added",
    "retry_document",
    "retry_failed",
    "set_acl_state",
    "upload",
]
_MESSAGES_AT_ONCE = 500
_PLAIN_TYPES = frozenset({"text/plain", "text/markdown", "text/csv", "application/pdf"})


def upload(
    authority: Authority,
    *,
    source: Source,
    file_name: str,
    data: bytes | File[bytes],
    title: str = "",
    external_id: str = "",
    path: str = "",
    media_type: str | None = None,
    start: bool = True,
) -> Document:
    """Store a file in a source, to be read at once by a worker.

    `external_id` says what it is a version of, its shown name where none is given. The same content
    again changes nothing; other content becomes the next version, and a title counts for the
    version it came with. `start=False` leaves the reading to the caller. Raises Missing, Denied,
    Invalid, TooLarge.
    """
    name = shown_file_name(file_name)
    content = read_content(data)
    with transaction.atomic():
        source = get_source(authority, source.pk, Verb.CHANGE)
        blob = store_content(authority.organization_id, content)
        document = _find_or_make(
            authority,
            source=source,
            external_id=external_key(external_id),
            name=name,
        )
        if is_newest(document, content):
            if document.state == Document.State.FAILED:
                wait(document, start=start)
            return document
        number = add_version(
            document, blob=blob, file_name=name, media_type=claimed_type(media_type)
        )
        document.title = short_text(title, 300, "title") or title_from_name(name)
        document.path = short_text(path, 1000, "path")
        document.uploaded_by_id = authority.user_id
        wait(document, start=start)
        record_added(authority, document, content=content, number=number)
    return document


@transaction.atomic
def retry_document(authority: Authority, *, document: Document) -> Document:
    """Read a document that failed once more.

    Raises Missing, Denied, and Conflict when it didn't fail.
    """
    _check_governs(authority, document, Verb.CHANGE)
    document = lock_document(document.pk)
    if document.state != Document.State.FAILED:
        raise Conflict("Only a document that couldn't be read can be read again.")
    wait(document)
    record(authority, "retrieval.document_retried", subject=document)
    return document


@transaction.atomic
def retry_failed(authority: Authority, *, source: Source) -> int:
    """Read all documents of a source that failed once more; returns how many there were.

    Raises Missing, Denied. Those that no message is sent for are found by the sweep.
    """
    if not authority.may(Capability.CONFIGURE):
        get_source(authority, source.pk, Verb.CHANGE)
    failed = Document.objects.select_for_update(no_key=True, skip_locked=True).filter(
        organization_id=authority.organization_id,
        source=source,
        state=Document.State.FAILED,
        deleted_at=None,
    )
    ids = list(failed.values_list("pk", flat=True))
    if ids:
        Document.objects.filter(pk__in=ids).update(
            state=Document.State.WAITING, state_code="", state_message="", state_at=now()
        )
        record(authority, "retrieval.document_retried", subject=source, data={"count": len(ids)})
    for document_id in ids[:_MESSAGES_AT_ONCE]:
        enqueue(INGEST_JOB, document_id=document_id)
    return len(ids)


@transaction.atomic
def delete_document(authority: Authority, *, document: Document) -> None:
    """Delete a document: gone from the next search, page and download, whoever is at work on it.

    What came out of an archive goes with it. The bytes are removed by a job soon after. Needs
    change on the document or on its source.
    """
    _check_governs(authority, document, Verb.CHANGE)
    document = lock_document(document.pk)
    for gone in with_parts(document):
        remove_document(gone)
        record(authority, "retrieval.document_deleted", subject=gone)


@transaction.atomic
def set_acl_state(
    authority: Authority, *, document: Document, state: Document.AclState
) -> Document:
    """Let a document be as its source, or only as its own grants say; an archive with its parts.
    Needs manage on it or on its source.

    Whoever restricts a document keeps managing it, by a grant of their own.
    """
    _check_governs(authority, document, Verb.MANAGE)
    document = lock_document(document.pk)
    for one in with_parts(document):
        managed = visible_documents(authority, Verb.MANAGE).filter(pk=one.pk)
        did_manage = managed.exists()
        one.acl_state = state
        one.save(update_fields=["acl_state"])
        set_inheritance(one)
        record(authority, "retrieval.document_moved", subject=one, data={"acl_state": state})
        if state == Document.AclState.RESTRICTED and did_manage and not managed.exists():
            _keep_managing(authority, one)
    return document


@transaction.atomic
def open_blob(authority: Authority, *, document: Document) -> tuple[File[bytes], str, str]:
    """The bytes of the newest version, with the name and the type to serve them under; audited.

    Raises Missing.
    """
    document = get_document(authority, document.pk)
    version = document.versions.select_related("blob").order_by("-number").first()
    if version is None:
        raise Missing
    try:
        file = open_content(version.blob)
    except FileNotFoundError:
        raise Missing("The stored file is missing. Upload it again.") from None
    record(
        authority,
        "retrieval.document_downloaded",
        subject=document,
        data={"version": str(version.pk), "digest": version.blob.digest},
    )
    served = (
        document.media_type if document.media_type in _PLAIN_TYPES else "application/octet-stream"
    )
    return file, version.file_name, served


def _find_or_make(authority: Authority, *, source: Source, external_id: str, name: str) -> Document:
    """The living document of this external id, locked, or a new one.

    A name given by chance must not reach a document that the caller doesn't see: then a new one is
    made.
    """
    found = find_living(source, external_id or name)
    if found is not None and not visible_documents(authority).filter(pk=found.pk).exists():
        if external_id:
            raise Denied("You may not replace the document of this external id.")
        found, external_id = None, f"{name} {uuid7()}"
    if found is not None:
        return lock_document(found.pk)
    return make_document(
        source,
        external_id=external_id or name,
        file_name=name,
        uploaded_by_id=authority.user_id,
    )


def _keep_managing(authority: Authority, document: Document) -> None:
    maker = User.objects.get(pk=authority.user_id)
    store_grant(maker, Verb.MANAGE, document, granted_by_id=authority.user_id)
    data = {"verb": Verb.MANAGE, "person": str(maker.public_id)}
    record(authority, "accounts.grant_added", subject=document, data=data)


def _check_governs(authority: Authority, document: Document, verb: Verb) -> None:
    """Raise unless the caller holds `verb` on the document or its source, or configures the
    organisation; that role opens no text.
    """
    if not authority.may(Capability.CONFIGURE):
        get_governed_document(authority, document.pk, verb)
    elif document.organization_id != authority.organization_id:
        raise Missing


def record_added(
    authority: Authority, document: Document, *, content: Content, number: int
) -> None:
    """Audit a new document, or a new version of one."""
    data = {"digest": content.digest, "size": len(content.data), "version": number}
    record(authority, "retrieval.document_added", subject=document, data=data)
