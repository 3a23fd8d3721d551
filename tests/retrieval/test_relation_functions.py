"""The relation's functions, each asked alone: whose grants they count, on what, and until when.

Some rows here can't be made through the product, or not be committed at all: each function keeps
within its organisation all the same. `test_relation_clauses` removes every clause in turn and
expects one of these tests, or of `test_relation`, to fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from accounts import relation
from accounts.authority import Narrowing
from accounts.models import Membership, Organization, Project, Team, TeamMembership, User
from accounts.permissions import Verb, store_grant, team_grants_of, user_grants_of
from kaizen.kernel.clock import now
from retrieval import acl
from retrieval.models import Document, Source
from tests import factories
from tests.retrieval.conftest import Library
from tests.retrieval.probes import (
    MEANING_WAYS,
    document_titles,
    project_names,
    source_names,
    unkept,
)
from tests.retrieval.worlds import index_document

pytestmark = pytest.mark.django_db
KINDS = ("project", "source", "document", "bare project")
WHO = ("person", "team")
each_kind = pytest.mark.parametrize("kind", KINDS)
each_principal = pytest.mark.parametrize("who", WHO)
each_branch = pytest.mark.parametrize("branch", ["source", "document"])
each_function = pytest.mark.parametrize("function", MEANING_WAYS)


@dataclass(frozen=True)
class Place:
    """A project with a source with a document, and what is asked for one kind of object."""

    project: Project
    source: Source
    document: Document
    kind: str

    @property
    def obj(self) -> Any:
        """What is granted."""
        return getattr(self, self.kind.removeprefix("bare "))

    @property
    def found(self) -> set[str]:
        """What the function answers when the grant counts."""
        return {str({"project": self.source}.get(self.kind, self.obj))}


ASKED: dict[str, Callable[..., set[str]]] = {
    "project": source_names,
    "source": source_names,
    "document": document_titles,
    "bare project": project_names,
}


def place(organization: Organization, kind: str, name: str = "here", of: str = "page") -> Place:
    """A place of its own, whose document tells of a keeper `of` something."""
    project = factories.make_project(organization, name=f"Project {name}")
    source = factories.make_source(organization, name=f"Source {name}", project=project)
    document = index_document(source, title=f"Document {name}", of=of)
    return Place(project, source, document, kind)


def principal_of(library: Library, membership: Membership, who: str) -> User | Team:
    """The member, or a new team with them in it."""
    if who == "person":
        return membership.user
    return factories.make_team(library.organization, membership)


def ask(library: Library, kind: str, verb: Verb = Verb.VIEW) -> set[str]:
    """What the function of that kind answers the member."""
    return ASKED[kind](library.as_member, verb)


# --- grants


@each_principal
@each_kind
def test_a_grant_counts_for_its_verb_only(library: Library, kind: str, who: str) -> None:
    here = place(library.organization, kind)
    factories.grant(principal_of(library, library.member, who), Verb.VIEW, here.obj)
    assert ask(library, kind) == here.found
    assert ask(library, kind, Verb.CHANGE) == set()


@each_principal
@each_kind
def test_a_grant_that_is_over_counts_for_nothing(library: Library, kind: str, who: str) -> None:
    here = place(library.organization, kind)
    store_grant(
        principal_of(library, library.member, who),
        Verb.VIEW,
        here.obj,
        granted_by_id=None,
        expires_at=now() - timedelta(hours=1),
    )
    assert ask(library, kind) == set()


@each_principal
@each_kind
def test_a_grant_of_somebody_else_counts_for_nothing(library: Library, kind: str, who: str) -> None:
    here = place(library.organization, kind)
    factories.grant(principal_of(library, library.owner, who), Verb.MANAGE, here.obj)
    assert ask(library, kind) == set()


@each_principal
@each_kind
def test_a_grant_filed_under_another_organisation_counts_for_nothing(
    library: Library, kind: str, who: str
) -> None:
    here = place(library.organization, kind)
    factories.grant(principal_of(library, library.member, who), Verb.VIEW, here.obj)
    other = factories.make_organization()
    for table in (user_grants_of(type(here.obj)), team_grants_of(type(here.obj))):
        table._default_manager.filter(content_object=here.obj).update(organization=other)
    assert ask(library, kind) == set()


@each_kind
def test_a_grant_on_one_object_opens_no_other(library: Library, kind: str) -> None:
    here = place(library.organization, kind)
    place(library.organization, kind, name="there")
    factories.grant(library.member, Verb.VIEW, here.obj)
    assert ask(library, kind) == here.found


@pytest.mark.parametrize("kind", ["project", "source", "document"])
def test_an_object_of_another_organisation_is_not_opened_by_a_grant_filed_here(
    library: Library, kind: str
) -> None:
    there = place(factories.make_organization(), kind)
    table = user_grants_of(type(there.obj))
    factories.grant(library.member, Verb.VIEW, there.obj)
    table._default_manager.filter(content_object=there.obj).update(
        organization=library.organization
    )
    assert ask(library, kind) == set()


def test_a_project_of_another_organisation_is_not_opened_by_a_grant_filed_here(
    library: Library,
) -> None:
    there = place(factories.make_organization(), "project")
    table = user_grants_of(Project)
    factories.grant(library.member, Verb.VIEW, there.project)
    rows = table._default_manager.filter(content_object=there.project)
    rows.update(organization=library.organization)
    assert list(relation.visible(library.as_member, Project)) == []


# --- principals


def everybodys(library: Library) -> Place:
    """A source that everyone may view, and the member in person too."""
    here = place(library.organization, "source")
    factories.grant(factories.everyone(library.organization), Verb.VIEW, here.obj)
    return here


def test_the_members_of_a_suspended_organisation_hold_nothing_while_others_are_active(
    library: Library,
) -> None:
    here = everybodys(library)
    factories.make_organization()
    who = library.as_member
    assert source_names(who) == here.found
    Organization.objects.filter(pk=library.organization.pk).update(state="suspended")
    assert source_names(who) == set()


def test_a_deactivated_person_holds_nothing(library: Library) -> None:
    here = everybodys(library)
    who = library.as_member
    assert source_names(who) == here.found
    User.objects.filter(pk=library.member.user_id).update(is_active=False)
    assert source_names(who) == set()


def test_a_suspended_member_holds_nothing_through_everyone(library: Library) -> None:
    everybodys(library)
    who = library.as_member
    Membership.objects.filter(pk=library.member.pk).update(state="suspended")
    assert source_names(who) == set()


@pytest.mark.parametrize("kind", ["source", "document", "bare project"])
def test_a_suspended_member_holds_nothing_in_person(library: Library, kind: str) -> None:
    here = place(library.organization, kind)
    factories.grant(library.member, Verb.VIEW, here.obj)
    who = library.as_member
    assert ASKED[kind](who) == here.found
    Membership.objects.filter(pk=library.member.pk).update(state="suspended")
    assert ASKED[kind](who) == set()


def test_a_member_suspended_here_holds_nothing_by_being_active_elsewhere(library: Library) -> None:
    everybodys(library)
    who = library.as_member
    factories.make_member(factories.make_organization(), user=library.member.user)
    Membership.objects.filter(pk=library.member.pk).update(state="suspended")
    assert source_names(who) == set()


def test_what_another_organisations_everyone_holds_is_not_for_everyone_here(
    library: Library,
) -> None:
    here = place(library.organization, "source")
    there = factories.everyone(factories.make_organization())
    _grant_here(library, there, here)
    assert source_names(library.as_member) == set()


def test_a_team_hung_on_another_organisations_team_gains_nothing_by_it(library: Library) -> None:
    here = place(library.organization, "source")
    there = factories.make_team(factories.make_organization())
    factories.make_team(library.organization, library.member, parent=there)
    _grant_here(library, there, here)
    assert source_names(library.as_member) == set()


def test_a_place_in_a_team_filed_under_another_organisation_counts_for_nothing(
    library: Library,
) -> None:
    here = place(library.organization, "source")
    team = factories.make_team(library.organization, library.member)
    factories.grant(team, Verb.VIEW, here.obj)
    assert source_names(library.as_member) == here.found
    with unkept():
        other = factories.make_organization()
        TeamMembership.objects.filter(team=team).update(organization=other)
        assert source_names(library.as_member) == set()


def test_a_team_with_a_parent_holds_what_the_parent_holds_and_no_more(library: Library) -> None:
    here = place(library.organization, "source")
    aside = place(library.organization, "source", name="aside")
    parent = factories.make_team(library.organization)
    factories.make_team(library.organization, library.member, parent=parent)
    factories.grant(parent, Verb.VIEW, here.obj)
    factories.grant(factories.make_team(library.organization), Verb.VIEW, aside.obj)
    assert source_names(library.as_member) == here.found


def _grant_here(library: Library, team: Team, here: Place) -> None:
    """A grant row of the library's organisation for another one's team."""
    table: Any = team_grants_of(Source)
    own = factories.make_team(library.organization)
    factories.grant(own, Verb.VIEW, here.obj)
    table._default_manager.filter(content_object=here.obj).update(group=team)


# --- sources and documents


@pytest.mark.parametrize("field", ["archived_at", "acl_unknown_since"])
@each_branch
def test_a_source_put_away_or_of_unknown_rights_is_nobodys(
    library: Library, branch: str, field: str
) -> None:
    """Though another source beside it stands open."""
    here = place(library.organization, branch)
    place(library.organization, branch, name="beside")
    factories.grant(library.member, Verb.MANAGE, here.obj)
    assert ask(library, branch) == here.found
    Source.objects.filter(pk=here.source.pk).update(**{field: now()})
    assert ask(library, branch) == set()


def test_an_archived_project_carries_no_source(library: Library) -> None:
    here = place(library.organization, "project")
    factories.grant(library.member, Verb.MANAGE, here.obj)
    assert source_names(library.as_member) == here.found
    Project.objects.filter(pk=here.project.pk).update(archived_at=now())
    assert source_names(library.as_member) == set()


@each_branch
def test_a_narrowing_leaves_its_own_sources_only(library: Library, branch: str) -> None:
    here = place(library.organization, branch)
    factories.grant(library.member, Verb.VIEW, here.obj)
    inside = library.as_member.narrowed(Narrowing(source_keys=frozenset({here.source.key})))
    outside = library.as_member.narrowed(Narrowing(source_keys=frozenset({library.source.key})))
    assert ASKED[branch](inside) == here.found
    assert ASKED[branch](outside) == set()


def test_a_deleted_document_is_nobodys(library: Library) -> None:
    here = place(library.organization, "document")
    factories.grant(library.member, Verb.VIEW, here.obj)
    Document.objects.filter(pk=here.document.pk).update(deleted_at=now())
    assert document_titles(library.as_member) == set()


def test_a_document_of_unknown_rights_is_nobodys(library: Library) -> None:
    here = place(library.organization, "document")
    factories.grant(library.member, Verb.VIEW, here.obj)
    Document.objects.filter(pk=here.document.pk).update(acl_state="unknown")
    assert document_titles(library.as_member) == set()


def test_a_document_filed_under_another_organisation_is_nobodys(library: Library) -> None:
    here = place(library.organization, "source")
    factories.grant(library.member, Verb.VIEW, here.source)
    assert [row.title for row in acl.visible_documents(library.as_member)] == ["Document here"]
    with unkept():
        other = factories.make_organization()
        Document.objects.filter(pk=here.document.pk).update(organization=other)
        assert list(acl.visible_documents(library.as_member)) == []
