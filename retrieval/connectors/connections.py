"""Changes to connections. Each checks that the caller may configure, changes, and writes its audit
event as one unit.

Promises: a changed connection reads everything anew and fences off a sync that is under way; no
value of a configuration is in the audit. Not for: syncing (`retrieval.connectors.sync`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F
from pydantic import BaseModel

from accounts.authority import Authority, Capability
from audit.record import record
from kaizen.kernel.clock import ClockTimestamp
from kaizen.kernel.errors import Conflict, Invalid, Missing
from kaizen.kernel.jobs import enqueue
from retrieval.connectors import fields
from retrieval.connectors.border import guarded
from retrieval.connectors.catalog import get_connector, open_connector
from retrieval.connectors.contract import ConnectorError
from retrieval.connectors.outcome import SYNC_JOB
from retrieval.connectors.rights import forget_rights
from retrieval.connectors.store import lock_by_id
from retrieval.models import Connection, Source, SyncItem, SyncRun

CHECK_SECONDS = 20.0
_BATCH = 500


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found, in a sentence."""

    works: bool
    message: str


@transaction.atomic
def create_connection(
    authority: Authority,
    *,
    source: Source,
    connector: str,
    config: BaseModel,
    interval_minutes: int = 60,
    requests_a_minute: int = 0,
) -> Connection:
    """Connect a source; its first sync starts at once.

    Raises Denied, Missing for a source of others or an archived one, Conflict when it has a
    connection, Invalid for the configuration of another connector.
    """
    authority.check(Capability.CONFIGURE)
    mine = Source.objects.filter(organization_id=authority.organization_id, archived_at=None)
    source = mine.filter(pk=source.pk).first() or _missing()
    opened, hidden = _dump(connector, config)
    connection = Connection(
        organization_id=authority.organization_id,
        source=source,
        connector=connector,
        config=opened,
        secrets=hidden,
        interval_minutes=interval_minutes,
        requests_a_minute=requests_a_minute,
    )
    try:
        with transaction.atomic():
            connection.save()
    except IntegrityError:
        raise Conflict("This source has a connection already.", code="connected") from None
    record(
        authority,
        "retrieval.connection_created",
        subject=connection,
        data={"connector": connector, "source": str(source.pk)},
    )
    _start(connection)
    return connection


@transaction.atomic
def update_connection(
    authority: Authority,
    *,
    connection: Connection,
    config: BaseModel | None = None,
    interval_minutes: int | None = None,
    requests_a_minute: int | None = None,
) -> Connection:
    """Change how a source is connected.

    Another configuration is read from the beginning, and a sync under the old one ends. Raises
    Denied, Missing, Invalid.
    """
    connection = _lock(authority, connection.pk)
    changed: dict[str, Any] = {}
    if interval_minutes is not None and interval_minutes != connection.interval_minutes:
        changed["interval_minutes"] = interval_minutes
        if connection.last_success_at is not None and not connection.consecutive_failures:
            changed["next_sync_at"] = ClockTimestamp()
    if requests_a_minute is not None and requests_a_minute != connection.requests_a_minute:
        changed["requests_a_minute"] = requests_a_minute
    names = sorted(changed.keys() - {"next_sync_at"})
    if config is not None:
        opened, hidden = _dump(connection.connector, config)
        names += _differing(connection, opened, hidden)
        if (opened, hidden) != (connection.config, connection.secrets):
            changed |= {"config": opened, "secrets": hidden, **_anew(connection)}
    if changed:
        Connection.objects.filter(pk=connection.pk).update(**changed)
        record(
            authority,
            "retrieval.connection_changed",
            subject=connection,
            data={"fields": names},
        )
        connection.refresh_from_db()
        if "config" in changed and connection.state != Connection.State.PAUSED:
            _start(connection)
    return connection


@transaction.atomic
def pause(authority: Authority, *, connection: Connection) -> None:
    """Stop syncing; a sync under way ends before its next item. Nothing is removed or hidden."""
    connection = _lock(authority, connection.pk)
    if connection.state == Connection.State.PAUSED:
        return
    _set(connection, state=Connection.State.PAUSED)
    record(authority, "retrieval.connection_paused", subject=connection)


@transaction.atomic
def resume(authority: Authority, *, connection: Connection) -> None:
    """Go on from where it was paused."""
    connection = _lock(authority, connection.pk)
    if connection.state != Connection.State.PAUSED:
        return
    _set(
        connection,
        state=Connection.State.ACTIVE,
        consecutive_failures=0,
        next_sync_at=ClockTimestamp(),
    )
    record(authority, "retrieval.connection_resumed", subject=connection)
    _start(connection)


@transaction.atomic
def sync_now(authority: Authority, *, connection: Connection) -> None:
    """Sync as soon as a worker is free. Raises Conflict when it is paused."""
    connection = _lock(authority, connection.pk)
    if connection.state == Connection.State.PAUSED:
        raise Conflict("It is paused. Resume it first.")
    _set(connection, next_sync_at=ClockTimestamp(), sent_at=None)
    record(authority, "retrieval.connection_sync_asked", subject=connection)
    _start(connection)


