"""The search page: filters stand in the address, counts show only what may be seen."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from accounts.permissions import Verb
from retrieval.models import Document
from tests import factories
from tests.retrieval.conftest import Library
from tests.retrieval.worlds import WORD, index_document

pytestmark = pytest.mark.django_db


@pytest.fixture
def page(library: Library, client: Client):
    """Opens the page as the member, who sees the source."""
    factories.grant(library.member, Verb.VIEW, library.source)
    client.force_login(library.member.user)

    def get(**query: object):
        return client.get(f"/o/{library.organization.slug}/search/", query)

    return get


def add(library: Library, title: str, **fields: object) -> Document:
    document = index_document(library.source, title=title, of=title)
    Document.objects.filter(pk=document.pk).update(**fields)
    return document


def chips(response: object) -> dict[str, list[tuple[str, int | None, bool]]]:
    groups = response.context["groups"]  # type: ignore[attr-defined]
    return {g.name: [(c.label, c.count, c.active) for c in g.chips] for g in groups}


def test_before_the_first_search_sources_are_offered(library: Library, page) -> None:
    factories.make_source(library.organization, name="Hidden")
    assert chips(page()) == {"source": [("Library", None, False)]}


def test_found_documents_are_counted_by_what_they_have(library: Library, page) -> None:
    add(library, "One", media_type="application/pdf", author="Mia", tags=["hr"])
    add(library, "Two", media_type="text/markdown", author="Mia", tags=["hr", "travel"])
    response = page(q=WORD)
    assert response.status_code == 200
    assert chips(response) == {
        "type": [("Notes", 1, False), ("PDF", 1, False)],
        "tag": [("hr", 2, False), ("travel", 1, False)],
    }


def test_a_chip_switches_its_filter_on_and_off(library: Library, page) -> None:
    add(library, "One", author="Mia", tags=["hr"])
    add(library, "Two", author="Noa", tags=["hr"])
    (authors,) = [g for g in page(q=WORD).context["groups"] if g.name == "author"]
    address = authors.chips[0].address
    assert address == f"?q={WORD}&author=Mia"
    narrowed = page(q=WORD, author="Mia")
    assert [hit.title for hit in narrowed.context["result"].hits] == ["One"]
    (authors,) = [g for g in narrowed.context["groups"] if g.name == "author"]
    assert (authors.chips[0].active, authors.chips[0].address) == (True, f"?q={WORD}")


def test_a_filter_without_results_can_still_be_taken_off(library: Library, page) -> None:
    add(library, "One", author="Mia")
    response = page(q=WORD, author="Nobody")
    assert response.context["result"].hits == ()
    assert ("Nobody", 0, True) in chips(response)["author"]
    assert b"Search without filters" in response.content


def test_a_source_that_may_not_be_seen_is_like_one_that_does_not_exist(
    library: Library, page
) -> None:
    hidden = factories.make_source(library.organization, name="Payroll")
    index_document(hidden, title="Salaries")
    answers = []
    for source in (str(hidden.pk), "01a22f00-0000-7000-8000-000000000000"):
        content = page(q=WORD, source=source).content.replace(source.encode(), b"#")
        answers.append(re.sub(rb'(csrf[^"]*" (value|content)=")[^"]+', rb"\1", content))
    assert answers[0] == answers[1]
    assert b"Payroll" not in answers[0]


def test_a_day_that_is_none_is_explained_and_the_question_kept(page) -> None:
    response = page(q=WORD, after="31.3.2026")
    assert response.status_code == 400
    assert b"is not a day" in response.content
    assert WORD.encode() in response.content


def test_the_page_costs_the_same_for_few_and_many_results(
    library: Library, page, django_assert_max_num_queries
) -> None:
    for number in range(12):
        add(library, f"Number {number}", author=f"Author {number}")
    page(q=WORD)
    with django_assert_max_num_queries(16):
        page(q=WORD, author="Author 3")
