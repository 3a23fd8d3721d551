"""The relation, clause by clause: who sees a document through the queryset and through both search
branches.

Each test names the clause that it holds; the three ways in must always agree.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounts.authority import Authority, Narrowing
from accounts.models import Membership, Organization, Role, Team
from accounts.permissions import Verb, store_grant
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Denied, Missing
from retrieval.acl import get_document, get_source, visible_documents, visible_sources
from retrieval.ingest.index import set_inheritance
from retrieval.models import Document, Source
from retrieval.search import Mode, search
from tests import factories
from tests.retrieval.conftest import Library
from tests.retrieval.worlds import WORD, index_document


def seen(authority: Authority) -> set[str]:
    """The titles of what the caller sees; queryset, semantic and lexical search must agree."""
    by_queryset = {document.title for document in visible_documents(authority)}
    by_meaning = titles(authority, Mode.SEMANTIC)
    by_words = titles(authority, Mode.LEXICAL)
    assert by_queryset == by_meaning == by_words
    return by_queryset


def titles(authority: Authority, mode: Mode) -> set[str]:
    """The titles that a search in one mode finds."""
    return {hit.title for hit in search(authority, query=WORD, limit=50, mode=mode).hits}


def make_document(source: Source, title: str, **fields: str) -> Document:
    """An indexed document with one passage that holds WORD."""
    return index_document(source, title=title, **fields)


@pytest.fixture
def page(library: Library) -> Document:
    """A document in the library's source."""
    return make_document(library.source, "Page")


def test_nothing_is_seen_without_a_grant(library: Library, page: Document) -> None:
    assert seen(library.as_member) == set()


def test_a_grant_on_the_source_shows_its_documents(library: Library, page: Document) -> None:
    factories.grant(library.member, Verb.VIEW, library.source)
    assert seen(library.as_member) == {"Page"}


def test_a_grant_on_the_document_shows_that_document_only(library: Library, page: Document) -> None:
    make_document(library.source, "Other")
    factories.grant(library.member, Verb.VIEW, page)
    assert seen(library.as_member) == {"Page"}
    assert list(visible_sources(library.as_member)) == []


def test_a_grant_on_the_project_shows_its_sources(library: Library) -> None:
    project = factories.make_project(library.organization)
    make_document(factories.make_source(library.organization, project=project), "In project")
    factories.grant(library.member, Verb.VIEW, project)
    assert seen(library.as_member) == {"In project"}


def test_a_team_grant_on_the_project_shows_its_sources(library: Library) -> None:
    project = factories.make_project(library.organization)
    make_document(factories.make_source(library.organization, project=project), "In project")
    team = factories.make_team(library.organization, library.member)
    factories.grant(team, Verb.VIEW, project)
    assert seen(library.as_member) == {"In project"}


def test_an_archived_project_shows_nothing(library: Library) -> None:
    project = factories.make_project(library.organization, archived_at=now())
    make_document(factories.make_source(library.organization, project=project), "In project")
    factories.grant(library.member, Verb.VIEW, project)
    assert seen(library.as_member) == set()


def test_a_team_grant_counts_for_its_members(library: Library, page: Document) -> None:
    factories.grant(
        factories.make_team(library.organization, library.member), Verb.VIEW, library.source
    )
    assert seen(library.as_member) == {"Page"}


def test_a_team_grant_on_a_document_counts_for_its_members(
    library: Library, page: Document
) -> None:
    factories.grant(factories.make_team(library.organization, library.member), Verb.VIEW, page)
    assert seen(library.as_member) == {"Page"}


def test_a_parent_teams_grant_counts_for_members_of_teams_within_it(
    library: Library, page: Document
) -> None:
    top = factories.make_team(library.organization)
    middle = factories.make_team(library.organization, parent=top)
    factories.make_team(library.organization, library.member, parent=middle)
    factories.grant(top, Verb.VIEW, library.source)
    assert seen(library.as_member) == {"Page"}


def test_a_nested_teams_grant_does_not_count_for_the_parents_members(
    library: Library, page: Document
) -> None:
    top = factories.make_team(library.organization, library.member)
    factories.grant(
        factories.make_team(library.organization, parent=top), Verb.VIEW, library.source
    )
    assert seen(library.as_member) == set()


def test_a_grant_to_everyone_counts_for_every_member(library: Library, page: Document) -> None:
    factories.grant(factories.everyone(library.organization), Verb.VIEW, library.source)
    assert seen(library.as_member) == {"Page"}


def test_a_grant_to_everyone_is_not_for_another_organisations_members(
    library: Library, page: Document
) -> None:
    factories.grant(factories.everyone(library.organization), Verb.VIEW, library.source)
    foreigner = factories.make_member(factories.make_organization())
    assert seen(factories.authority_of(foreigner)) == set()


def test_a_person_in_two_organisations_sees_each_ones_own_only(
    library: Library, page: Document
) -> None:
    factories.grant(library.member, Verb.VIEW, library.source)
    other = factories.make_organization()
    place = factories.make_member(other, user=library.member.user)
    source = factories.make_source(other)
    make_document(source, "Elsewhere")
    factories.grant(place, Verb.VIEW, source)
    assert seen(library.as_member) == {"Page"}
    assert seen(factories.authority_of(place)) == {"Elsewhere"}


@pytest.mark.parametrize("role", [Role.OWNER, Role.ADMIN, Role.AUDITOR])
def test_no_role_opens_content(library: Library, page: Document, role: Role) -> None:
    assert seen(factories.authority_of(factories.make_member(library.organization, role=role))) == (
        set()
    )


def test_an_expired_grant_shows_nothing(library: Library, page: Document) -> None:
    for obj in (library.source, page):
        store_grant(
            library.member.user,
            Verb.VIEW,
            obj,
            granted_by_id=None,
            expires_at=now() - timedelta(seconds=1),
        )
    assert seen(library.as_member) == set()


