"""Pushed documents: content, details and rights of many in one call.

Promises: each item is stored whole or not at all; a document is never there without its rights;
sending the same again changes nothing; other details or rights read nothing again, save a title,
which is searched. Locks: blobs by digest, documents by id, then source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from django.db import transaction

from accounts.authority import Authority
from accounts.permissions import Verb
from audit.record import record
from kaizen.kernel.errors import Denied, Invalid, KaizenError, Missing
from kaizen.kernel.text import make_storable
from retrieval.acl import get_source, visible_documents, visible_sources
from retrieval.blobs import store_content
from retrieval.details import put_details, title_from_name
from retrieval.documents import record_added
from retrieval.intake import (
    add_version,
    find_living,
    is_newest,
    lock_document,
    make_document,
    read_again,
    wait,
)
from retrieval.models import Blob, Document, Source
from retrieval.parts import is_archive, is_part, remove_document, with_parts
from retrieval.push_items import Inherit, PushItem, read_item
from retrieval.rights import follow_source, set_readers

MOST_ITEMS = 500


class Pushed(StrEnum):
    """What became of an item."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one item; `code` and `message` say why it was refused."""

    external_id: str
    status: Pushed
    document_id: UUID | None = None
    code: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Push:
    """What holds for all items of a call."""

    authority: Authority
    source: Source
    manages: bool
    blobs: dict[str, Blob]


@transaction.atomic
def push(authority: Authority, *, source: Source, items: Sequence[object]) -> list[Result]:
    """Make each item a document of `source`, change it, or delete it; results in their order.

    Needs change on the source; to say who may read, or to touch a document that the caller doesn't
    see, manage. What an item may not or can't do refuses that item. Raises Missing, Denied, Invalid
    for the whole.
    """
    if len(items) > MOST_ITEMS:
        raise Invalid(f"At most {MOST_ITEMS} items in one call.", code="too_many_items")
    source = get_source(authority, source.pk, Verb.CHANGE)
    results: dict[int, Result] = {}
    wanted: dict[str, tuple[int, PushItem]] = {}
    for place, raw in enumerate(items):
        try:
            item = read_item(raw)
            if item.external_id in wanted:
                raise Invalid("This external_id occurs twice in one call.", code="twice")
            wanted[item.external_id] = (place, item)
        except KaizenError as error:
            results[place] = _refused(_named(raw), error)
    contents = {item.content.digest: item.content for _, item in wanted.values() if item.content}
    manages = visible_sources(authority, Verb.MANAGE).filter(pk=source.pk).exists()
    call = _Push(
        authority,
        source,
        manages,
        {
            digest: store_content(authority.organization_id, contents[digest])
            for digest in sorted(contents)
        },
    )
    _lock_all(source, list(wanted))
    for external_id in sorted(wanted):
        place, item = wanted[external_id]
        try:
            with transaction.atomic():
                results[place] = _apply(call, item)
        except KaizenError as error:
            results[place] = _refused(external_id, error)
    counts = Counter(result.status for result in results.values())
    record(
        authority,
        "retrieval.pushed",
        subject=source,
        data={status.value: count for status, count in sorted(counts.items())},
    )
    return [results[place] for place in sorted(results)]


def _lock_all(source: Source, external_ids: list[str]) -> None:
    """Lock what stands, in one order, before any item locks the source's row."""
    rows = Document.objects.select_for_update(no_key=True).filter(
        organization_id=source.organization_id,
        source=source,
        external_id__in=external_ids,
        deleted_at=None,
    )
    list(rows.order_by("pk").values_list("pk"))


def _apply(call: _Push, item: PushItem) -> Result:
    found = find_living(call.source, item.external_id)
    if item.acl is not None and not call.manages:
        raise Denied("Only who manages a source may say who reads its documents.")
    if found is not None:
        _check_may_change(call, found)
    if item.deleted:
        return _delete(call, item, found)
    if found is None and item.content is None:
        raise Invalid("There is no document of this external_id, so it needs text or content.")
    document = (
        make_document(
            call.source,
            external_id=item.external_id,
            file_name=item.file_name,
            uploaded_by_id=call.authority.user_id,
        )
        if found is None
        else lock_document(found.pk)
    )
    changed = _store(call, item, document)
    changed |= _set_rights(item, document)
    status = Pushed.UPDATED if changed else Pushed.UNCHANGED
    return Result(
        external_id=item.external_id,
        status=Pushed.CREATED if found is None else status,
        document_id=document.pk,
    )


def _check_may_change(call: _Push, document: Document) -> None:
    if is_part(document):
        raise Denied("This document came out of an archive. Push the archive.")
    if call.manages:
        return
    if not visible_documents(call.authority, Verb.CHANGE).filter(pk=document.pk).exists():
        raise Denied("You may not replace the document of this external_id.")


def _store(call: _Push, item: PushItem, document: Document) -> bool:
    """Bytes and details. Returns whether anything differed."""
    is_new_version = False
    names = put_details(document, item.details)
    if "title" in names and not document.title:
        document.title = title_from_name(item.file_name or document.file_name)
    if item.content is not None and not is_newest(document, item.content):
        number = add_version(
            document,
            blob=call.blobs[item.content.digest],
            file_name=item.file_name,
            media_type=item.media_type,
        )
        if not item.details.get("title"):
            document.title = title_from_name(item.file_name)
        record_added(call.authority, document, content=item.content, number=number)
        is_new_version = True
    if is_new_version or (item.content is not None and document.state == Document.State.FAILED):
        wait(document)
    elif "title" in names and not is_archive(document):
        read_again(document)
    elif names:
        document.save(update_fields=names)
    if names:
        record(
            call.authority,
            "retrieval.document_changed",
            subject=document,
            data={"fields": sorted(names)},
        )
    return is_new_version or bool(names)


def _set_rights(item: PushItem, document: Document) -> bool:
    if item.acl is None:
        return False
    if isinstance(item.acl, Inherit):
        return follow_source(document)
    return set_readers(document, item.acl.names)


def _delete(call: _Push, item: PushItem, found: Document | None) -> Result:
    """Deleting what isn't there is no error: it may be the second time."""
    if found is None:
        return Result(external_id=item.external_id, status=Pushed.UNCHANGED)
    try:
        document = lock_document(found.pk)
    except Missing:
        return Result(external_id=item.external_id, status=Pushed.UNCHANGED)
    for gone in with_parts(document):
        remove_document(gone)
        record(call.authority, "retrieval.document_deleted", subject=gone)
    return Result(external_id=item.external_id, status=Pushed.DELETED, document_id=document.pk)


def _refused(external_id: str, error: KaizenError) -> Result:
    return Result(
        external_id=external_id, status=Pushed.REFUSED, code=error.code, message=error.message
    )


def _named(raw: object) -> str:
    """What an item that can't be read calls itself."""
    name = raw.get("external_id") if isinstance(raw, dict) else None
    return make_storable(name).text[:1000] if isinstance(name, str) else ""
