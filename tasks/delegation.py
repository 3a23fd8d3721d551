"""Consent for unattended work: what exactly was agreed to, and whether it still stands.

`prove` is asked before each occurrence. It answers with the member's authority of this moment, or
with a refusal that says why; there is no weaker fallback. Everything is compared as it is now, by
the database's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.db.models import Case, Q, QuerySet, When
from django.db.models.functions import Now

from accounts.authority import Authority, Channel, from_user_id
from agents.models import Agent
from agents.queries import get_usable_agent
from agents.services import digest_of
from kaizen.kernel.errors import Conflict, Denied, Missing
from tasks.models import Delegation, Task

MOST_DAYS = 30
IS_LIVE = Q(revoked_at=None, expires_at__gt=Now())


class Reason(StrEnum):
    """Why unattended work may not happen."""

    INACTIVE = "task_inactive"
    NO_CONSENT = "consent_missing"
    REVOKED = "consent_revoked"
    EXPIRED = "consent_expired"
    CHANGED = "definition_changed"
    MEMBER = "member_inactive"
    AGENT = "agent_unusable"


SENTENCES: dict[Reason, str] = {
    Reason.INACTIVE: "The task is paused or archived.",
    Reason.NO_CONSENT: "Nobody has agreed to unattended work under this task.",
    Reason.REVOKED: "The agreement to unattended work was withdrawn.",
    Reason.EXPIRED: "The agreement to unattended work has expired. Renew it to go on.",
    Reason.CHANGED: (
        "The task or its agent has changed since its owner agreed to it. "
        "Look at it and agree again to go on."
    ),
    Reason.MEMBER: "The task's owner is no longer an active member here.",
    Reason.AGENT: "The task's owner can't use its agent any more.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """Unattended work may happen now, under this authority, by this agent."""

    authority: Authority
    agent: Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Unattended work may not happen, and why."""

    reason: Reason

    @property
    def message(self) -> str:
        """One plain sentence for the task's owner."""
        return SENTENCES[self.reason]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """What `judge` needs of a delegation; `is_live` by the database's clock."""

    user_id: int
    digest: str
    is_revoked: bool
    is_live: bool


def judge(agreed: Agreed | None, *, owner_id: int, digest: str) -> Reason | None:
    """Why the newest consent doesn't cover a task whose digest is now `digest`; None when it does.

    Pure.
    """
    if agreed is None or agreed.user_id != owner_id:
        return Reason.NO_CONSENT
    if agreed.is_revoked:
        return Reason.REVOKED
    if not agreed.is_live:
        return Reason.EXPIRED
    return Reason.CHANGED if agreed.digest != digest else None


def compute_digest(task: Task, agent: Agent) -> str:
    """SHA-256 over everything in the task that bears on what will be done, with the agent as it is
    now.

    `agent` must have been read together with its current version. The name and how long the
    agreement lasts are left out: changing them needs no new agreement.
    """
    version = agent.current_version
    return digest_of(
        {
            "prompt": task.prompt,
            "agent": str(agent.pk),
            "agent_version": None if version is None else version.digest,
            "cron": task.cron,
            "time_zone": task.time_zone,
        }
    )


def prove(task: Task) -> Proven | Refusal:
    """Whether `task` may run unattended at this instant, and as whom. Reads only."""
    if task.state != Task.State.ACTIVE:
        return Refusal(reason=Reason.INACTIVE)
    return prove_consent(task)


def prove_consent(task: Task) -> Proven | Refusal:
    """`prove` for a task in any state: whether it might run if it were active."""
    newest = find_newest(task)
    agreed = None
    if newest is not None:
        agreed = Agreed(
            user_id=newest.user_id,
            digest=newest.digest,
            is_revoked=newest.revoked_at is not None,
            is_live=newest.is_live,
        )
    agent = read_agent(task)
    reason = judge(agreed, owner_id=task.owner_id, digest=compute_digest(task, agent))
    if reason is not None:
        return Refusal(reason=reason)
    try:
        authority = from_user_id(
            task.owner_id, organization_id=task.organization_id, channel=Channel.DELEGATION
        )
    except Missing:
        return Refusal(reason=Reason.MEMBER)
    try:
        get_usable_agent(authority, task.agent_id)
    except (Missing, Denied, Conflict):
        return Refusal(reason=Reason.AGENT)
    return Proven(authority=authority, agent=agent)


def find_newest(task: Task) -> Any:
    """The delegation that counts for `task`, the newest one, with `is_live`; or None."""
    delegations = Delegation.objects.filter(organization_id=task.organization_id, task=task)
    return with_liveness(delegations).first()


def with_liveness(delegations: QuerySet[Delegation]) -> QuerySet[Any]:
    """`delegations`, newest first, each with `is_live` by the database's clock."""
    return delegations.annotate(is_live=Case(When(IS_LIVE, then=True), default=False)).order_by(
        "-granted_at", "-id"
    )


def read_agent(task: Task) -> Agent:
    """The task's agent with its current version, read now."""
    agent: Agent = Agent.objects.select_related("current_version").get(
        organization_id=task.organization_id, pk=task.agent_id
    )
    return agent
