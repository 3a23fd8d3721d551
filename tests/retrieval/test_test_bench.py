"""Seeing as a member: their live rights, nobody's words but one's own, written down under the name
of who looked.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import InternalError, transaction
from django.test import Client

from accounts.models import Membership, Role
from accounts.permissions import Verb, delete_grant
from audit.models import AuditEvent
from kaizen.kernel.errors import Denied, Invalid, Missing
from retrieval.acl import visible_documents
from retrieval.models import Source
from retrieval.quality.see_as import find_persona, look_as, reading_only, see_as
from retrieval.search import Mode, query_digest, search
from tests import factories
from tests.architecture.sources import calls_of
from tests.retrieval.conftest import Library

pytestmark = pytest.mark.django_db
OTTER = "# Otters\n\nThe otter swims in the quarry lake at night."


def seen(library: Library, query: str = "otter", **more: Any) -> Any:
    return see_as(library.as_owner, membership_id=library.member.pk, query=query, **more)


def events(action: str) -> list[AuditEvent]:
    return list(AuditEvent.objects.filter(action=action).order_by("at"))


def test_an_admin_finds_what_the_member_finds(library: Library) -> None:
    library.add(OTTER, "otter.md")
    library.add("# Badgers\n\nThe badger sleeps.", "badger.md")
    factories.grant(library.member, Verb.VIEW, library.source)
    own = search(library.as_member, query="otter", limit=50)
    sight = seen(library, limit=50)
    assert [hit.document_id for hit in sight.hits] == [hit.document_id for hit in own.hits]
    assert [(hit.place, hit.lexical_rank, hit.vector_rank) for hit in sight.hits] == [
        (place, hit.lexical_rank, hit.vector_rank) for place, hit in enumerate(own.hits, start=1)
    ]
    assert sight.hits[0].lexical_rank == 1
    assert sight.result is not None
    assert (sight.result.trace.plan, sight.result.trace.visible) == ("exact", 2)


def test_a_member_without_grants_is_seen_to_find_nothing(library: Library) -> None:
    library.add(OTTER)
    assert len(search(library.as_owner, query="otter").hits) == 1
    sight = seen(library)
    assert sight.hits == ()
    assert sight.result is not None
    assert not sight.result.visible


def test_rights_are_those_of_this_moment(library: Library) -> None:
    library.add(OTTER)
    factories.grant(library.member, Verb.VIEW, library.source)
    assert len(seen(library).hits) == 1
    delete_grant(library.member.user, Verb.VIEW, library.source)
    assert seen(library).hits == ()


def test_the_text_is_only_shown_where_the_admin_holds_a_grant(library: Library) -> None:
    theirs = factories.make_source(library.organization, name="Payroll")
    factories.grant(library.owner, Verb.MANAGE, theirs)
    library.add("# Secret heading\n\nThe otter earns 7,711 a month.", "pay.md", source=theirs)
    library.add(OTTER, "otter.md")
    for source in (theirs, library.source):
        factories.grant(library.member, Verb.VIEW, source)
    delete_grant(library.owner.user, Verb.MANAGE, theirs)
    by_source = {hit.source_name: hit for hit in seen(library).hits}
    shown, hidden = by_source["Library"], by_source["Payroll"]
    assert shown.is_shown
    assert "quarry lake" in shown.text
    assert shown.marks
    assert not hidden.is_shown
    assert (hidden.text, hidden.heading_path, hidden.page, hidden.marks) == ("", (), None, ())
    assert hidden.title == "Secret heading"
    assert seen(library).withheld == 1


def test_a_look_stands_under_the_admins_name_and_not_the_members(library: Library) -> None:
    library.add(OTTER)
    factories.grant(library.member, Verb.VIEW, library.source)
    seen(library)
    (event,) = events("retrieval.seen_as")
    assert event.actor_id == library.owner.user.public_id
    assert (event.object_type, event.object_id) == ("membership", str(library.member.pk))
    assert event.data == {
        "member_is_active": True,
        "query_digest": query_digest("otter"),
        "hits": 1,
        "mode": "hybrid",
    }
    assert event.personal_digest != ""
    assert events("retrieval.searched") == []
    assert not AuditEvent.objects.filter(actor_id=library.member.user.public_id).exists()


@pytest.mark.parametrize("state", [Membership.State.SUSPENDED, Membership.State.INVITED])
def test_a_member_who_is_not_active_sees_nothing(library: Library, state: str) -> None:
    library.add(OTTER)
    factories.grant(library.member, Verb.VIEW, library.source)
    Membership.objects.filter(pk=library.member.pk).update(state=state)
    sight = seen(library)
    assert (sight.result, sight.hits) == (None, ())
    (event,) = events("retrieval.seen_as")
    assert event.data["member_is_active"] is False


def test_a_deactivated_person_sees_nothing(library: Library) -> None:
    library.member.user.is_active = False
    library.member.user.save()
    assert seen(library).result is None


@pytest.mark.parametrize("role", [Role.MEMBER, Role.AUDITOR])
def test_only_who_configures_may_look(library: Library, role: Role) -> None:
    other = factories.authority_of(factories.make_member(library.organization, role=role))
    with pytest.raises(Denied):
        see_as(other, membership_id=library.member.pk, query="otter")
    with pytest.raises(Denied):
        look_as(other, membership=library.member, query="otter", limit=10)
    assert not AuditEvent.objects.filter(action="retrieval.seen_as").exists()


def test_a_member_of_another_organisation_is_not_there(library: Library) -> None:
    stranger = factories.make_member(factories.make_organization())
    for unknown in (stranger.pk, "nonsense"):
        with pytest.raises(Missing):
            see_as(library.as_owner, membership_id=unknown, query="otter")


def test_a_blank_question_is_refused(library: Library) -> None:
    with pytest.raises(Invalid):
        seen(library, " ")


def test_a_person_in_two_organisations_is_seen_in_this_one(library: Library) -> None:
    elsewhere = factories.make_organization()
    factories.make_member(elsewhere, user=library.member.user)
    persona = find_persona(library.as_owner, library.member)
    assert persona is not None
    assert persona.organization_id == library.organization.pk


def test_one_branch_alone_can_be_tried(library: Library) -> None:
    library.add(OTTER)
    factories.grant(library.member, Verb.VIEW, library.source)
    (hit,) = seen(library, mode=Mode.LEXICAL).hits
    assert (hit.lexical_rank, hit.vector_rank) == (1, None)
    (hit,) = seen(library, mode=Mode.SEMANTIC).hits
    assert (hit.lexical_rank, hit.vector_rank) == (None, 1)


def test_the_database_refuses_to_write_while_somebody_is_seen_as(library: Library) -> None:
    with pytest.raises(InternalError, match="read-only"), transaction.atomic(), reading_only():
        Source.objects.filter(pk=library.source.pk).update(name="changed")
    Source.objects.filter(pk=library.source.pk).update(name="changed")
    library.source.refresh_from_db()
    assert library.source.name == "changed"


def test_nothing_but_the_test_bench_searches_without_an_event_of_the_searcher() -> None:
    callers = {str(path) for path, _ in calls_of("search_unrecorded")}
    assert callers == {"retrieval/search.py", "retrieval/quality/see_as.py"}
    assert {str(path) for path, _ in calls_of("look_as")} == {
        "retrieval/quality/see_as.py",
        "retrieval/quality/score_work.py",
    }


# --- the page


@pytest.fixture
def page(client: Client, library: Library) -> str:
    client.force_login(library.owner.user)
    return f"/o/{library.organization.slug}/admin/test-bench/"


def form(library: Library, **more: Any) -> dict[str, Any]:
    fields = {"member": library.member.pk, "query": "otter", "mode": "hybrid", "limit": "10"}
    return {**fields, **more}


def test_the_page_shows_ranks_plan_and_text(client: Client, library: Library, page: str) -> None:
    library.add(OTTER)
    factories.grant(library.member, Verb.VIEW, library.source)
    assert "Search as this person" in client.get(page).content.decode()
    answer = client.post(page, form(library))
    text = answer.content.decode()
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    assert "The <mark>otter</mark> swims in the quarry lake" in text
    assert "exact: every vector that they may see was compared" in text
    assert re.search(r"words [\d.]+ ms, meaning [\d.]+ ms, all in all [\d.]+ ms", text)


def test_the_page_says_where_text_is_not_shown(client: Client, library: Library, page: str) -> None:
    library.add(OTTER)
    factories.grant(library.member, Verb.VIEW, library.source)
    delete_grant(library.owner.user, Verb.MANAGE, library.source)
    assert not visible_documents(library.as_owner).exists()
    text = client.post(page, form(library)).content.decode()
    assert "Text not shown: you have no grant on this document." in text
    assert "quarry" not in text


def test_asking_by_a_link_looks_at_nothing(client: Client, library: Library, page: str) -> None:
    client.get(page, form(library))
    assert events("retrieval.seen_as") == []


def test_the_page_offers_nobody_of_another_organisation(
    client: Client, library: Library, page: str
) -> None:
    stranger = factories.make_member(factories.make_organization())
    answer = client.post(page, form(library, member=stranger.pk))
    assert answer.status_code == 200
    assert 'id="seen"' not in answer.content.decode()
    assert stranger.user.email not in answer.content.decode()
    assert events("retrieval.seen_as") == []


@pytest.mark.parametrize(
    ("role", "status"), [(Role.ADMIN, 200), (Role.AUDITOR, 403), (Role.MEMBER, 404)]
)
def test_who_may_open_the_page(
    client: Client, library: Library, page: str, role: Role, status: int
) -> None:
    client.force_login(factories.make_member(library.organization, role=role).user)
    assert client.get(page).status_code == status
    assert client.post(page, form(library)).status_code == status
