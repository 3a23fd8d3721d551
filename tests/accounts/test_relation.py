"""The relation, clause by clause: whose grants count, until when, and what a verb implies."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from accounts.models import Membership, Organization
from accounts.permissions import Verb, grantable_models, store_grant
from accounts.relation import get, visible
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Denied, Missing
from tests import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def organization() -> Organization:
    """An organisation."""
    return make.make_organization("relation")


@pytest.fixture
def member(organization: Organization) -> Membership:
    """A plain member of it."""
    return make.make_member(organization)


def seen(member: Membership, model: type, verb: Verb = Verb.VIEW) -> set[str]:
    """The names the member holds `verb` on."""
    return {row.name for row in visible(make.authority_of(member), model, verb)}


def test_nothing_is_visible_without_a_grant(organization: Organization, member: Membership) -> None:
    """An object is nobody's until it is granted, not even an owner's."""
    project = make.make_project(organization, name="P")
    owner = make.make_member(organization, role="owner")
    assert seen(member, type(project)) == set()
    assert seen(owner, type(project)) == set()


def test_own_grants(organization: Organization, member: Membership) -> None:
    """What was granted to a person is theirs and nobody else's."""
    project = make.make_project(organization, name="P")
    make.make_project(organization, name="Q")
    make.grant(member, Verb.VIEW, project)
    assert seen(member, type(project)) == {"P"}
    assert seen(make.make_member(organization), type(project)) == set()


def test_team_grants_reach_nested_teams_upwards(
    organization: Organization, member: Membership
) -> None:
    """A member of an inner team holds what its parents hold, not what its children do."""
    outer = make.make_team(organization, label="Outer")
    inner = make.make_team(organization, member, label="Inner", parent=outer)
    innermost = make.make_team(organization, label="Innermost", parent=inner)
    sibling = make.make_team(organization, label="Sibling", parent=outer)
    for name, team in {"o": outer, "i": inner, "c": innermost, "s": sibling}.items():
        make.grant(team, Verb.VIEW, make.make_project(organization, name=name))
    assert seen(member, grantable_models()["project"]) == {"o", "i"}
    outsider = make.make_member(organization)
    assert seen(outsider, grantable_models()["project"]) == set()


def test_a_circle_of_teams_ends(organization: Organization, member: Membership) -> None:
    """Even a circle made behind the services' back is walked once."""
    first = make.make_team(organization, member, label="First")
    second = make.make_team(organization, label="Second", parent=first)
    type(first).objects.filter(pk=first.pk).update(parent=second)
    project = make.make_project(organization, name="P")
    make.grant(second, Verb.VIEW, project)
    assert seen(member, type(project)) == {"P"}


def test_everyone_is_every_active_member(organization: Organization, member: Membership) -> None:
    """A grant to everyone reaches each active member, and nobody who is invited or suspended."""
    project = make.make_project(organization, name="P")
    make.grant(make.everyone(organization), Verb.USE, project)
    authority = make.authority_of(member)
    assert seen(member, type(project)) == {"P"}
    for state in (Membership.State.INVITED, Membership.State.SUSPENDED):
        Membership.objects.filter(pk=member.pk).update(state=state)
        assert list(visible(authority, type(project))) == []


@pytest.mark.parametrize("how", ["membership", "person", "organisation"])
def test_a_suspended_member_holds_nothing(
    organization: Organization, member: Membership, how: str
) -> None:
    """Own, team and everyone's grants all end with the membership, the person or the
    organisation.
    """
    authority = make.authority_of(member)
    team = make.make_team(organization, member)
    for number, principal in enumerate((member, team, make.everyone(organization))):
        make.grant(principal, Verb.MANAGE, make.make_project(organization, name=str(number)))
    model = grantable_models()["project"]
    assert {row.name for row in visible(authority, model)} == {"0", "1", "2"}
    if how == "membership":
        Membership.objects.filter(pk=member.pk).update(state="suspended")
    elif how == "person":
        type(member.user).objects.filter(pk=member.user_id).update(is_active=False)
    else:
        Organization.objects.filter(pk=organization.pk).update(state="suspended")
    assert list(visible(authority, model)) == []


