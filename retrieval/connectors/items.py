"""What a connection knows of its items: which pass last named them, and which couldn't be fetched.

Promises: what failed is remembered whole, since a system that lists changes doesn't name it again;
it is tried again in the next sync, then ever more rarely. Runs in the caller's transaction under
the connection's lease.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import F, QuerySet

from kaizen.kernel.clock import ClockTimestamp
from kaizen.kernel.text import make_storable
from retrieval.connectors.contract import Item
from retrieval.connectors.incoming import from_json, to_json
from retrieval.models import Connection, Document, SyncItem
from retrieval.models.connections import LONGEST_MESSAGE

_FIRST_PATIENCE = timedelta(minutes=15)
_LONGEST_PATIENCE = timedelta(days=1)
_UNIQUE = ("organization", "connection", "external_id")
_TROUBLE = ("waiting", "error", "failures", "retry_at")


def note_named(
    connection: Connection, documents: Mapping[str, Document], *, settled: Iterable[str]
) -> None:
    """The open pass named these items, which have documents; `settled` ones need nothing more."""
    done = set(settled)
    rows = {
        key: _row(connection, key, document_id=document.pk)
        for key, document in sorted(documents.items())
    }
    named = ("last_pass", "document")
    _upsert([row for key, row in rows.items() if key in done], fields=(*named, *_TROUBLE))
    _upsert([row for key, row in rows.items() if key not in done], fields=named)


def note_stored(connection: Connection, key: str, document: Document) -> None:
    """An item was fetched and stored."""
    note_named(connection, {key: document}, settled=[key])


def note_failed(connection: Connection, key: str, *, item: Item | None, message: str) -> None:
    """An item couldn't be fetched or stored. `item` is kept to be tried again."""
    _upsert([_row(connection, key)], fields=("last_pass",))
    row = SyncItem.objects.get(connection=connection, external_id=key)
    retry_at = ClockTimestamp() + _patience(row.failures + 1)
    SyncItem.objects.filter(pk=row.pk).update(
        waiting=None if item is None else to_json(item),
        error=make_storable(message).text[:LONGEST_MESSAGE],
        failures=F("failures") + 1,
        retry_at=retry_at,
    )


def note_still_failing(connection: Connection, items: Mapping[str, Item]) -> None:
    """The open pass named items that are not yet due to be tried again; what is kept is renewed."""
    for key, item in items.items():
        SyncItem.objects.filter(connection=connection, external_id=key).update(
            last_pass=connection.pass_number, waiting=to_json(item)
        )


def forget(connection: Connection, keys: Iterable[str]) -> None:
    """These items are gone upstream."""
    SyncItem.objects.filter(connection=connection, external_id__in=list(keys)).delete()


def list_patient(connection: Connection, keys: Iterable[str]) -> dict[str, str]:
    """The items among `keys` that failed and are not due yet, with the revision that failed."""
    rows = SyncItem.objects.filter(
        connection=connection,
        external_id__in=list(keys),
        failures__gt=0,
        retry_at__gt=ClockTimestamp(),
    )
    return {
        row.external_id: str(row.waiting["revision"]) for row in rows if row.waiting is not None
    }


def list_to_retry(connection: Connection, *, limit: int) -> list[Item]:
    """Items that failed before this pass, that it didn't name, and that are due."""
    rows = SyncItem.objects.filter(
        connection=connection,
        failures__gt=0,
        waiting__isnull=False,
        retry_at__lte=ClockTimestamp(),
        last_pass__lt=connection.pass_number,
    ).order_by("retry_at", "pk")[:limit]
    return [from_json(row.waiting) for row in rows]


def list_unnamed(connection: Connection) -> QuerySet[Any]:
    """The items that the open pass didn't name."""
    return SyncItem.objects.filter(
        connection=connection, last_pass__lt=connection.pass_number
    ).order_by("pk")


def list_own(connection: Connection, keys: Iterable[str]) -> set[str]:
    """Those of `keys` whose documents the connection brought in."""
    rows = SyncItem.objects.filter(
        connection=connection, external_id__in=list(keys), document__isnull=False
    )
    return set(rows.values_list("external_id", flat=True))


def count_documents(connection: Connection) -> int:
    """How many documents the connection keeps."""
    return SyncItem.objects.filter(
        connection=connection, document__isnull=False, document__deleted_at=None
    ).count()


def list_document_ids(connection: Connection, *, limit: int) -> list[UUID]:
    """Some of the documents that the connection keeps."""
    return list(
        SyncItem.objects.filter(
            connection=connection, document__isnull=False, document__deleted_at=None
        ).values_list("document_id", flat=True)[:limit]
    )


def _row(connection: Connection, key: str, *, document_id: UUID | None = None) -> SyncItem:
    return SyncItem(
        organization_id=connection.organization_id,
        connection=connection,
        external_id=key,
        document_id=document_id,
        first_pass=connection.pass_number,
        last_pass=connection.pass_number,
    )


def _upsert(rows: list[SyncItem], *, fields: tuple[str, ...]) -> None:
    if rows:
        SyncItem.objects.bulk_create(
            rows, update_conflicts=True, unique_fields=list(_UNIQUE), update_fields=list(fields)
        )


def _patience(failures: int) -> timedelta:
    """None before the second try."""
    if failures <= 1:
        return timedelta(0)
    return min(_FIRST_PATIENCE * 2 ** min(failures - 2, 20), _LONGEST_PATIENCE)
