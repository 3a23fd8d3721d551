"""The sync of one connection: foreign changes in, documents and rights out.

Promises: one worker at a time, taken over when it dies, going on from the last stored page;
whatever is done twice changes nothing the second time; foreign code runs outside any transaction;
rights and deletions are applied before anything is fetched; one bad item never holds up the rest.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from uuid import UUID

from kaizen.kernel.text import make_storable
from retrieval.connectors import items, leases, outcome
from retrieval.connectors.border import guarded
from retrieval.connectors.catalog import open_connector
from retrieval.connectors.contract import AclUnknown, ConnectorError, Page
from retrieval.connectors.finish import Held, finish_pass, remove_everything
from retrieval.connectors.incoming import read_item
from retrieval.connectors.leases import Lease, LeaseLost, Stopped, check_wanted, hold
from retrieval.connectors.pace import Pace
from retrieval.connectors.rights import find_waiting, grant_waiting
from retrieval.connectors.store import lock_by_id
from retrieval.connectors.taking import Attempt, take_item, take_page
from retrieval.models import Connection

SLICE_SECONDS = 30.0
"""A sync that takes longer makes room for others after a page, and goes on as a new job."""
_RETRIES_AT_ONCE = 20


class Ended(StrEnum):
    """How a call of `sync_connection` ended."""

    NOTHING = "nothing"  # not due, or somebody else is at it
    SUCCEEDED = "succeeded"
    HELD = "held"
    FAILED = "failed"
    STOPPED = "stopped"
    GOES_ON = "goes on"
    LOST = "lost"
    REMOVED = "removed"


def sync_connection(connection_id: UUID, *, slice_seconds: float = SLICE_SECONDS) -> Ended:
    """Sync a connection that is due, as far as it goes in `slice_seconds`.

    Trouble with the source system is written down on the connection; anything else is raised, and
    the connection is taken over once the lease has lapsed.
    """
    lease = leases.claim(connection_id)
    if lease is None:
        return Ended.NOTHING
    try:
        with leases.signs_of_life(lease):
            return _sync(lease, until=time.monotonic() + slice_seconds)
    except LeaseLost:
        return Ended.LOST


def _sync(lease: Lease, *, until: float) -> Ended:
    with hold(lease) as connection:
        if connection.state == Connection.State.ENDING:
            run_id = None
        else:
            run_id = outcome.begin(connection, lease)
    if run_id is None:
        remove_everything(lease)
        return Ended.REMOVED
    try:
        if connection.consecutive_failures >= outcome.MOST_LOST and lease.taken_over:
            raise ConnectorError(
                f"The sync was broken off {connection.consecutive_failures} times in a row."
            )
        connector = open_connector(
            connection.connector, opened=connection.config, hidden=connection.secrets
        )
        pace = Pace(connection.requests_a_minute, check=lambda: check_wanted(lease))
        try:
            attempt = Attempt(
                lease=lease, run_id=run_id, connector=connector, pace=pace, until=until
            )
            return _pass(attempt, connection)
        finally:
            with suppress(ConnectorError), guarded(connection.connector):
                connector.close()
    except Stopped:
        outcome.stop(lease, run_id)
        return Ended.STOPPED
    except AclUnknown as error:
        outcome.hide_source(lease)
        outcome.fail(lease, run_id, error)
        return Ended.FAILED
    except ConnectorError as error:
        outcome.fail(lease, run_id, error)
        return Ended.FAILED


def _pass(attempt: Attempt, connection: Connection) -> Ended:
    """From the stored checkpoint to the last page, or to the end of the slice."""
    _grant_waiting(attempt, connection)
    for page in _pages(attempt, connection.checkpoint or None):
        take_page(attempt, page)
        if time.monotonic() > attempt.until:
            outcome.go_on_later(attempt.lease)
            return Ended.GOES_ON
    if not _is_listing(attempt.lease):
        _retry_failed(attempt)
    held = finish_pass(attempt.lease, attempt.run_id, mirrors=attempt.mirrors)
    return Ended.HELD if isinstance(held, Held) else Ended.SUCCEEDED


def _pages(attempt: Attempt, checkpoint: str | None) -> Iterator[Page]:
    """The connector's pages. Each step into its code is guarded and paced."""
    slug = attempt.connector.slug
    with guarded(slug):
        pages = iter(attempt.connector.list_changes(checkpoint))
    while True:
        attempt.pace.wait()
        with guarded(slug):
            page = next(pages, None)
            if page is None:
                return
            if make_storable(page.checkpoint).text != page.checkpoint:
                raise ValueError("the checkpoint can't be stored")
            page = replace(page, changes=list(page.changes))
        yield page


def _retry_failed(attempt: Attempt) -> None:
    """Fetch what failed in earlier passes and is due: a list of changes names it only once."""
    while True:
        with hold(attempt.lease) as connection:
            due = items.list_to_retry(connection, limit=_RETRIES_AT_ONCE)
        if not due:
            return
        for item in due:
            check_wanted(attempt.lease)
            take_item(attempt, read_item(item))


def _grant_waiting(attempt: Attempt, connection: Connection) -> None:
    """Give grants to who has meanwhile joined under a name that waited for them."""
    while found := find_waiting(connection.organization_id, connection.source_id):
        with hold(attempt.lease):
            grant_waiting(connection.organization_id, lock_by_id(connection.organization_id, found))


def _is_listing(lease: Lease) -> bool:
    with hold(lease) as connection:
        return bool(connection.pass_lists)