def test_an_expired_grant_is_none(organization: Organization, member: Membership) -> None:
    """A grant ends at its time, for people and teams alike; one without an end doesn't."""
    team = make.make_team(organization, member)
    hour = timedelta(hours=1)
    for principal, prefix in ((member.user, "own"), (team, "team")):
        for end, name in ((now() - hour, "past"), (now() + hour, "future"), (None, "open")):
            project = make.make_project(organization, name=f"{prefix}-{name}")
            store_grant(principal, Verb.VIEW, project, granted_by_id=None, expires_at=end)
    assert seen(member, grantable_models()["project"]) == {
        "own-future",
        "own-open",
        "team-future",
        "team-open",
    }


def test_verbs_imply_one_another(organization: Organization, member: Membership) -> None:
    """manage holds share and change, those hold use, use holds view; nothing the other
    way round.
    """
    for verb in Verb:
        make.grant(member, verb, make.make_project(organization, name=verb))
    model = grantable_models()["project"]
    assert {verb: seen(member, model, verb) for verb in Verb} == {
        Verb.VIEW: {"view", "use", "change", "share", "manage"},
        Verb.USE: {"use", "change", "share", "manage"},
        Verb.CHANGE: {"change", "manage"},
        Verb.SHARE: {"share", "manage"},
        Verb.MANAGE: {"manage"},
    }


def test_another_organisation_sees_nothing(organization: Organization, member: Membership) -> None:
    """The same person's grants and teams in B open nothing in A, and the other way round."""
    other = make.make_organization("relation-b")
    there = make.make_member(other, user=member.user)
    for where, name in ((organization, "here"), (other, "there")):
        make.grant(make.everyone(where), Verb.VIEW, make.make_project(where, name=name))
        make.grant(member.user, Verb.VIEW, make.make_project(where, name=f"own-{name}"))
    model = grantable_models()["project"]
    assert seen(member, model) == {"here", "own-here"}
    assert seen(there, model) == {"there", "own-there"}


def test_a_revoked_place_in_a_team_ends_at_once(
    organization: Organization, member: Membership
) -> None:
    """Leaving the team takes its grants away in the next statement."""
    team = make.make_team(organization, member)
    project = make.make_project(organization, name="P")
    make.grant(team, Verb.VIEW, project)
    assert seen(member, type(project)) == {"P"}
    team.team_memberships.all().delete()
    assert seen(member, type(project)) == set()


def test_get_tells_missing_from_denied_by_view_alone(
    organization: Organization, member: Membership
) -> None:
    """Visible but not so far is Denied; foreign, unknown and nonsense ids are Missing."""
    authority = make.authority_of(member)
    project = make.make_project(organization)
    model = type(project)
    with pytest.raises(Missing):
        get(authority, model, project.pk, Verb.CHANGE)
    make.grant(member, Verb.VIEW, project)
    assert get(authority, model, project.pk) == project
    with pytest.raises(Denied):
        get(authority, model, project.pk, Verb.CHANGE)
    for identity in (make.make_project(make.make_organization()).pk, "nonsense"):
        with pytest.raises(Missing):
            get(authority, model, identity)


def test_a_grant_dies_with_its_object_even_by_raw_sql(
    organization: Organization, member: Membership
) -> None:
    """K09: no grant outlives its object."""
    project = make.make_project(organization)
    make.grant(member, Verb.VIEW, project)
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("DELETE FROM accounts_project WHERE id = %s", [str(project.pk)])
        cursor.execute("SELECT count(*) FROM accounts_projectusergrant")
        assert cursor.fetchone() == (0,)


def test_every_grantable_type_is_known() -> None:
    """The types of the ground rules, and no other."""
    assert sorted(grantable_models()) == [
        "agent",
        "conversation",
        "document",
        "languagemodel",
        "project",
        "prompt",
        "source",
        "task",
    ]
