"""What a change would do: who gains and loses what, who may ask, and that nothing stays of the
question.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from accounts.authority import Authority
from accounts.models import Membership, Role, TeamMembership
from accounts.permissions import Origin, Verb, store_grant
from audit.models import AuditEvent, AuditPending
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Conflict, Denied, Invalid, Missing
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
from retrieval.access.what_if import Impact, what_if
from retrieval.acl import visible_documents
from retrieval.models import Document, Source
from tests import factories
from tests.retrieval.conftest import Library
from tests.retrieval.test_explain import make_document
from tests.security.admin_world import snapshot

pytestmark = pytest.mark.django_db


def told(impact: Impact) -> dict[str, tuple[int, int]]:
    """Gained and lost by e-mail."""
    return {person.email: (person.gained, person.lost) for person in impact.people}


def ask(library: Library, change: Change) -> dict[str, tuple[int, int]]:
    """What the owner is told of a change."""
    return told(what_if(library.as_owner, change=change))


@pytest.fixture
def pages(library: Library) -> list[Document]:
    """Three documents in the library, a restricted one among them."""
    return [
        make_document(library.source, "A"),
        make_document(library.source, "B"),
        make_document(library.source, "C", acl_state="restricted"),
    ]


def test_a_grant_to_a_team_reaches_those_within_it(library: Library, pages: list[Document]) -> None:
    team = factories.make_team(library.organization)
    inner = factories.make_team(library.organization, library.member, parent=team)
    other = factories.make_member(library.organization)
    impact = what_if(
        library.as_owner,
        change=GrantChange(act="add", principal=team, verb=Verb.VIEW, obj=library.source),
    )
    assert told(impact) == {library.member.user.email: (2, 0)}
    assert impact.people[0].gained_titles == ("A", "B")
    assert (impact.reached, impact.compared, impact.gained, impact.lost) == (1, 1, 2, 0)
    assert not visible_documents(library.as_member).exists()
    assert inner.team_memberships.count() == 1
    assert other.user.email not in told(impact)


def test_who_sees_it_already_gains_nothing(library: Library, pages: list[Document]) -> None:
    factories.grant(library.member, Verb.VIEW, pages[0])
    change = GrantChange(
        act="add", principal=library.member.user, verb=Verb.USE, obj=library.source
    )
    impact = what_if(library.as_owner, change=change)
    assert told(impact) == {library.member.user.email: (1, 0)}
    assert impact.people[0].gained_titles == ("B",)


def test_a_revocation_costs_what_no_other_grant_keeps(
    library: Library, pages: list[Document]
) -> None:
    factories.grant(library.member, Verb.VIEW, library.source)
    factories.grant(factories.everyone(library.organization), Verb.VIEW, pages[1])
    change = GrantChange(
        act="remove", principal=library.member.user, verb=Verb.VIEW, obj=library.source
    )
    impact = what_if(library.as_owner, change=change)
    assert told(impact) == {library.member.user.email: (0, 1)}
    assert impact.people[0].lost_titles == ("A",)


def test_a_grant_of_the_source_system_can_not_be_taken_back(
    library: Library, pages: list[Document]
) -> None:
    store_grant(
        library.member.user,
        Verb.VIEW,
        library.source,
        granted_by_id=None,
        origin=Origin.CONNECTOR,
    )
    change = GrantChange(
        act="remove", principal=library.member.user, verb=Verb.VIEW, obj=library.source
    )
    assert ask(library, change) == {}


def test_a_grant_to_everyone_on_a_restricted_document(
    library: Library, pages: list[Document]
) -> None:
    suspended = factories.make_member(library.organization, state=Membership.State.SUSPENDED)
    everyone = factories.everyone(library.organization)
    change = GrantChange(act="add", principal=everyone, verb=Verb.VIEW, obj=pages[2])
    impact = what_if(library.as_owner, change=change)
    assert told(impact) == {
        library.owner.user.email: (1, 0),
        library.member.user.email: (1, 0),
    }
    assert impact.reached == 3
    assert suspended.user.email not in told(impact)


def test_entering_and_leaving_a_team(library: Library, pages: list[Document]) -> None:
    team = factories.make_team(library.organization)
    factories.grant(team, Verb.VIEW, library.source)
    enter = TeamMembershipChange(act="add", team=team, membership=library.member)
    assert ask(library, enter) == {library.member.user.email: (2, 0)}
    TeamMembership.objects.create(
        organization=library.organization, team=team, membership=library.member
    )
    leave = TeamMembershipChange(act="remove", team=team, membership=library.member)
    assert ask(library, leave) == {library.member.user.email: (0, 2)}


def test_moving_a_team_gains_and_loses_at_once(library: Library, pages: list[Document]) -> None:
    elsewhere = factories.make_source(library.organization)
    make_document(elsewhere, "D")
    old = factories.make_team(library.organization)
    new = factories.make_team(library.organization)
    team = factories.make_team(library.organization, library.member, parent=old)
    factories.grant(old, Verb.VIEW, library.source)
    factories.grant(new, Verb.VIEW, elsewhere)
    impact = what_if(library.as_owner, change=TeamParentChange(team=team, parent=new))
    assert told(impact) == {library.member.user.email: (1, 2)}
    assert (impact.people[0].gained_titles, impact.people[0].lost_titles) == (("D",), ("A", "B"))
    assert team.parent_id == old.pk


def test_putting_a_source_into_a_project(library: Library, pages: list[Document]) -> None:
    project = factories.make_project(library.organization)
    factories.grant(library.member, Verb.VIEW, project)
    into = SourceProjectChange(source=library.source, project=project)
    assert ask(library, into) == {library.member.user.email: (2, 0)}
    Source.objects.filter(pk=library.source.pk).update(project=project)
    out_of = SourceProjectChange(source=library.source, project=None)
    assert ask(library, out_of) == {library.member.user.email: (0, 2)}


def test_restricting_a_document_leaves_it_to_who_restricts_it(
    library: Library, pages: list[Document]
) -> None:
    factories.grant(library.member, Verb.VIEW, library.source)
    change = AclStateChange(document=pages[0], state=Document.AclState.RESTRICTED)
    impact = what_if(library.as_owner, change=change)
    assert told(impact) == {library.member.user.email: (0, 1)}
    assert impact.people[0].lost_titles == ("A",)
    pages[0].refresh_from_db()
    assert pages[0].acl_state == "inherit"


def test_letting_a_document_inherit_and_hiding_one(library: Library, pages: list[Document]) -> None:
    factories.grant(library.member, Verb.VIEW, library.source)
    shown = AclStateChange(document=pages[2], state=Document.AclState.INHERIT)
    assert ask(library, shown) == {
        library.owner.user.email: (1, 0),
        library.member.user.email: (1, 0),
    }
    hidden = AclStateChange(document=pages[0], state=Document.AclState.UNKNOWN)
    assert ask(library, hidden) == {
        library.owner.user.email: (0, 1),
        library.member.user.email: (0, 1),
    }


def test_suspending_a_member_and_letting_one_back_in(
    library: Library, pages: list[Document]
) -> None:
    factories.grant(library.member, Verb.VIEW, library.source)
    member = library.member
    change = MembershipStateChange(membership=member, state=Membership.State.SUSPENDED)
    assert ask(library, change) == {member.user.email: (0, 2)}
    assert member.state == Membership.State.ACTIVE
    Membership.objects.filter(pk=member.pk).update(state=Membership.State.SUSPENDED)
    change = MembershipStateChange(membership=member, state=Membership.State.ACTIVE)
    assert ask(library, change) == {member.user.email: (2, 0)}


def test_five_titles_are_named_and_all_are_counted(library: Library) -> None:
    for number in range(30):
        make_document(library.source, f"Page {number:02}")
    change = GrantChange(
        act="add", principal=library.member.user, verb=Verb.VIEW, obj=library.source
    )
    person = what_if(library.as_owner, change=change).people[0]
    assert (person.gained, person.gained_titles) == (30, tuple(f"Page {n:02}" for n in range(5)))


def test_nothing_stays_of_a_question_but_the_question(
    library: Library, pages: list[Document], django_capture_on_commit_callbacks: Callable
) -> None:
    team = factories.make_team(library.organization, library.member)
    factories.grant(team, Verb.VIEW, library.source)
    project = factories.make_project(library.organization)
    changes: list[Change] = [
        GrantChange(act="add", principal=team, verb=Verb.USE, obj=library.source),
        GrantChange(act="remove", principal=team, verb=Verb.VIEW, obj=library.source),
        TeamMembershipChange(act="remove", team=team, membership=library.member),
        TeamParentChange(team=team, parent=factories.make_team(library.organization)),
        SourceProjectChange(source=library.source, project=project),
        AclStateChange(document=pages[0], state=Document.AclState.UNKNOWN),
        MembershipStateChange(membership=library.member, state=Membership.State.SUSPENDED),
    ]
    kept = {"audit.AuditEvent", "audit.AuditPending"}
    before = snapshot(library.organization)
    with django_capture_on_commit_callbacks() as callbacks:
        for change in changes:
            assert ask(library, change) or isinstance(
                change, GrantChange | SourceProjectChange | TeamParentChange
            )
    after = snapshot(library.organization)
    assert {name for name in before if before[name] != after[name]} == kept
    assert callbacks == []
    events = AuditEvent.objects.filter(organization_id=library.organization.pk)
    assert [event.action for event in events.order_by("at", "id")] == (
        ["retrieval.what_if_asked"] * len(changes)
    )
    assert AuditPending.objects.filter(event_id__in=events.values("id")).count() == len(changes)


def test_jobs_that_saving_would_start_are_not_started(
    library: Library,
    pages: list[Document],
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Callable,
) -> None:
    """The positive control: the very same step outside of a question does register its job."""
    started: list[str] = []

    def apply(authority: Authority, change: Change) -> None:
        transaction.on_commit(lambda: started.append("job"))

    monkeypatch.setattr(module, "_apply", apply)
    change = AclStateChange(document=pages[0], state=Document.AclState.UNKNOWN)
    with django_capture_on_commit_callbacks(execute=True):
        what_if(library.as_owner, change=change)
    assert started == []
    with django_capture_on_commit_callbacks(execute=True):
        apply(library.as_owner, change)
    assert started == ["job"]


def test_the_question_is_audited_with_its_totals(library: Library, pages: list[Document]) -> None:
    team = factories.make_team(library.organization, library.member)
    what_if(
        library.as_owner,
        change=GrantChange(act="add", principal=team, verb=Verb.VIEW, obj=library.source),
    )
    event = AuditEvent.objects.get(action="retrieval.what_if_asked")
    assert (event.object_type, event.object_id) == ("source", str(library.source.pk))
    assert event.data == {
        "change": "grant_add",
        "verb": "view",
        "team": str(team.uuid),
        "reached": 1,
        "gained": 2,
        "lost": 0,
    }


@pytest.mark.parametrize("role", [Role.AUDITOR, Role.MEMBER])
def test_who_does_not_configure_may_not_ask(
    library: Library, pages: list[Document], role: Role
) -> None:
    """Not even who may make the change: a member who shares the source."""
    asker = factories.make_member(library.organization, role=role)
    factories.grant(asker, Verb.MANAGE, library.source)
    change = GrantChange(
        act="add", principal=library.member.user, verb=Verb.VIEW, obj=library.source
    )
    with pytest.raises(Denied):
        what_if(factories.authority_of(asker), change=change)
    assert not AuditEvent.objects.filter(action="retrieval.what_if_asked").exists()


def test_what_saving_would_refuse_is_refused(library: Library, pages: list[Document]) -> None:
    """An owner is suspended by owners, the last one by nobody; teams make no circle; a grant ends
    in the future; strangers get none.
    """
    admin = factories.authority_of(factories.make_member(library.organization, role=Role.ADMIN))
    suspend = MembershipStateChange(membership=library.owner, state=Membership.State.SUSPENDED)
    with pytest.raises(Denied):
        what_if(admin, change=suspend)
    with pytest.raises(Conflict):
        what_if(library.as_owner, change=suspend)
    team = factories.make_team(library.organization)
    inner = factories.make_team(library.organization, parent=team)
    with pytest.raises(Invalid):
        what_if(library.as_owner, change=TeamParentChange(team=team, parent=inner))
    for principal, ends in (
        (library.member.user, now() - timedelta(hours=1)),
        (factories.make_user(), None),
    ):
        change = GrantChange(
            act="add",
            principal=principal,
            verb=Verb.VIEW,
            obj=library.source,
            expires_at=ends,
        )
        with pytest.raises(Invalid):
            what_if(library.as_owner, change=change)


def test_rows_of_another_organisation_are_missing(library: Library, pages: list[Document]) -> None:
    other = factories.make_organization()
    source, member = factories.make_source(other), factories.make_member(other)
    team, project = factories.make_team(other), factories.make_project(other)
    own_team = factories.make_team(library.organization)
    changes: list[Change] = [
        GrantChange(act="add", principal=library.member.user, verb=Verb.VIEW, obj=source),
        GrantChange(act="add", principal=team, verb=Verb.VIEW, obj=library.source),
        TeamMembershipChange(act="add", team=own_team, membership=member),
        TeamMembershipChange(act="add", team=team, membership=library.member),
        TeamParentChange(team=own_team, parent=team),
        SourceProjectChange(source=library.source, project=project),
        SourceProjectChange(source=source, project=None),
        AclStateChange(document=make_document(source), state=Document.AclState.UNKNOWN),
        MembershipStateChange(membership=member, state=Membership.State.SUSPENDED),
    ]
    for change in changes:
        with pytest.raises(Missing):
            what_if(library.as_owner, change=change)


def test_two_hundred_members_cost_as_many_queries_as_ten(
    library: Library, pages: list[Document]
) -> None:
    owner = library.as_owner
    everyone = factories.everyone(library.organization)
    project = factories.make_project(library.organization)
    Source.objects.filter(pk=library.source.pk).update(project=project)
    change = GrantChange(act="add", principal=everyone, verb=Verb.VIEW, obj=project)

    def cost(members: int) -> int:
        while Membership.objects.filter(organization=library.organization).count() < members:
            factories.make_member(library.organization)
        with CaptureQueriesContext(connection) as queries:
            impact = what_if(owner, change=change)
        assert (impact.reached, impact.compared) == (members, members)
        return len(queries)

    cost(10)  # warms the permission ids
    assert cost(10) == cost(200) <= 32


def test_above_the_bound_the_first_by_email_are_compared_and_that_is_told(
    library: Library, pages: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_PEOPLE", 3)
    for name in ("b", "a", "c"):
        user = factories.make_user(f"{name}@aaa.example.org")
        factories.make_member(library.organization, user=user)
    everyone = factories.everyone(library.organization)
    change = GrantChange(act="add", principal=everyone, verb=Verb.VIEW, obj=library.source)
    impact = what_if(library.as_owner, change=change)
    assert (impact.reached, impact.compared) == (5, 3)
    assert [person.email for person in impact.people] == [
        "a@aaa.example.org",
        "b@aaa.example.org",
        "c@aaa.example.org",
    ]
