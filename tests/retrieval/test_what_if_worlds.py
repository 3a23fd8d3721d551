"""What a change would do, in random worlds: exactly the difference between what the rules say
before it and after it was really made.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest
from django.db import transaction

from accounts.authority import Authority
from accounts.models import Membership, Role, Team, User
from accounts.permissions import Verb
from retrieval.access import what_if as module
from retrieval.access.changes import (
    AclStateChange,
    Change,
    GrantChange,
    MembershipStateChange,
    SourceProjectChange,
    TeamMembershipChange,
    TeamParentChange,
)
from retrieval.access.what_if import what_if
from retrieval.models import Document
from tests import factories
from tests.retrieval.test_random_worlds import World
from tests.retrieval.test_what_if import told
from tests.retrieval.worlds import Rules

SEED = int(os.environ.get("KAIZEN_SEED", "20264"))
SOAK = os.environ.get("KAIZEN_ROUNDS") == "soak"
WORLDS, STEPS = (50, 60) if SOAK else (2, 30)

pytestmark = pytest.mark.django_db


@pytest.mark.soak
@pytest.mark.parametrize("number", range(WORLDS))
def test_the_impact_is_what_the_rules_say_before_and_after_the_change(number: int) -> None:
    dice = random.Random(SEED + number)
    world = World(dice)
    factories.make_member(world.organization, state=Membership.State.SUSPENDED)
    owner = factories.authority_of(factories.make_member(world.organization, role=Role.OWNER))
    touched = 0
    for step in range(STEPS):
        world.change()
        change = _random_change(dice, world)
        before = _rules_say(world)
        impact = what_if(owner, change=change)
        with transaction.atomic():
            module._apply(owner, change)
            after = _rules_say(world)
            transaction.set_rollback(True)
        expected = {
            email: (len(after[email] - before[email]), len(before[email] - after[email]))
            for email in before
            if after[email] != before[email]
        }
        assert told(impact) == expected, (number, step, change)
        titles = dict(Document.objects.values_list("pk", "title"))
        for person in impact.people:
            gained = {titles[pk] for pk in after[person.email] - before[person.email]}
            lost = {titles[pk] for pk in before[person.email] - after[person.email]}
            assert set(person.gained_titles) <= gained
            assert len(person.gained_titles) == min(5, len(gained))
            assert set(person.lost_titles) <= lost
            assert len(person.lost_titles) == min(5, len(lost))
        touched += bool(expected)
    assert SOAK or touched >= 5


def _rules_say(world: World) -> dict[str, set[object]]:
    """Every member's documents by the rules as the rows stand now."""
    rules = Rules(world.organization)
    seen = {}
    for member in Membership.objects.filter(organization=world.organization).select_related("user"):
        who = Authority(
            organization_id=world.organization.pk,
            organization_key=world.organization.key,
            organization_slug=world.organization.slug,
            user_id=member.user_id,
            membership_id=member.pk,
            role=Role(member.role),
            channel="command",
        )
        seen[member.user.email] = {
            document.pk for document in world.documents if rules.may_view(who, document.pk)
        }
    return seen


def _random_change(dice: random.Random, world: World) -> Change:
    members = list(Membership.objects.filter(organization=world.organization, role=Role.MEMBER))
    member, team = dice.choice(members), dice.choice(world.teams)
    standing = [m for m in members if m.state == Membership.State.ACTIVE]
    principal: User | Team = dice.choice(
        [dice.choice(standing).user, team, factories.everyone(world.organization)]
    )
    living = [row for row in world.documents[:12] if _lives(row)]
    source = dice.choice([row for row in world.sources if row.archived_at is None] or world.sources)
    kinds: list[Callable[[], Change]] = [
        lambda: GrantChange(
            act=dice.choice(["add", "remove"]),
            principal=principal,
            verb=dice.choice(list(Verb)),
            obj=dice.choice([*world.projects, *world.sources, *living]),
        ),
        lambda: TeamMembershipChange(
            act=dice.choice(["add", "remove"]), team=team, membership=member
        ),
        lambda: TeamParentChange(team=world.teams[3], parent=dice.choice([None, *world.teams[:2]])),
        lambda: AclStateChange(
            document=dice.choice(living), state=dice.choice(list(Document.AclState))
        ),
        lambda: MembershipStateChange(
            membership=member,
            state=Membership.State.SUSPENDED
            if member.state == Membership.State.ACTIVE
            else Membership.State.ACTIVE,
        ),
    ]
    if source.archived_at is None:
        kinds.append(
            lambda: SourceProjectChange(source=source, project=dice.choice([None, *world.projects]))
        )
    return dice.choice(kinds)()


def _lives(document: Document) -> bool:
    return Document.objects.filter(pk=document.pk, deleted_at=None).exists()