def test_a_grant_with_its_end_in_the_future_counts(library: Library, page: Document) -> None:
    store_grant(
        library.member.user,
        Verb.VIEW,
        library.source,
        granted_by_id=None,
        expires_at=now() + timedelta(hours=1),
    )
    assert seen(library.as_member) == {"Page"}


def test_a_restricted_document_is_not_shown_by_its_sources_grant(library: Library) -> None:
    make_document(library.source, "Restricted", acl_state=Document.AclState.RESTRICTED)
    factories.grant(library.member, Verb.MANAGE, library.source)
    assert seen(library.as_member) == set()


def test_a_restricted_document_is_shown_by_its_own_grant(library: Library) -> None:
    restricted = make_document(library.source, "Restricted", acl_state=Document.AclState.RESTRICTED)
    factories.grant(library.member, Verb.VIEW, restricted)
    assert seen(library.as_member) == {"Restricted"}


def test_a_document_of_unknown_rights_is_shown_to_nobody(library: Library) -> None:
    unknown = make_document(library.source, "Unknown", acl_state=Document.AclState.UNKNOWN)
    factories.grant(library.member, Verb.MANAGE, library.source)
    factories.grant(library.member, Verb.MANAGE, unknown)
    assert seen(library.as_member) == set()


def test_an_archived_source_hides_its_documents(library: Library, page: Document) -> None:
    factories.grant(library.member, Verb.VIEW, library.source)
    factories.grant(library.member, Verb.VIEW, page)
    Source.objects.filter(pk=library.source.pk).update(archived_at=now())
    assert seen(library.as_member) == set()


def test_a_deleted_document_is_shown_to_nobody(library: Library, page: Document) -> None:
    factories.grant(library.member, Verb.VIEW, library.source)
    factories.grant(library.member, Verb.VIEW, page)
    Document.objects.filter(pk=page.pk).update(deleted_at=now())
    assert seen(library.as_member) == set()


def test_a_suspended_membership_sees_nothing(library: Library, page: Document) -> None:
    factories.grant(library.member, Verb.VIEW, library.source)
    factories.grant(library.member, Verb.VIEW, page)
    authority = library.as_member
    Membership.objects.filter(pk=library.member.pk).update(state=Membership.State.SUSPENDED)
    assert seen(authority) == set()


def test_a_suspended_organisation_sees_nothing(library: Library, page: Document) -> None:
    factories.grant(library.member, Verb.VIEW, library.source)
    authority = library.as_member
    Organization.objects.filter(pk=library.organization.pk).update(state="suspended")
    assert seen(authority) == set()


def test_a_narrowing_takes_away_other_sources(library: Library, page: Document) -> None:
    other = factories.make_source(library.organization)
    single = make_document(other, "Elsewhere")
    factories.grant(library.member, Verb.VIEW, library.source)
    factories.grant(library.member, Verb.VIEW, single)
    narrowed = library.as_member.narrowed(Narrowing(source_keys=frozenset({library.source.key})))
    assert seen(library.as_member) == {"Page", "Elsewhere"}
    assert seen(narrowed) == {"Page"}
    assert seen(library.as_member.narrowed(Narrowing(source_keys=frozenset()))) == set()


def test_K03_an_agents_sources_give_a_member_nothing_they_may_not_see(
    library: Library, page: Document
) -> None:
    narrowed = library.as_member.narrowed(Narrowing(source_keys=frozenset({library.source.key})))
    result = search(narrowed, query="what does the page say about 4471?")
    assert (result.hits, result.visible) == ((), False)
    assert seen(narrowed) == set()


@pytest.mark.parametrize(
    ("stored", "answers_for"),
    [
        (Verb.VIEW, {"view"}),
        (Verb.USE, {"view", "use"}),
        (Verb.CHANGE, {"view", "use", "change"}),
        (Verb.SHARE, {"view", "use", "share"}),
        (Verb.MANAGE, {"view", "use", "change", "share", "manage"}),
    ],
)
def test_a_stored_verb_answers_for_what_it_implies(
    library: Library, page: Document, stored: Verb, answers_for: set[str]
) -> None:
    factories.grant(library.member, stored, library.source)
    held = {verb.value for verb in Verb if visible_documents(library.as_member, verb).exists()}
    assert held == answers_for
    assert held == {
        verb.value for verb in Verb if visible_sources(library.as_member, verb).exists()
    }


def test_what_is_not_visible_is_missing_and_what_is_not_allowed_is_denied(
    library: Library, page: Document
) -> None:
    with pytest.raises(Missing):
        get_document(library.as_member, page.pk)
    with pytest.raises(Missing):
        get_source(library.as_member, library.source.pk, Verb.CHANGE)
    factories.grant(library.member, Verb.VIEW, library.source)
    assert get_document(library.as_member, str(page.pk)) == page
    with pytest.raises(Denied):
        get_document(library.as_member, page.pk, Verb.CHANGE)
    with pytest.raises(Missing):
        get_document(library.as_member, "not an id")


def test_a_changed_state_reaches_the_index_with_the_row(library: Library, page: Document) -> None:
    factories.grant(library.member, Verb.VIEW, library.source)
    page.acl_state = Document.AclState.RESTRICTED
    page.save()
    set_inheritance(page)
    assert seen(library.as_member) == set()


def test_leaving_a_team_takes_effect_at_once(library: Library, page: Document) -> None:
    team = factories.make_team(library.organization, library.member)
    factories.grant(team, Verb.VIEW, library.source)
    assert seen(library.as_member) == {"Page"}
    Team.objects.get(pk=team.pk).team_memberships.all().delete()
    assert seen(library.as_member) == set()
