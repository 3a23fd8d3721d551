"""Organisations, members, teams, projects, keys, idempotency: the rules and their refusals."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta

import pytest

from accounts import services
from accounts.invitations import accept_invitations
from accounts.models import ApiKey, Membership, Organization, Project, Role, Team, User
from accounts.permissions import Verb
from accounts.relation import visible
from audit.models import AuditEvent
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Conflict, Denied, Invalid, Missing
from tests import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def organization() -> Organization:
    """An organisation."""
    return make.make_organization("services")


@pytest.fixture
def owner(organization: Organization) -> Membership:
    """Its owner."""
    return make.make_member(organization, role=Role.OWNER)


def actions(organization: Organization) -> list[str]:
    """The names of what the audit holds, oldest first."""
    rows = AuditEvent.objects.filter(organization_id=organization.pk).order_by("at", "id")
    return [row.action for row in rows]


def test_create_organization() -> None:
    """It has an owner and a team for everyone; a bad or taken slug is refused."""
    person = make.make_user()
    made = services.create_organization(name=" New Ltd ", slug="new-ltd", owner=person)
    assert made.name == "New Ltd"
    assert made.key > 0
    assert make.everyone(made).label == "Everyone"
    place = Membership.objects.get(organization=made)
    assert (place.user, place.role, place.state) == (person, "owner", "active")
    assert actions(made) == ["accounts.organization_created"]
    with pytest.raises(Conflict):
        services.create_organization(name="Again", slug="new-ltd", owner=person)
    for slug in ("", "a b", "a/b", "x" * 41, "é"):
        with pytest.raises(Invalid):
            services.create_organization(name="Bad", slug=slug, owner=person)


def test_an_invited_person_joins_by_signing_in(
    organization: Organization, owner: Membership
) -> None:
    """Invited, they have no way in; accepting makes them a member; suspended ones aren't let in by
    it.
    """
    invitation = services.invite_member(
        make.authority_of(owner), email=" New@Example.org ", role=Role.ADMIN
    )
    user = User.objects.get(email="new@example.org")
    assert not user.has_usable_password()
    assert (invitation.membership.state, invitation.membership.role) == ("invited", "admin")
    with pytest.raises(Missing):
        make.authority_of(invitation.membership)
    assert [place.pk for place in accept_invitations(user)] == [invitation.membership.pk]
    place = Membership.objects.get(pk=invitation.membership.pk)
    assert make.authority_of(place).role == Role.ADMIN
    assert actions(organization) == ["accounts.member_invited", "accounts.member_joined"]
    Membership.objects.filter(pk=place.pk).update(state="suspended")
    assert accept_invitations(user) == []
    with pytest.raises(Conflict):
        services.invite_member(make.authority_of(owner), email=user.email, role=Role.MEMBER)


def test_roles_are_given_within_limits(organization: Organization, owner: Membership) -> None:
    """Only owners make and unmake owners; the last one stays; members manage nobody."""
    admin = make.make_member(organization, role=Role.ADMIN)
    member = make.make_member(organization)
    acting = make.authority_of(admin)
    for role in (Role.OWNER, "king"):
        with pytest.raises((Denied, Invalid)):
            services.set_member_role(acting, membership=member, role=role)
    with pytest.raises(Denied):
        services.set_member_role(acting, membership=owner, role=Role.MEMBER)
    with pytest.raises(Denied):
        services.set_member_state(acting, membership=owner, state="suspended")
    with pytest.raises(Denied):
        services.set_member_role(make.authority_of(member), membership=member, role=Role.ADMIN)
    with pytest.raises(Conflict):
        services.set_member_role(make.authority_of(owner), membership=owner, role=Role.MEMBER)
    with pytest.raises(Conflict):
        services.set_member_state(make.authority_of(owner), membership=owner, state="suspended")
    services.set_member_role(make.authority_of(owner), membership=member, role=Role.OWNER)
    services.set_member_role(make.authority_of(owner), membership=owner, role=Role.MEMBER)
    assert Membership.objects.get(pk=owner.pk).role == Role.MEMBER
    with pytest.raises(Missing):
        services.set_member_role(
            make.authority_of(member),
            membership=make.make_member(make.make_organization()),
            role=Role.ADMIN,
        )


def test_teams(organization: Organization, owner: Membership) -> None:
    """Made, nested without circles, filled, emptied, deleted; the team of everyone is
    left alone.
    """
    acting = make.authority_of(owner)
    outer = services.create_team(acting, label="Outer")
    inner = services.create_team(acting, label="Inner", parent=outer)
    assert str(inner.uuid) == inner.name
    with pytest.raises(Conflict):
        services.create_team(acting, label="outer")
    with pytest.raises(Invalid):
        services.change_team(acting, team=outer, label="Outer", parent=inner)
    with pytest.raises(Missing):
        services.create_team(acting, label="X", parent=make.make_team(make.make_organization()))
    with pytest.raises(Conflict):
        services.delete_team(acting, team=outer)
    everyone = make.everyone(organization)
    member = make.make_member(organization)
    with pytest.raises(Invalid):
        services.add_to_team(acting, team=everyone, membership=member)
    with pytest.raises(Invalid):
        services.delete_team(acting, team=everyone)
    project = make.make_project(organization)
    make.grant(outer, Verb.VIEW, project)
    services.add_to_team(acting, team=inner, membership=member)
    assert list(visible(make.authority_of(member), Project)) == [project]
    services.remove_from_team(acting, team=inner, membership=member)
    assert list(visible(make.authority_of(member), Project)) == []
    services.delete_team(acting, team=inner)
    assert set(Team.objects.filter(organization=organization)) == {everyone, outer}
    with pytest.raises(Denied):
        services.create_team(make.authority_of(member), label="Mine")


def test_a_projects_maker_manages_it(organization: Organization, owner: Membership) -> None:
    """Made by an admin, managed by them, of a name that is free; members make none."""
    project = services.create_project(make.authority_of(owner), name="Bridge")
    assert list(visible(make.authority_of(owner), Project, Verb.MANAGE)) == [project]
    with pytest.raises(Conflict):
        services.create_project(make.authority_of(owner), name="Bridge ")
    with pytest.raises(Invalid):
        services.create_project(make.authority_of(owner), name=" \u200b ")
    with pytest.raises(Denied):
        services.create_project(make.authority_of(make.make_member(organization)), name="Mine")
    assert actions(organization) == ["accounts.project_created"]


def test_keys_hold_no_more_than_their_maker(organization: Organization, owner: Membership) -> None:
    """Known scopes only, at most a year, never more than the key that asks; revoked by owner or
    admin.
    """
    member = make.make_member(organization)
    acting = make.authority_of(member)
    soon = now() + timedelta(days=30)
    key, secret = services.create_key(acting, name="robot", scopes=["search"], expires_at=soon)
    assert secret.startswith("kz_")
    assert secret not in str(ApiKey.objects.filter(pk=key.pk).values())
    for scopes, end in (
        ([], soon),
        (["root"], soon),
        (["chat"], now()),
        (["chat"], now() + timedelta(days=400)),
    ):
        with pytest.raises(Invalid):
            services.create_key(acting, name="bad", scopes=scopes, expires_at=end)
    narrow = replace(acting, scopes=frozenset({"admin"}))
    with pytest.raises(Denied):
        services.create_key(narrow, name="more", scopes=["search"], expires_at=soon)
    with pytest.raises(Missing):
        services.revoke_key(make.authority_of(make.make_member(organization)), key=key)
    services.revoke_key(make.authority_of(owner), key=key)
    assert ApiKey.objects.get(pk=key.pk).revoked_at is not None


def test_remember_makes_once_per_key(owner: Membership) -> None:
    """The same key and request give the same id; another request under the key is a Conflict."""
    acting = make.authority_of(owner)
    made: list[uuid.UUID] = []

    def make_one() -> uuid.UUID:
        made.append(uuid.uuid4())
        return made[-1]

    say = {"route": "turns", "key": "k", "make": make_one}
    assert services.remember(acting, **say, digest="d") == (made[0], False)
    assert services.remember(acting, **say, digest="d") == (made[0], True)
    assert len(made) == 1
    with pytest.raises(Conflict):
        services.remember(acting, **say, digest="other")
    assert services.remember(acting, **{**say, "route": "else"}, digest="d")[1] is False
    other = make.make_member(owner.organization)
    assert services.remember(make.authority_of(other), **say, digest="d")[1] is False
    for key in ("", "x" * 256, "a\nb"):
        with pytest.raises(Invalid):
            services.remember(acting, **{**say, "key": key}, digest="d")


def test_remember_keeps_nothing_of_what_failed(owner: Membership) -> None:
    """A retry after a failure does the work."""
    acting = make.authority_of(owner)

    def fail() -> uuid.UUID:
        raise Invalid

    with pytest.raises(Invalid):
        services.remember(acting, route="r", key="k", digest="d", make=fail)
    done = services.remember(acting, route="r", key="k", digest="d", make=uuid.uuid4)
    assert done[1] is False
