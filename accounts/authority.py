"""Authority: who is asking, resolved afresh from the database for each request, frame and job.

Every service takes one as its first argument. It is never stored and never sent to the runtime.
Anything that can't be proven at this instant raises; there is no weaker fallback.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from uuid import UUID

from django.db.models import F, QuerySet
from django.db.models.functions import Now

from accounts.models import ApiKey, Membership, Organization, Role, User
from kaizen.kernel.errors import Denied, Missing, Unauthenticated


class Channel(StrEnum):
    """How the caller came in."""

    SESSION = "session"
    KEY = "key"
    RUN = "run"
    DELEGATION = "delegation"
    COMMAND = "command"


class Capability(StrEnum):
    """What a role lets a member configure; `CAPABILITIES` is the one table."""

    CONFIGURE = "configure"  # agents, prompts, models, sources, projects, grants
    PEOPLE = "people"  # memberships and teams
    AUDIT = "audit"  # read the audit


CAPABILITIES: dict[Role, frozenset[Capability]] = {
    Role.OWNER: frozenset(Capability),
    Role.ADMIN: frozenset(Capability),
    Role.AUDITOR: frozenset({Capability.AUDIT}),
    Role.MEMBER: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """What a run may use at most; can only take away from what the caller may."""

    source_keys: frozenset[int] | None = None
    run_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """Who is asking. Build it with one of the `from_` functions below, never by hand."""

    organization_id: UUID
    organization_key: int
    organization_slug: str
    user_id: int
    membership_id: UUID
    role: Role
    channel: Channel
    scopes: frozenset[str] | None = None
    narrowing: Narrowing | None = None
    actor_id: UUID | None = None

    def may(self, capability: Capability) -> bool:
        """Whether the caller's role has `capability`; a run never has one."""
        return self.narrowing is None and capability in CAPABILITIES[self.role]

    def check(self, capability: Capability) -> None:
        """Raise Denied unless `may(capability)`."""
        if not self.may(capability):
            raise Denied(
                "Your role in this organisation doesn't allow this. Ask an owner or admin."
            )

    def check_scope(self, scope: str) -> None:
        """Raise Denied when the caller is a key without `scope`."""
        if self.scopes is not None and scope not in self.scopes:
            raise Denied(f"This API key lacks the scope {scope!r}.", code="scope")

    def narrowed(self, narrowing: Narrowing) -> Authority:
        """The same caller inside a run."""
        return replace(self, narrowing=narrowing, channel=Channel.RUN)


def from_membership(
    membership: Membership, *, channel: Channel, scopes: Iterable[str] | None = None
) -> Authority:
    """The authority of a membership that was just read together with its organisation and user.

    Raises Missing unless membership, person and organisation are all active.
    """
    organization = membership.organization
    if (
        membership.state != Membership.State.ACTIVE
        or not membership.user.is_active
        or organization.state != Organization.State.ACTIVE
    ):
        raise Missing
    return Authority(
        organization_id=organization.id,
        organization_key=organization.key,
        organization_slug=organization.slug,
        user_id=membership.user_id,
        membership_id=membership.id,
        role=Role(membership.role),
        channel=channel,
        scopes=None if scopes is None else frozenset(scopes),
        actor_id=membership.user.public_id,
    )


def from_user(user: User, *, slug: str, channel: Channel = Channel.SESSION) -> Authority:
    """The authority of a signed-in person in the organisation named in the address.

    Raises Missing when there is no such organisation or no active membership in it: the two aren't
    told apart.
    """
    membership = _memberships().filter(user_id=user.pk, organization__slug=slug).first()
    if membership is None:
        raise Missing
    return from_membership(membership, channel=channel)


def from_user_id(user_id: int, *, organization_id: UUID, channel: Channel) -> Authority:
    """The authority of a person by ids, for runs and jobs. Raises Missing as `from_user` does."""
    membership = _memberships().filter(user_id=user_id, organization_id=organization_id).first()
    if membership is None:
        raise Missing
    return from_membership(membership, channel=channel)


def key_digest(secret: str) -> str:
    """How a key is stored. Keys are 256 random bits, so a plain SHA-256 is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()


def from_key(secret: str, *, slug: str) -> Authority:
    """The authority of an API key in the organisation named in the address.

    Raises Unauthenticated for an unknown, expired or revoked key, one of another organisation, or
    one whose member is no longer active: all alike. Moves `last_used_at` only when it answers.
    """
    key = (
        ApiKey.objects.filter(
            digest=key_digest(secret),
            organization__slug=slug,
            revoked_at=None,
            expires_at__gt=Now(),
        )
        .select_related("membership__organization", "membership__user")
        .first()
    )
    if key is None:
        raise Unauthenticated
    try:
        authority = from_membership(key.membership, channel=Channel.KEY, scopes=key.scopes)
    except Missing:
        raise Unauthenticated from None
    ApiKey.objects.filter(pk=key.pk).update(last_used_at=Now(), expires_at=F("expires_at"))
    return authority


def _memberships() -> QuerySet[Membership]:
    return Membership.objects.select_related("organization", "user")
