"""The only writer of audit events. Called inside the transaction of the act: no event, no act."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import transaction

from audit.events import EVENTS
from audit.models import PLATFORM, AuditEvent, AuditPending, AuditPersonal
from kaizen.kernel.models import exact_json

if TYPE_CHECKING:
    from accounts.authority import Authority


def record(
    authority: Authority,
    action: str,
    *,
    subject: object | None = None,
    data: Mapping[str, Any] | None = None,
    personal: Mapping[str, Any] | None = None,
) -> UUID:
    """Insert one event in the current transaction.

    Args:
        authority: who acts.
        action: a name of `audit.events.EVENTS`.
        subject: the model instance acted on, if any.
        data: safe values: ids, counts, digests, names of settings.
        personal: values about persons (e-mail addresses, query text); kept beside and erasable.

    Returns:
        The event's id. Raises KeyError for an action that isn't catalogued.
    """
    run_id = authority.narrowing.run_id if authority.narrowing else None
    return _insert(
        organization_id=authority.organization_id,
        action=action,
        actor_id=authority.actor_id,
        channel=authority.channel,
        run_id=run_id,
        subject=subject,
        data=data,
        personal=personal,
    )


def record_system(
    organization_id: UUID,
    action: str,
    *,
    subject: object | None = None,
    data: Mapping[str, Any] | None = None,
    actor_id: UUID | None = None,
) -> UUID:
    """Like `record`, for what the platform does on its own (sweeps, the scheduler, ingestion)."""
    return _insert(
        organization_id=organization_id,
        action=action,
        actor_id=actor_id,
        channel="system",
        run_id=None,
        subject=subject,
        data=data,
        personal=None,
    )


def record_platform(
    action: str,
    *,
    data: Mapping[str, Any] | None = None,
    personal: Mapping[str, Any] | None = None,
    actor_id: UUID | None = None,
) -> UUID:
    """Like `record`, in the platform's own chain."""
    with transaction.atomic():
        return _insert(
            organization_id=PLATFORM,
            action=action,
            actor_id=actor_id,
            channel="platform",
            run_id=None,
            subject=None,
            data=data,
            personal=personal,
        )


def personal_digest(salt: str, personal: Mapping[str, Any]) -> str:
    """SHA-256 over the salt and the exact text of the personal values."""
    return hashlib.sha256(
        (salt + exact_json(dict(personal))).encode("utf-8", "surrogatepass")
    ).hexdigest()


@transaction.atomic(savepoint=False)
def _insert(
    *,
    organization_id: UUID,
    action: str,
    actor_id: UUID | None,
    channel: str,
    run_id: UUID | None,
    subject: object | None,
    data: Mapping[str, Any] | None,
    personal: Mapping[str, Any] | None,
) -> UUID:
    if action not in EVENTS:
        raise KeyError(action)
    digest, salt = "", ""
    if personal:
        salt = secrets.token_hex(16)
        digest = personal_digest(salt, personal)
    event = AuditEvent.objects.create(
        organization_id=organization_id,
        action=action,
        actor_id=actor_id,
        channel=channel,
        run_id=run_id,
        object_type="" if subject is None else type(subject).__name__.lower(),
        object_id="" if subject is None else str(getattr(subject, "pk", "")),
        data=dict(data or {}),
        personal_digest=digest,
    )
    if personal:
        AuditPersonal.objects.create(
            event_id=event.id, organization_id=organization_id, salt=salt, data=dict(personal)
        )
    AuditPending.objects.create(event_id=event.id, organization_id=organization_id, at=event.at)
    return event.id
