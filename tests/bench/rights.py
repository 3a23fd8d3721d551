"""Who may see what in a world: members, nested teams, grants on projects, sources and documents.

Measured callers see a set share of their organisation, half of them by grants of their own, half
through a team and the team above it. Others have grants too, so that the tables are full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import uuid4

import numpy as np

from accounts.models import (
    Membership,
    Organization,
    Project,
    ProjectTeamGrant,
    ProjectUserGrant,
    Team,
    TeamMembership,
    User,
)
from accounts.permissions import Verb, permission_id
from kaizen.kernel.models import uuid7
from retrieval.models import (
    Document,
    DocumentTeamGrant,
    DocumentUserGrant,
    Source,
    SourceTeamGrant,
    SourceUserGrant,
)
from tests.bench.shape import CALLERS_PER_CELL, PER_DOCUMENT, SHARES, OrganizationShape

TABLES = {
    (Project, True): ProjectUserGrant,
    (Project, False): ProjectTeamGrant,
    (Source, True): SourceUserGrant,
    (Source, False): SourceTeamGrant,
    (Document, True): DocumentUserGrant,
    (Document, False): DocumentTeamGrant,
}
_BATCH = 2_000


@dataclass(frozen=True)
class Place:
    """A source as rights see it: its key, its project's, its documents' keys."""

    key: int
    project: int | None
    documents: range

    @property
    def passages(self) -> int:
        """How many it has."""
        return PER_DOCUMENT * len(self.documents)


@dataclass
class Grants:
    """Grants to be written: (principal, object key) by table. Each once."""

    organization: Organization
    wanted: dict[tuple[type, bool], set[tuple[int, int]]] = field(default_factory=dict)

    def give(self, principal: int, *, is_user: bool, model: type, keys: Sequence[int]) -> None:
        """Note grants to view."""
        rows = self.wanted.setdefault((model, is_user), set())
        rows.update((principal, int(key)) for key in keys)

    def write(self) -> int:
        """Write them all; returns how many."""
        for (model, is_user), rows in self.wanted.items():
            table, permission = TABLES[model, is_user], permission_id(model, Verb.VIEW)
            who = "user_id" if is_user else "group_id"
            table.objects.bulk_create(
                (
                    table(
                        organization=self.organization,
                        permission_id=permission,
                        content_object_id=key,
                        **{who: principal},
                    )
                    for principal, key in sorted(rows)
                ),
                batch_size=_BATCH,
            )
        return sum(map(len, self.wanted.values()))


def make_members(organization: Organization, count: int) -> list[Membership]:
    """So many active members, new people all."""
    users = User.objects.bulk_create(
        (User(email=f"{uuid4().hex}@bench.example", password="!") for _ in range(count)),
        batch_size=_BATCH,
    )
    return Membership.objects.bulk_create(
        (
            Membership(organization=organization, user=user, state=Membership.State.ACTIVE)
            for user in users
        ),
        batch_size=_BATCH,
    )


def make_team(organization: Organization, *members: Membership, parent: Team | None = None) -> Team:
    """A team with these members."""
    name = uuid7()
    team = Team.objects.create(
        organization=organization, uuid=name, name=str(name), label=str(name), parent=parent
    )
    TeamMembership.objects.bulk_create(
        TeamMembership(organization=organization, team=team, membership=member)
        for member in members
    )
    return team


def populate(
    organization: Organization,
    shape: OrganizationShape,
    places: Sequence[Place],
    dice: np.random.Generator,
) -> int:
    """Members and teams that are not measured, with a few grants each. Returns how many grants."""
    members = make_members(organization, shape.users)
    grants = Grants(organization)
    teams: list[Team] = []
    for number in range(shape.teams):
        parent = teams[int(dice.integers(0, number))] if number % 3 == 2 else None
        chosen = dice.choice(len(members), min(len(members), 3 + len(members) // 20), replace=False)
        teams.append(make_team(organization, *(members[at] for at in chosen), parent=parent))
    principals = [(member.user_id, True) for member in members]
    principals += [(team.pk, False) for team in teams]
    projects = sorted({place.project for place in places if place.project is not None})
    for principal, is_user in principals:
        if projects and dice.random() < 0.3:
            keys = [projects[int(dice.integers(0, len(projects)))]]
            grants.give(principal, is_user=is_user, model=Project, keys=keys)
        if dice.random() < 0.5:
            keys = [places[int(dice.integers(0, len(places)))].key]
            grants.give(principal, is_user=is_user, model=Source, keys=keys)
        for _ in range(5):
            documents = places[int(dice.integers(0, len(places)))].documents
            keys = [documents[int(dice.integers(0, len(documents)))]]
            grants.give(principal, is_user=is_user, model=Document, keys=keys)
    return grants.write()


def make_callers(
    organization: Organization, places: Sequence[Place], dice: np.random.Generator
) -> dict[str, list[int]]:
    """The measured callers of an organisation, as user ids by the share that they see."""
    callers: dict[str, list[int]] = {}
    grants = Grants(organization)
    total = sum(place.passages for place in places)
    for share, part in SHARES.items():
        callers[share] = []
        for number, member in enumerate(make_members(organization, CALLERS_PER_CELL)):
            callers[share].append(member.user_id)
            principal, is_user = member.user_id, number % 2 == 0
            if not is_user:
                above = make_team(organization)
                make_team(organization, member, parent=above)
                principal = above.pk
            _give_part(grants, principal, is_user, places, round(part * total), dice)
    grants.write()
    return callers


def _give_part(
    grants: Grants,
    principal: int,
    is_user: bool,
    places: Sequence[Place],
    passages: int,
    dice: np.random.Generator,
) -> None:
    """Whole projects and sources while they fit, then documents, and a few documents twice."""
    by_project: dict[int, list[Place]] = {}
    for place in places:
        if place.project is not None:
            by_project.setdefault(place.project, []).append(place)
    left, seen = max(passages, PER_DOCUMENT), set()

    def give(model: type, keys: Sequence[int]) -> None:
        grants.give(principal, is_user=is_user, model=model, keys=keys)

    for at in dice.permutation(len(places)).tolist():
        place = places[at]
        if place.key in seen:
            continue
        together = by_project.get(place.project or 0, [])
        size = sum(other.passages for other in together)
        if together and size <= left and not any(other.key in seen for other in together):
            give(Project, [place.project or 0])
            seen |= {other.key for other in together}
            left -= size
        elif place.passages <= left:
            give(Source, [place.key])
            seen.add(place.key)
            left -= place.passages
        elif left >= PER_DOCUMENT:
            count = left // PER_DOCUMENT
            chosen = dice.choice(len(place.documents), count, replace=False)
            give(Document, [place.documents[int(n)] for n in chosen])
            left = 0
        if left < PER_DOCUMENT:
            break
    whole = [place for place in places if place.key in seen]
    for _ in range(min(5, len(whole))):
        documents = whole[int(dice.integers(0, len(whole)))].documents
        give(Document, [documents[int(dice.integers(0, len(documents)))]])
