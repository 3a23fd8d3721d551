"""Whether a word counts as found: only where the caller may read it. Beyond that, near misses are
looked for, so a hidden passage must not decide it.
"""

from __future__ import annotations

import pytest

from accounts.permissions import Verb
from retrieval.postings import fold_organization
from retrieval.search import Mode, search
from tests import factories
from tests.retrieval.conftest import Library
from tests.retrieval.probes import unkept
from tests.retrieval.test_relation_passages import POSTINGS, place, refile, restrict
from tests.retrieval.worlds import index_document

pytestmark = pytest.mark.django_db
WORDS = "marigold"


def found(library: Library) -> bool:
    """Whether the word counts as found for the member, once everything is folded."""
    fold_organization(library.organization.key)
    return WORDS in search(library.as_member, query=WORDS, mode=Mode.LEXICAL).trace.found


@pytest.mark.parametrize("branch", ["source", "document"])
def test_a_word_is_found_where_it_is_open_and_nowhere_else(library: Library, branch: str) -> None:
    here = place(library.organization, branch, of="another")
    hidden = here.source if branch == "document" else library.source
    other = index_document(hidden, title="x", of=WORDS)
    factories.grant(library.member, Verb.VIEW, here.obj)
    assert not found(library)
    factories.grant(library.member, Verb.VIEW, hidden if branch == "source" else other)
    assert found(library)


def test_a_word_of_a_restricted_document_is_not_found_through_its_source(library: Library) -> None:
    here = place(library.organization, "source", of="another")
    index_document(here.source, title="x", acl_state="restricted", of=WORDS)
    factories.grant(library.member, Verb.VIEW, here.source)
    assert not found(library)


def test_a_word_of_another_organisations_rows_is_not_found(library: Library) -> None:
    here = place(library.organization, "source", of=WORDS)
    factories.grant(library.member, Verb.VIEW, here.source)
    assert found(library)
    refile(here.document, POSTINGS, "organization_key", factories.make_organization().key)
    assert not found(library)


def test_a_word_of_what_was_restricted_after_it_was_folded_is_not_found(library: Library) -> None:
    here = place(library.organization, "source", of="another")
    gone = index_document(here.source, title="x", of=WORDS)
    factories.grant(library.member, Verb.VIEW, here.source)
    assert found(library)
    with unkept():
        restrict(gone)
        result = search(library.as_member, query=WORDS, mode=Mode.LEXICAL)
        assert WORDS not in result.trace.found
