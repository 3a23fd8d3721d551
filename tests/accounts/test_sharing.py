"""Granting and taking back: who may, what to whom, and what is written down."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from accounts.authority import Narrowing
from accounts.models import Membership, Organization, Role
from accounts.permissions import Origin, Verb
from accounts.relation import visible
from accounts.sharing import get_principal, get_shareable, grant, list_grants, revoke
from audit.models import AuditEvent
from conversations.models import Conversation
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Denied, Invalid, Missing
from retrieval.acl import visible_sources
from tests import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def organization() -> Organization:
    """An organisation."""
    return make.make_organization("sharing")


@pytest.fixture
def admin(organization: Organization) -> Membership:
    """An admin of it."""
    return make.make_member(organization, role=Role.ADMIN)


@pytest.fixture
def member(organization: Organization) -> Membership:
    """A plain member of it."""
    return make.make_member(organization)


def test_an_admin_grants_and_takes_back(
    organization: Organization, admin: Membership, member: Membership
) -> None:
    """Effective at once, once only, and audited with public ids."""
    source = make.make_source(organization)
    authority = make.authority_of(admin)
    say = {"principal": member.user, "verb": Verb.USE, "obj": source}
    assert grant(authority, **say) is True
    assert grant(authority, **say) is False
    assert list(visible_sources(make.authority_of(member), Verb.USE)) == [source]
    assert revoke(authority, **say) is True
    assert revoke(authority, **say) is False
    assert list(visible_sources(make.authority_of(member))) == []
    person = str(member.user.public_id)
    events = AuditEvent.objects.filter(organization_id=organization.pk).order_by("at", "id")
    assert [(event.action, event.data, event.object_id) for event in events] == [
        (
            "accounts.grant_added",
            {"verb": "use", "person": person, "expires_at": None},
            str(source.pk),
        ),
        ("accounts.grant_removed", {"verb": "use", "person": person}, str(source.pk)),
    ]


@pytest.mark.parametrize("role", [Role.MEMBER, Role.AUDITOR])
def test_without_the_right_nothing_is_granted(organization: Organization, role: Role) -> None:
    """Not visible is Missing, visible is Denied; no grant is written either way."""
    source = make.make_source(organization)
    caller = make.make_member(organization, role=role)
    other = make.make_member(organization)
    say = {"principal": other.user, "verb": Verb.VIEW, "obj": source}
    with pytest.raises(Missing):
        grant(make.authority_of(caller), **say)
    make.grant(caller, Verb.CHANGE, source)
    with pytest.raises(Denied):
        grant(make.authority_of(caller), **say)
    with pytest.raises(Denied):
        revoke(make.authority_of(caller), **say)
    assert list(visible_sources(make.authority_of(other))) == []


def test_a_sharer_passes_on_what_they_hold_and_no_more(
    organization: Organization, member: Membership
) -> None:
    """share gives view, use and share; change and manage stay out of reach."""
    project = make.make_project(organization)
    make.grant(member, Verb.SHARE, project)
    other = make.make_member(organization)
    authority = make.authority_of(member)
    for verb in (Verb.VIEW, Verb.USE, Verb.SHARE):
        grant(authority, principal=other.user, verb=verb, obj=project)
    for verb in (Verb.CHANGE, Verb.MANAGE):
        with pytest.raises(Denied):
            grant(authority, principal=other.user, verb=verb, obj=project)
    rows = list_grants(authority, obj=project)
    assert sorted((row.verb, row.origin) for row in rows if row.label == other.user.email) == [
        (Verb.SHARE, Origin.SHARE),
        (Verb.USE, Origin.SHARE),
        (Verb.VIEW, Origin.SHARE),
    ]


def test_a_sharer_does_not_take_away_what_was_granted_by_hand(
    organization: Organization, admin: Membership, member: Membership
) -> None:
    """What an admin granted stays; what was shared goes; a manager may take both."""
    project = make.make_project(organization)
    make.grant(member, Verb.SHARE, project)
    other = make.make_member(organization)
    say = {"principal": other.user, "verb": Verb.VIEW, "obj": project}
    grant(make.authority_of(admin), **say)
    assert revoke(make.authority_of(member), **say) is False
    grant(make.authority_of(member), **say)
    assert revoke(make.authority_of(member), **say) is True
    assert list(visible(make.authority_of(other), type(project))) == [project]
    make.grant(member, Verb.MANAGE, project)
    assert revoke(make.authority_of(member), **say) is True
    assert list(visible(make.authority_of(other), type(project))) == []


def test_principals_of_another_organisation_are_refused(
    organization: Organization, admin: Membership
) -> None:
    """A foreign person, a foreign team and a suspended member get one and the same sentence."""
    project = make.make_project(organization)
    other = make.make_organization()
    stranger = make.make_member(other)
    suspended = make.make_member(organization, state=Membership.State.SUSPENDED)
    said = set()
    for principal in (stranger.user, make.make_team(other), make.everyone(other), suspended.user):
        with pytest.raises(Invalid) as refusal:
            grant(make.authority_of(admin), principal=principal, verb=Verb.VIEW, obj=project)
        said.add(refusal.value.message)
    for kind, identity in (("person", stranger.user.public_id), ("team", project.pk), ("x", None)):
        with pytest.raises(Invalid) as refusal:
            get_principal(make.authority_of(admin), kind=kind, principal_id=identity)
        said.add(refusal.value.message)
    assert said == {"That person or team isn't in this organisation."}
    with pytest.raises(Missing):
        grant(
            make.authority_of(admin),
            principal=admin.user,
            verb=Verb.VIEW,
            obj=make.make_project(other),
        )


def test_an_invited_person_can_be_granted_ahead(
    organization: Organization, admin: Membership
) -> None:
    """The grant waits until they join."""
    invited = make.make_member(organization, state=Membership.State.INVITED)
    project = make.make_project(organization)
    assert grant(make.authority_of(admin), principal=invited.user, verb=Verb.VIEW, obj=project)
    Membership.objects.filter(pk=invited.pk).update(state="active")
    assert list(visible(make.authority_of(invited), type(project))) == [project]


def test_an_end_is_moved_and_lies_in_the_future(
    organization: Organization, admin: Membership, member: Membership
) -> None:
    """Granting again only moves the end; an end in the past is refused."""
    project = make.make_project(organization)
    authority = make.authority_of(admin)
    say = {"principal": member.user, "verb": Verb.VIEW, "obj": project}
    with pytest.raises(Invalid):
        grant(authority, **say, expires_at=now() - timedelta(seconds=1))
    end = now() + timedelta(days=1)
    assert grant(authority, **say) is True
    assert grant(authority, **say, expires_at=end) is False
    assert [row.expires_at for row in list_grants(authority, obj=project)] == [end]


def test_a_role_does_not_open_conversations(
    organization: Organization, admin: Membership, member: Membership
) -> None:
    """What is personal is shared by its holder alone: an owner can't grant themselves a view."""
    conversation = Conversation.objects.create(
        organization=organization, agent=make.make_agent(organization), started_by=member.user
    )
    make.grant(member, Verb.MANAGE, conversation)
    with pytest.raises(Missing):
        grant(make.authority_of(admin), principal=admin.user, verb=Verb.VIEW, obj=conversation)
    with pytest.raises(Missing):
        get_shareable(make.authority_of(admin), type_name="conversation", object_id=conversation.pk)
    grant(make.authority_of(member), principal=admin.user, verb=Verb.VIEW, obj=conversation)
    assert list(visible(make.authority_of(admin), Conversation)) == [conversation]


def test_a_run_shares_nothing(organization: Organization, admin: Membership) -> None:
    """Inside a run neither the role nor an own share right passes anything on."""
    project = make.make_project(organization)
    make.grant(admin, Verb.MANAGE, project)
    inside = make.authority_of(admin).narrowed(Narrowing())
    for authority in (inside, replace(inside, narrowing=Narrowing(source_keys=frozenset()))):
        with pytest.raises(Denied):
            grant(authority, principal=admin.user, verb=Verb.VIEW, obj=project)
