"""Leases: the short, hashed, attempt-numbered proof that one runtime may act for one run.

Time is the database's. A frame with a lapsed lease or of an earlier attempt changes nothing and is
audited.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from agents.guard.contract import LeaseLost
from audit.record import record_system
from conversations import journal
from conversations.models import Run

RUNS_TOPIC = "runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One attempt's lease: the secret itself exists only here and at the runtime."""

    run_id: UUID
    organization_id: UUID
    attempt: int
    secret: str


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _until() -> object:
    return Now() + timedelta(seconds=settings.KAIZEN_LEASE_SECONDS)


@transaction.atomic
def claim() -> Lease | None:
    """Take the oldest queued run of any organisation, or None.

    Skips runs that another process is taking at this moment. Locks the run, then the conversation.
    """
    run = (
        Run.objects.select_for_update(skip_locked=True, of=("self",))
        .filter(state=Run.State.QUEUED)
        .order_by("created_at")
        .first()
    )
    if run is None:
        return None
    secret = secrets.token_urlsafe(32)
    Run.objects.filter(pk=run.pk).update(
        state=Run.State.RUNNING,
        attempt=F("attempt") + 1,
        lease_hash=_digest(secret),
        lease_until=_until(),
        started_at=Now(),
    )
    attempt = run.attempt + 1
    journal.append(
        organization_id=run.organization_id,
        conversation_id=run.conversation_id,
        kind="run_started",
        data={"run": str(run.pk), "message": str(run.answer_id), "attempt": attempt},
        run_id=run.pk,
        attempt=attempt,
    )
    return Lease(run_id=run.pk, organization_id=run.organization_id, attempt=attempt, secret=secret)


def lock(lease: Lease) -> Run:
    """The run, locked, if the lease holds at this moment. Call inside a transaction.

    Raises LeaseLost otherwise. Nothing is extended: `renew` does that.
    """
    run = (
        Run.objects.select_for_update(of=("self",))
        .filter(
            pk=lease.run_id,
            organization_id=lease.organization_id,
            state=Run.State.RUNNING,
            attempt=lease.attempt,
            lease_hash=_digest(lease.secret),
            lease_until__gt=Now(),
        )
        .select_related("agent_version")
        .first()
    )
    if run is None:
        raise LeaseLost
    return run


def renew(lease: Lease) -> bool:
    """Extend the lease if it still holds. Returns whether it did."""
    return bool(
        Run.objects.filter(
            pk=lease.run_id,
            state=Run.State.RUNNING,
            attempt=lease.attempt,
            lease_hash=_digest(lease.secret),
            lease_until__gt=Now(),
        ).update(lease_until=_until())
    )


def note_stale(lease: Lease, *, frame: str) -> None:
    """Audit a frame that came too late."""
    record_system(
        lease.organization_id,
        "agents.stale_frame",
        data={"run": str(lease.run_id), "attempt": lease.attempt, "frame": frame},
    )
