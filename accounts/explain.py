"""Why somebody holds what they hold: the rows that the relation reads, read one by one.

Promises: a member's principals with the teams they come through, the grants on one object that are
the member's (ended and weaker ones too), and whom a change of principals can touch. It explains an
answer and never gives one; that is `accounts.relation`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from django.contrib.postgres.functions import TransactionNow
from django.db import models
from django.db.models.expressions import RawSQL

from accounts.models import Membership, Organization, Team, TeamMembership
from accounts.permissions import Origin, Verb, team_grants_of, user_grants_of


class Door(StrEnum):
    """What keeps a member out of everything."""

    ORGANIZATION_SUSPENDED = "organization_suspended"
    PERSON_DEACTIVATED = "person_deactivated"
    MEMBERSHIP_NOT_ACTIVE = "membership_not_active"


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamStep:
    """One team on the way to a grant."""

    id: UUID
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """How a principal is the member's: themselves, everyone, or their own team and those above it
    up to the one that was granted something.
    """

    kind: Literal["person", "team", "everyone"]
    teams: tuple[TeamStep, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldGrant:
    """A grant row of one of the member's principals, whether or not it counts."""

    principal: Chain
    verb: Verb
    origin: Origin
    granted_at: datetime
    expires_at: datetime | None
    is_over: bool


def find_closed_door(membership: Membership) -> Door | None:
    """The first reason why the member holds nothing at all, or None. Reads the given rows only."""
    if membership.organization.state != Organization.State.ACTIVE:
        return Door.ORGANIZATION_SUSPENDED
    if not membership.user.is_active:
        return Door.PERSON_DEACTIVATED
    if membership.state != Membership.State.ACTIVE:
        return Door.MEMBERSHIP_NOT_ACTIVE
    return None


def read_chains(membership: Membership) -> dict[int, Chain]:
    """The shortest way to each team that the member is in, by the team's key in grants.

    Two queries.
    """
    teams = {team.pk: team for team in Team.objects.filter(organization=membership.organization_id)}
    places = TeamMembership.objects.filter(
        organization=membership.organization_id, membership=membership
    )
    found: dict[int, Chain] = {}
    for team in teams.values():
        if team.kind == Team.Kind.EVERYONE:
            found[team.pk] = Chain(kind="everyone")
    for key in places.order_by("team__label", "team_id").values_list("team_id", flat=True):
        steps: tuple[TeamStep, ...] = ()
        above: Team | None = teams.get(key)
        while above is not None and len(steps) < len(teams):
            steps = (*steps, TeamStep(id=above.uuid, label=above.label))
            known = found.get(above.pk)
            if known is None or len(known.teams) > len(steps):
                found[above.pk] = Chain(kind="team", teams=steps)
            above = teams.get(above.parent_id) if above.parent_id else None
    return found


def list_held_grants(
    membership: Membership, chains: Mapping[int, Chain], obj: models.Model
) -> list[HeldGrant]:
    """The member's grants on `obj`, of any verb, those that are over too; own ones first.

    Two queries.
    """
    at = {"organization": membership.organization_id, "content_object": obj}
    people = user_grants_of(type(obj))._default_manager.filter(**at, user=membership.user_id)
    teams = team_grants_of(type(obj))._default_manager.filter(**at, group__in=list(chains))
    own = Chain(kind="person")
    return [
        *(_held(row, own) for row in _in_order(people)),
        *(_held(row, chains[row.group_id]) for row in _in_order(teams)),
    ]


_BELOW = """
WITH RECURSIVE below AS (
    SELECT t.group_ptr_id FROM accounts_team t
    WHERE t.organization_id = %s AND t.group_ptr_id = ANY(%s)
    UNION
    SELECT t.group_ptr_id FROM accounts_team t JOIN below ON t.parent_id = below.group_ptr_id
    WHERE t.organization_id = %s
)
SELECT x.membership_id FROM accounts_teammembership x JOIN below ON x.team_id = below.group_ptr_id
WHERE x.organization_id = %s
"""


def members_reached(
    organization_id: UUID, *, user_ids: Collection[int], group_ids: Collection[int]
) -> models.QuerySet[Membership]:
    """The members, of any state, whom grants to these people and teams can reach."""
    members = Membership.objects.filter(organization_id=organization_id)
    groups = list(group_ids)
    everyone = Team.objects.filter(
        organization_id=organization_id, kind=Team.Kind.EVERYONE, pk__in=groups
    )
    if groups and everyone.exists():
        return members
    at = organization_id
    within = RawSQL(_BELOW, (at, groups, at, at))  # noqa: S611  parameters are bound
    return members.filter(models.Q(user_id__in=list(user_ids)) | models.Q(pk__in=within))


def _in_order(rows: models.QuerySet[Any]) -> models.QuerySet[Any]:
    # The relation's own clock, so that a grant that ends this instant is told as the relation does.
    is_over = models.Case(
        models.When(expires_at__lte=TransactionNow(), then=True),
        default=False,
        output_field=models.BooleanField(),
    )
    return rows.annotate(is_over=is_over).select_related("permission").order_by("id")


def _held(row: Any, principal: Chain) -> HeldGrant:
    return HeldGrant(
        principal=principal,
        verb=Verb(row.permission.codename.partition("_")[0]),
        origin=Origin(row.origin),
        granted_at=row.granted_at,
        expires_at=row.expires_at,
        is_over=row.is_over,
    )
