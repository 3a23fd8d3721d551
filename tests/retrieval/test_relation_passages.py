"""Which passages the functions of the search bring, each asked alone: by meaning, by words from the
tail and from folded postings, and words like those that were searched for.

See `test_relation_functions` for whose grants count.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from accounts.permissions import Verb
from kaizen.kernel.clock import now
from retrieval.ingest.index import set_inheritance
from retrieval.models import Document, EmbeddingSpace
from retrieval.postings import fold_organization
from tests import factories
from tests.retrieval.conftest import Library
from tests.retrieval.probes import (
    MEANING_WAYS,
    by_meaning,
    by_words,
    matching,
    scores,
    similar,
    unkept,
)
from tests.retrieval.test_relation_functions import place
from tests.retrieval.worlds import index_document

pytestmark = pytest.mark.django_db
TAIL, POSTINGS = "tail", "postings"
each_branch = pytest.mark.parametrize("branch", ["source", "document"])
each_way = pytest.mark.parametrize("way", [*MEANING_WAYS, TAIL, POSTINGS])
each_store = pytest.mark.parametrize("way", [TAIL, POSTINGS])


def brought(library: Library, way: str, **more: Any) -> list[str]:
    """The titles of the passages that one way brings the member, as often as it does."""
    if way in MEANING_WAYS:
        return by_meaning(library.as_member, way, **more)
    if way == POSTINGS:
        fold_organization(library.organization.key)
    return by_words(library.as_member, **more)


# --- what fits a filter


def test_a_filter_opens_nothing(library: Library) -> None:
    """One source is granted, one restricted document in another; nothing else fits."""
    here = place(library.organization, "source")
    index_document(here.source, title="Restricted", acl_state="restricted")
    there = place(library.organization, "source", name="there")
    single = index_document(there.source, title="Single", acl_state="restricted")
    factories.grant(library.member, Verb.VIEW, here.source)
    factories.grant(library.member, Verb.VIEW, single)
    assert matching(library.as_member) == ["Document here", "Single"]


@each_branch
def test_a_deleted_document_fits_no_filter(library: Library, branch: str) -> None:
    here = place(library.organization, branch)
    factories.grant(library.member, Verb.VIEW, here.obj)
    assert matching(library.as_member) == ["Document here"]
    Document.objects.filter(pk=here.document.pk).update(deleted_at=now())
    assert matching(library.as_member) == []


def test_a_document_filed_under_another_organisation_fits_no_filter(library: Library) -> None:
    here = place(library.organization, "source")
    factories.grant(library.member, Verb.VIEW, here.source)
    with unkept():
        other = factories.make_organization()
        Document.objects.filter(pk=here.document.pk).update(organization=other)
        assert matching(library.as_member) == []


@pytest.mark.parametrize(
    ("name", "fits", "misses"),
    [
        ("types", ["text/a"], ["text/b"]),
        ("authors", ["Ada"], ["Bob"]),
        ("tags", ["x", "z"], ["z"]),
        ("after", "2030-01-01T00:00:00Z", "2030-01-03T00:00:00Z"),
        ("before", "2030-01-03T00:00:00Z", "2030-01-01T00:00:00Z"),
    ],
)
def test_a_filter_takes_away_what_does_not_fit(
    library: Library, name: str, fits: object, misses: object
) -> None:
    here = place(library.organization, "source")
    factories.grant(library.member, Verb.VIEW, here.source)
    Document.objects.filter(pk=here.document.pk).update(
        media_type="text/a", author="Ada", tags=["x", "y"], dated_at="2030-01-02T00:00:00Z"
    )
    assert matching(library.as_member, {name: fits}) == ["Document here"]
    assert matching(library.as_member, {name: misses}) == []


# --- passages


@each_way
@each_branch
def test_one_grant_opens_no_other_passage(library: Library, way: str, branch: str) -> None:
    here = place(library.organization, branch)
    place(library.organization, branch, name="there")
    if branch == "document":
        index_document(here.source, title="Beside")
    assert brought(library, way) == []
    factories.grant(library.member, Verb.VIEW, here.obj)
    assert brought(library, way) == ["Document here"]


@pytest.mark.parametrize(
    ("way", "column"),
    [
        *((way, "organization_key") for way in (*MEANING_WAYS, TAIL, POSTINGS)),
        *((way, "space_key") for way in MEANING_WAYS),  # Words lie in no space.
    ],
)
@each_branch
def test_rows_of_another_organisation_or_space_are_not_read(
    library: Library, way: str, branch: str, column: str
) -> None:
    here = place(library.organization, branch)
    index_document(library.source, title="Not granted")
    factories.grant(library.member, Verb.VIEW, here.obj)
    other = factories.make_organization()
    index_document(factories.make_source(other), title="Elsewhere")
    keys = {
        "organization_key": other.key,
        "space_key": EmbeddingSpace.objects.get(organization=other).key,
    }
    assert brought(library, way) == ["Document here"]
    refile(here.document, way, column, keys[column])
    assert brought(library, way) == []


@each_way
def test_a_restricted_passage_does_not_follow_its_source(library: Library, way: str) -> None:
    here = place(library.organization, "source")
    index_document(here.source, title="Restricted", acl_state="restricted")
    factories.grant(library.member, Verb.VIEW, here.source)
    assert brought(library, way) == ["Document here"]


@each_way
def test_a_passage_that_is_open_in_two_ways_comes_once(library: Library, way: str) -> None:
    here = place(library.organization, "source")
    own = index_document(here.source, title="Restricted", acl_state="restricted")
    for obj in (here.source, here.document, own):
        factories.grant(library.member, Verb.VIEW, obj)
    assert brought(library, way) == ["Document here", "Restricted"]


@each_store
def test_a_passage_that_is_open_in_two_ways_counts_once(library: Library, way: str) -> None:
    here = place(library.organization, "source")
    factories.grant(library.member, Verb.VIEW, here.source)
    assert brought(library, way) == ["Document here"]
    before = scores(library.as_member)
    factories.grant(library.member, Verb.VIEW, here.document)
    assert scores(library.as_member) == before


@each_way
@each_branch
def test_a_filter_holds_in_every_way(library: Library, way: str, branch: str) -> None:
    here = place(library.organization, branch)
    factories.grant(library.member, Verb.VIEW, here.obj)
    Document.objects.filter(pk=here.document.pk).update(author="Ada")
    assert brought(library, way, filters={"authors": ["Ada"]}) == ["Document here"]
    assert brought(library, way, filters={"authors": ["Bob"]}) == []


@each_way
@each_branch
def test_excluded_words_hold_in_every_way(library: Library, way: str, branch: str) -> None:
    here = place(library.organization, branch)
    factories.grant(library.member, Verb.VIEW, here.obj)
    assert brought(library, way, without=["harbour"]) == ["Document here"]
    assert brought(library, way, without=["keeper"]) == []


def test_what_was_restricted_after_it_was_folded_is_gone(library: Library) -> None:
    """Its posting still says that it follows its source; its grave says that it is dead."""
    here = place(library.organization, "source")
    factories.grant(library.member, Verb.VIEW, here.source)
    assert brought(library, POSTINGS) == ["Document here"]
    restrict(here.document)
    assert by_words(library.as_member) == []


# --- words like another


@each_store
@each_branch
def test_words_of_passages_that_are_not_open_are_not_offered(
    library: Library, way: str, branch: str
) -> None:
    here = place(library.organization, branch, of="marigold")
    index_document(
        here.source if branch == "document" else library.source, title="x", of="marigolq"
    )
    assert offered(library, way) == []
    factories.grant(library.member, Verb.VIEW, here.obj)
    assert offered(library, way) == ["marigold"]


@each_store
def test_words_of_a_restricted_document_are_not_offered_through_its_source(
    library: Library, way: str
) -> None:
    here = place(library.organization, "source", of="marigold")
    own = index_document(here.source, title="x", acl_state="restricted", of="marigolq")
    factories.grant(library.member, Verb.VIEW, here.source)
    assert offered(library, way) == ["marigold"]
    factories.grant(library.member, Verb.VIEW, own)
    assert offered(library, way) == ["marigold", "marigolq"]


@each_store
def test_words_of_another_organisations_rows_are_not_offered(library: Library, way: str) -> None:
    here = place(library.organization, "source", of="marigold")
    factories.grant(library.member, Verb.VIEW, here.source)
    assert offered(library, way) == ["marigold"]
    refile(here.document, way, "organization_key", factories.make_organization().key)
    assert offered(library, way) == []


def test_words_of_what_was_restricted_after_it_was_folded_are_not_offered(
    library: Library,
) -> None:
    here = place(library.organization, "source", of="marigold")
    gone = index_document(here.source, title="x", of="marigolq")
    factories.grant(library.member, Verb.VIEW, here.source)
    assert offered(library, POSTINGS) == ["marigold", "marigolq"]
    restrict(gone)
    assert sorted(similar(library.as_member, "marigolt")) == ["marigold"]


def offered(library: Library, way: str) -> list[str]:
    """What is offered for a word that stands nowhere."""
    if way == POSTINGS:
        fold_organization(library.organization.key)
    return sorted(similar(library.as_member, "marigolt"))


def restrict(document: Document) -> None:
    """Restrict a document as the product does, without a grant of its own."""
    document.acl_state = Document.AclState.RESTRICTED
    document.save(update_fields=["acl_state"])
    set_inheritance(document)


_REFILE = {
    TAIL: "UPDATE retrieval_lexeme SET {column} = %s WHERE document_key = %s",
    POSTINGS: "UPDATE retrieval_posting SET {column} = %s WHERE %s = ANY (documents)",
}
_REFILE_VECTORS = "UPDATE retrieval_vector SET {column} = %s WHERE document_key = %s"


def refile(document: Document, way: str, column: str, key: int) -> None:
    """Write another key into the index rows of a document."""
    sql = _REFILE.get(way, _REFILE_VECTORS).format(column=column)
    with connection.cursor() as cursor:
        cursor.execute(sql, [key, document.key])