@transaction.atomic
def allow_deletions(authority: Authority, *, connection: Connection) -> None:
    """Let the next complete listing delete however much it doesn't name.

    Raises Conflict when nothing is held back.
    """
    connection = _lock(authority, connection.pk)
    if not connection.held_deletions:
        raise Conflict("No deletions are held back.")
    data = {"held": connection.held_deletions}
    _set(connection, deletions_allowed=True, next_sync_at=ClockTimestamp(), sent_at=None)
    record(authority, "retrieval.connection_deletions_allowed", subject=connection, data=data)
    _start(connection)


@transaction.atomic
def disconnect(
    authority: Authority, *, connection: Connection, delete_documents: bool = False
) -> None:
    """End a connection. A sync under way writes nothing more.

    Its documents stay, but rights that came from the other side don't: nobody keeps them true any
    more. Or they are deleted by a job, and the connection goes with the last of them.
    """
    connection = _lock(authority, connection.pk)
    record(
        authority,
        "retrieval.connection_removed",
        subject=connection,
        data={"connector": connection.connector, "deletes_documents": delete_documents},
    )
    if delete_documents:
        _set(connection, state=Connection.State.ENDING, **_fence())
        enqueue(SYNC_JOB, connection_id=connection.pk)
        return
    _forget_rights(connection)
    Connection.objects.filter(pk=connection.pk).delete()


def check_connection(authority: Authority, *, connection: Connection) -> Checked:
    """Let the connector try to connect, for at most 20 seconds. Audited. Raises Denied, Missing."""
    authority.check(Capability.CONFIGURE)
    found = _mine(authority).filter(pk=connection.pk).first() or _missing()
    result = _check(found)
    record(authority, "retrieval.connection_checked", subject=found, data={"works": result.works})
    return result


def _check(connection: Connection) -> Checked:
    outcome: list[Checked] = []

    def ask() -> None:
        outcome.append(_ask(connection))

    # Foreign code: on a thread, so that a silent other side costs the caller no more than this.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(CHECK_SECONDS)
    late = f"No answer within {CHECK_SECONDS:.0f} seconds."
    return outcome[0] if outcome else Checked(works=False, message=late)


def _ask(connection: Connection) -> Checked:
    slug = connection.connector
    try:
        connector = open_connector(slug, opened=connection.config, hidden=connection.secrets)
        with guarded(slug):
            try:
                connector.check()
            finally:
                connector.close()
    except ConnectorError as error:
        return Checked(works=False, message=error.message)
    return Checked(works=True, message="It can be read.")


def _dump(connector: str, config: BaseModel) -> tuple[dict[str, Any], str]:
    try:
        kind = get_connector(connector)
    except ConnectorError as error:
        raise Invalid(error.message) from error
    if not isinstance(config, kind.Config):
        raise Invalid("The configuration is another connector's.")
    opened, hidden = fields.dump(config)
    return opened, json.dumps(hidden) if hidden else ""


def _differing(connection: Connection, opened: Mapping[str, Any], hidden: str) -> list[str]:
    """The names of what differs, never a value."""
    before = {**connection.config, **fields.load_secrets(connection.secrets)}
    after = {**opened, **fields.load_secrets(hidden)}
    return sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )


def _anew(connection: Connection) -> dict[str, Any]:
    """Read everything from the beginning; whoever is at it loses the lease."""
    SyncRun.objects.filter(connection=connection, state=SyncRun.State.RUNNING).update(
        state=SyncRun.State.STOPPED, ended_at=ClockTimestamp(), message="The settings changed."
    )
    return {
        **_fence(),
        "checkpoint": "",
        "pass_open": False,
        "pass_lists": None,
        "consecutive_failures": 0,
        "deletions_allowed": False,
        "held_deletions": 0,
        "next_sync_at": ClockTimestamp(),
    }


def _fence() -> dict[str, Any]:
    return {"attempt": F("attempt") + 1, "lease_until": None, "sent_at": None}


def _forget_rights(connection: Connection) -> None:
    ids: list[UUID] = list(
        SyncItem.objects.filter(connection=connection, document__isnull=False)
        .order_by("document_id")
        .values_list("document_id", flat=True)
    )
    for at in range(0, len(ids), _BATCH):
        documents = lock_by_id(connection.organization_id, ids[at : at + _BATCH])
        forget_rights(connection.organization_id, documents)


def _set(connection: Connection, **changes: Any) -> None:
    Connection.objects.filter(pk=connection.pk).update(**changes)


def _start(connection: Connection) -> None:
    enqueue(SYNC_JOB, connection_id=connection.pk)


def _mine(authority: Authority) -> Any:
    return Connection.objects.filter(organization_id=authority.organization_id)


def _lock(authority: Authority, connection_id: UUID) -> Connection:
    """The connection, locked. Raises Denied without the capability, Missing when it isn't there or
    on its way out.
    """
    authority.check(Capability.CONFIGURE)
    found: Connection | None = (
        _mine(authority)
        .select_for_update(no_key=True, of=("self",))
        .exclude(state=Connection.State.ENDING)
        .filter(pk=connection_id)
        .first()
    )
    return found or _missing()


def _missing() -> Any:
    raise Missing
