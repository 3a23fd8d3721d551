"""The hash chain: one sealer per organisation links events in; anyone may verify.

hash = SHA-256(previous hash, seq, exact text of the whole event). Sealing happens after the act's
transaction, since a chain inside it would let only one act of an organisation run at a time.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Exists, OuterRef

from audit.models import AuditEvent, AuditLink, AuditPending, AuditPersonal
from audit.record import personal_digest
from kaizen.kernel.models import exact_json

GENESIS = "0" * 64
BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What `verify` found: the first fault in words, or none; and how many events are sealed and
    not yet.
    """

    organization_id: UUID
    sealed: int
    unsealed: int
    fault: str | None
    head: str


def event_hash(event: AuditEvent, *, seq: int, previous: str) -> str:
    """The hash of `event` as link number `seq` after `previous`."""
    body = exact_json(
        [
            previous,
            seq,
            str(event.id),
            str(event.organization_id),
            event.at.isoformat(),
            event.action,
            None if event.actor_id is None else str(event.actor_id),
            event.channel,
            None if event.run_id is None else str(event.run_id),
            event.object_type,
            event.object_id,
            exact_json(event.data),
            event.personal_digest,
        ]
    )
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()


def seal_all() -> int:
    """Seal what is pending in every organisation. Returns the number of new links."""
    waiting = AuditPending.objects.order_by("organization_id").values_list(
        "organization_id", flat=True
    )
    return sum(seal(organization_id) for organization_id in waiting.distinct())


def seal(organization_id: UUID) -> int:
    """Link the pending events of one organisation, oldest first. Returns how many.

    Takes the organisation's sealing lock without waiting: a second sealer does nothing.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_try_advisory_xact_lock(hashtextextended('audit ' || %s, 0))",
                [str(organization_id)],
            )
            if not cursor.fetchone()[0]:
                return 0
        pending = list(
            AuditPending.objects.filter(organization_id=organization_id)
            .order_by("event_id")
            .values_list("event_id", flat=True)[:BATCH]
        )
        if not pending:
            return 0
        last = AuditLink.objects.filter(organization_id=organization_id).order_by("-seq").first()
        seq, previous = (last.seq, last.hash) if last else (0, GENESIS)
        links = []
        for event in AuditEvent.objects.filter(id__in=pending).order_by("id"):
            seq += 1
            digest = event_hash(event, seq=seq, previous=previous)
            links.append(
                AuditLink(
                    organization_id=organization_id,
                    seq=seq,
                    event_id=event.id,
                    previous=previous,
                    hash=digest,
                )
            )
            previous = digest
        AuditLink.objects.bulk_create(links)
        AuditPending.objects.filter(event_id__in=pending).delete()
    return len(links)


def verify(organization_id: UUID) -> Verdict:
    """Recompute the whole chain of one organisation and name the first fault."""
    links = AuditLink.objects.filter(organization_id=organization_id)
    unsealed = AuditPending.objects.filter(organization_id=organization_id).count()
    previous, fault = GENESIS, None
    for seq, (link, event) in enumerate(_walk(organization_id), start=1):
        if link.seq != seq:
            fault = f"link {seq} is missing"
        elif event is None:
            fault = f"event {link.event_id} of link {seq} is gone"
        elif not hmac.compare_digest(link.previous, previous):
            fault = f"link {seq} doesn't follow link {seq - 1}"
        elif not hmac.compare_digest(event_hash(event, seq=seq, previous=previous), link.hash):
            fault = f"event {event.id} of link {seq} was changed"
        else:
            fault = _personal_fault(event)
        if fault:
            break
        previous = link.hash
    if fault is None:
        strays = _count_strays(organization_id)
        if strays:
            fault = f"{strays} events stand outside the chain"
    return Verdict(
        organization_id=organization_id,
        sealed=links.count(),
        unsealed=unsealed,
        fault=fault,
        head=previous,
    )


def _count_strays(organization_id: UUID) -> int:
    """Events neither sealed nor waiting, counted in one statement, since acts go on meanwhile."""
    linked = AuditLink.objects.filter(organization_id=organization_id, event_id=OuterRef("id"))
    waiting = AuditPending.objects.filter(organization_id=organization_id, event_id=OuterRef("id"))
    events = AuditEvent.objects.filter(organization_id=organization_id)
    return events.filter(~Exists(linked), ~Exists(waiting)).count()


def _walk(organization_id: UUID) -> Iterator[tuple[AuditLink, AuditEvent | None]]:
    after = 0
    while True:
        links = list(
            AuditLink.objects.filter(organization_id=organization_id, seq__gt=after).order_by(
                "seq"
            )[:BATCH]
        )
        if not links:
            return
        events = AuditEvent.objects.in_bulk([link.event_id for link in links])
        for link in links:
            yield link, events.get(link.event_id)
        after = links[-1].seq


def _personal_fault(event: AuditEvent) -> str | None:
    if not event.personal_digest:
        return None
    personal = AuditPersonal.objects.filter(event_id=event.id).first()
    if personal is None:  # Erased on purpose; the digest keeps the chain whole.
        return None
    if personal_digest(personal.salt, personal.data) != event.personal_digest:
        return f"the personal values of event {event.id} were changed"
    return None
