"""Taking over what one page names: rights and deletions first, then items one by one.

Promises: foreign code runs outside any transaction; each item is stored in a transaction of its
own; the page's checkpoint is stored when all of them are; an item that can't be had is written
down and left behind. Doing a page again changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from kaizen.kernel.errors import TooLarge
from retrieval.blobs import read_content
from retrieval.connectors import items, outcome
from retrieval.connectors.border import guarded
from retrieval.connectors.contract import (
    AclUnknown,
    Connector,
    ConnectorError,
    Fetched,
    Gone,
    Item,
    Page,
)
from retrieval.connectors.incoming import BadItem, Incoming, key_of, name_of, read_item
from retrieval.connectors.leases import Lease, check_wanted, hold
from retrieval.connectors.pace import Pace
from retrieval.connectors.rights import hide, mirror_rights
from retrieval.connectors.store import lock_documents, remove_documents, store_item
from retrieval.details import claimed_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt at a sync: who holds it, what counts it, whom it asks and how fast."""

    lease: Lease
    run_id: UUID
    connector: Connector
    pace: Pace
    until: float

    @property
    def mirrors(self) -> bool:
        """Whether what has no rights is nobody's."""
        return self.connector.mirrors_acl


@dataclass(slots=True)
class _Named:
    """What one page names, checked."""

    incoming: dict[str, Incoming] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    bad: dict[str, str] = field(default_factory=dict)


def take_page(attempt: Attempt, page: Page) -> None:
    """Store one page, then its checkpoint."""
    named = _read(page)
    wanted = _take_named(attempt, page, named)
    for incoming in wanted:
        check_wanted(attempt.lease)
        take_item(attempt, incoming)
    with hold(attempt.lease) as connection:
        connection.checkpoint = page.checkpoint
        connection.pass_lists = page.is_listing and connection.pass_lists is not False
        connection.save(update_fields=["checkpoint", "pass_lists"])


def _read(page: Page) -> _Named:
    """What a page names; of two changes to one item the later counts."""
    named = _Named()
    for change in page.changes:
        try:
            if isinstance(change, Gone):
                key = key_of(change.external_id)
                named.gone.add(key)
                named.incoming.pop(key, None)
            elif isinstance(change, Item):
                incoming = read_item(change)
                named.incoming[incoming.key] = incoming
                named.gone.discard(incoming.key)
                named.bad.pop(incoming.key, None)
            else:
                raise BadItem(f"It is a {type(change).__name__}.")
        except BadItem as error:
            named.bad[name_of(change)] = str(error)
    return named


def _take_named(attempt: Attempt, page: Page, named: _Named) -> list[Incoming]:
    """Apply what needs no fetching: rights, deletions, marks. Returns what has to be fetched."""
    with hold(attempt.lease) as connection:
        known = lock_documents(connection, {*named.incoming, *named.gone, *named.bad})
        own = items.list_own(connection, named.gone)
        gone = [known.pop(key) for key in sorted(own & known.keys())]
        remove_documents(connection.organization_id, gone, reason="gone upstream")
        items.forget(connection, named.gone)
        acls = {
            document.pk: named.incoming[key].acl
            for key, document in known.items()
            if key in named.incoming and (attempt.mirrors or named.incoming[key].acl is not None)
        }
        documents = [document for document in known.values() if document.pk in acls]
        changed = mirror_rights(connection.organization_id, acls, documents) if acls else 0
        settled = {
            key
            for key, incoming in named.incoming.items()
            if incoming.revision and key in known and known[key].revision == incoming.revision
        }
        mentioned = {key: known[key] for key in known.keys() - named.gone}
        items.note_named(connection, mentioned, settled=settled)
        for key, problem in named.bad.items():
            items.note_failed(connection, key, item=None, message=problem)
            if attempt.mirrors and key in known:
                hide(known[key])
        patient = items.list_patient(connection, named.incoming)
        still = {
            key: named.incoming[key].item
            for key, revision in patient.items()
            if named.incoming[key].item.revision == revision
        }
        items.note_still_failing(connection, still)
        outcome.count(
            attempt.run_id,
            seen=len(page.changes),
            changed=changed,
            deleted=len(gone),
            failed=len(named.bad) + len(still),
        )
    return [
        incoming
        for key, incoming in named.incoming.items()
        if key not in still and key not in settled
    ]


def take_item(attempt: Attempt, incoming: Incoming) -> None:
    """Fetch one item and store it, or write down why not."""
    attempt.pace.wait()
    try:
        with guarded(attempt.connector.slug):
            fetched = attempt.connector.fetch(incoming.item)
        if fetched is None:
            return _take_gone(attempt, incoming)
        if not isinstance(fetched, Fetched) or not isinstance(fetched.data, bytes):
            raise ConnectorError("The connector gave no bytes.", retry=False)
        content = read_content(fetched.data)
    except ConnectorError as error:
        if error.retry_after is not None:
            raise
        return _take_failure(attempt, incoming, error)
    except TooLarge as error:
        return _take_failure(attempt, incoming, ConnectorError(error.message, retry=False))
    with hold(attempt.lease) as connection:
        stored = store_item(
            connection,
            incoming,
            content=content,
            media_type=claimed_type(str(fetched.media_type)),
            mirrors=attempt.mirrors,
        )
        items.note_stored(connection, incoming.key, stored.document)
        outcome.count_stored(attempt.run_id, stored.outcome)
    return None


def _take_gone(attempt: Attempt, incoming: Incoming) -> None:
    with hold(attempt.lease) as connection:
        own = items.list_own(connection, [incoming.key])
        gone = list(lock_documents(connection, own).values())
        remove_documents(connection.organization_id, gone, reason="gone upstream")
        items.forget(connection, [incoming.key])
        outcome.count(attempt.run_id, deleted=len(gone))


def _take_failure(attempt: Attempt, incoming: Incoming, error: ConnectorError) -> None:
    with hold(attempt.lease) as connection:
        if isinstance(error, AclUnknown):
            for document in lock_documents(connection, [incoming.key]).values():
                hide(document)
        items.note_failed(connection, incoming.key, item=incoming.item, message=error.message)
        outcome.count(attempt.run_id, failed=1)
