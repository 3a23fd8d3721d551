"""Search: one permissioned statement, any query, honest about what it could not do."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.authority import Authority
from accounts.permissions import Verb
from audit.models import AuditEvent, AuditPersonal
from kaizen.kernel.errors import Invalid, Unavailable
from retrieval.documents import delete_document, set_acl_state
from retrieval.embedders.contract import Vectors
from retrieval.embedders.local import LocalEmbedder
from retrieval.models import Source
from retrieval.query import Filters
from retrieval.search import Mode, query_digest, search
from tests import factories
from tests.retrieval.conftest import Library
from tests.retrieval.worlds import WORD, index_document

LEAVE = """# Leave

Everybody has thirty days of holiday a year.

## When you fall ill

Call the duty office on extension 4471 before nine. Form INV-4471-b is for the doctor.
"""
CASE_QUERIES = ["foo & | bar", "C++", "'", '"open', ":*", "!!", "<->", "🚀"]


class BrokenEmbedder(LocalEmbedder):
    """An embedder whose weights are missing."""

    def embed_query(self, text: str) -> Vectors:
        raise Unavailable("The local embedding model is incomplete.")


def found(authority: Authority, query: str, mode: Mode = Mode.LEXICAL) -> list[str]:
    """The titles of a search, best first."""
    return [hit.title for hit in search(authority, query=query, mode=mode).hits]


def test_a_question_finds_the_passage_that_answers_it(library: Library) -> None:
    document = library.add(LEAVE, "leave.md")
    library.add("# Coffee\n\nThe machine stands on the second floor.", "coffee.md")
    hit = search(library.as_owner, query="Whom do I ring when I am sick?").hits[0]
    assert (hit.document_id, hit.title) == (document.pk, "Leave")
    assert hit.heading_path == ("Leave", "When you fall ill")
    assert hit.text.startswith("Call the duty office on extension 4471")


def test_words_are_marked_in_the_text(library: Library) -> None:
    library.add(LEAVE, "leave.md")
    hit = search(library.as_owner, query="how many holidays?", mode=Mode.LEXICAL).hits[0]
    assert [hit.text[start:end] for start, end in hit.marks] == ["holiday"]


def test_a_number_inside_an_identifier_is_found(library: Library) -> None:
    library.add("Form INV-4471-b is for the doctor.", "form.md")
    assert found(library.as_owner, "4471") == ["form"]
    assert found(library.as_owner, "inv-4471-B") == ["form"]


def test_accents_and_case_do_not_matter(library: Library) -> None:
    library.add("Der Schlüssel liegt bei Frau MÜLLER.", "key.md")
    assert found(library.as_owner, "muller schlussel") == ["key"]


def test_K36_words_inside_runs_of_script_are_found(library: Library, shared_data: Path) -> None:
    library.add((shared_data / "cases" / "cjk-report.md").read_bytes(), "cjk-report.md")
    library.add("# Other\n\nNothing of the kind.", "other.md")
    for query in ("今月", "売上", "上海", "번역"):
        hits = search(library.as_owner, query=query, mode=Mode.LEXICAL).hits
        assert {hit.path or hit.document_id for hit in hits} != set(), query
        assert "other" not in {hit.title.lower() for hit in hits}, query


@pytest.mark.parametrize("query", CASE_QUERIES)
def test_K39_any_query_is_answered(library: Library, query: str) -> None:
    library.add(LEAVE, "leave.md")
    result = search(library.as_owner, query=query)
    assert len(result.hits) == 2


@pytest.mark.parametrize("query", [" ", "", "\x00\u200b", "a" * 10_000])
def test_K39_a_blank_or_endless_query_is_refused(library: Library, query: str) -> None:
    with pytest.raises(Invalid):
        search(library.as_owner, query=query.replace("\x00", " "))


@pytest.mark.parametrize("query", ["🚀", "what is the"])
def test_K39_a_query_without_words_is_searched_by_meaning(library: Library, query: str) -> None:
    library.add(LEAVE, "leave.md")
    result = search(library.as_owner, query=query)
    assert (result.mode, len(result.hits)) == (Mode.SEMANTIC, 2)
    assert {hit.lexical_rank for hit in result.hits} == {None}


def test_a_query_may_hold_text_that_cannot_be_stored(library: Library) -> None:
    library.add(LEAVE, "leave.md")
    assert search(library.as_owner, query="holiday \x00 \ud83d").query == "holiday \ufffd \ufffd"


def test_without_the_embedder_words_are_searched_and_it_is_said(library: Library) -> None:
    library.add(LEAVE, "leave.md")
    result = search(library.as_owner, query="holiday", embedder=BrokenEmbedder())
    assert result.mode is Mode.LEXICAL
    assert result.degraded == (
        "Search by meaning isn't available just now; only words were searched."
    )
    assert [hit.title for hit in result.hits] == ["Leave"]


def test_many_passages_of_one_document_do_not_push_others_out(library: Library) -> None:
    long = index_document(library.source, title="Long", passages=8)
    short = index_document(library.source, title="Short", of="island")
    hits = search(library.as_owner, query=f"{WORD} keeper", limit=4).hits
    assert [hit.document_id for hit in hits].count(long.pk) == 3
    assert short.pk in {hit.document_id for hit in hits}


def test_as_many_hits_as_asked_for_while_there_are_visible_passages(library: Library) -> None:
    index_document(library.source, title="Long", passages=8)
    assert len(search(library.as_owner, query="anything at all", limit=7).hits) == 7
    assert len(search(library.as_owner, query="anything at all", limit=50).hits) == 8


def test_a_search_can_be_narrowed_to_sources(library: Library) -> None:
    other = factories.make_source(library.organization)
    factories.grant(library.owner, Verb.VIEW, other)
    index_document(library.source, title="Here")
    index_document(other, title="There")
    hidden = factories.make_source(library.organization)
    index_document(hidden, title="Hidden")
    for sources, titles in (([other], {"There"}), ([hidden], set()), ([hidden, other], {"There"})):
        ids = [source.pk for source in sources]
        hits = search(library.as_owner, query=WORD, filters=Filters(source_ids=tuple(ids))).hits
        assert {hit.title for hit in hits} == titles


def test_INV3_one_select_touches_the_index_and_holds_the_relation(library: Library) -> None:
    library.add(LEAVE, "leave.md")
    search(library.as_owner, query="warm the caches of permissions")
    authority = library.as_owner
    with CaptureQueriesContext(
        connection,
    ) as queries:
        search(authority, query="holiday")
    statements = [query["sql"] for query in queries.captured_queries]
    touching = [sql for sql in statements if "_vector" in sql or "_lexical" in sql]
    assert len(touching) == 1
    assert touching[0].lstrip().startswith("WITH")
    for function in (
        "retrieval_vector_search(",
        "retrieval_lexical_search(",
        "retrieval_visible_sources(",
        "retrieval_granted_documents(",
    ):
        assert function in touching[0]
    # Which embedder and which reranker, the search, and three inserts of its audit event.
    assert len(statements) == 6


def test_INV3_the_relation_stands_inside_every_branch_function(library: Library) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT proname, prosrc, prosecdef, proconfig FROM pg_proc WHERE proname = ANY (%s)",
            [["retrieval_vector_search", "retrieval_lexical_search"]],
        )
        rows = cursor.fetchall()
    assert len(rows) == 2
    for name, source, runs_as_owner, settings in rows:
        assert "retrieval_visible_sources(" in source, name
        assert "retrieval_granted_documents(" in source, name
        assert not runs_as_owner, name
        assert "search_path=public" in settings, name


def test_a_search_is_audited_with_its_text_kept_beside(library: Library) -> None:
    library.add(LEAVE, "leave.md")
    search(library.as_owner, query="holiday")
    event = AuditEvent.objects.get(
        organization_id=library.organization.pk, action="retrieval.searched"
    )
    milliseconds = event.data.pop("milliseconds")
    assert event.data == {
        "query_digest": query_digest("holiday"),
        "hits": 2,
        "mode": "hybrid",
        "plan": "exact",
        "visible": 2,
        "scanned": 1,
        "capped": False,
    }
    assert milliseconds > 0
    assert AuditPersonal.objects.get(event_id=event.id).data == {"query": "holiday"}
    assert "holiday" not in str(event.data)


def test_a_deleted_document_is_gone_from_the_next_search_in_both_branches(
    library: Library,
) -> None:
    document = library.add("The zebrafish-881 lives here.", "fish.md")
    assert found(library.as_owner, "zebrafish-881") == ["fish"]
    delete_document(library.as_owner, document=document)
    assert found(library.as_owner, "zebrafish-881") == []
    assert found(library.as_owner, "zebrafish-881", Mode.SEMANTIC) == []


def test_a_restricted_document_is_gone_from_the_next_search(library: Library) -> None:
    document = library.add(LEAVE, "leave.md")
    factories.grant(library.member, Verb.VIEW, library.source)
    assert found(library.as_member, "holiday") == ["Leave"]
    set_acl_state(library.as_owner, document=document, state=document.AclState.RESTRICTED)
    assert found(library.as_member, "holiday") == []
    assert found(library.as_member, "holiday", Mode.SEMANTIC) == []
    assert found(library.as_owner, "holiday") == ["Leave"]


def test_an_organisation_without_documents_finds_nothing(library: Library) -> None:
    result = search(library.as_owner, query="holiday")
    assert (result.hits, result.mode, result.visible) == ((), Mode.LEXICAL, True)
    assert search(library.as_member, query="holiday").visible is False


def test_K09_a_model_wide_permission_widens_nothing(library: Library) -> None:
    group = factories.make_team(library.organization, library.member)
    from django.contrib.auth.models import Permission

    group.permissions.set(Permission.objects.filter(codename__in=["view_document", "view_source"]))
    library.member.user.user_permissions.set(group.permissions.all())
    granted = [index_document(library.source, title=f"Granted {n}") for n in range(2)]
    index_document(library.source, title="Closed")
    for document in granted:
        factories.grant(library.member, Verb.VIEW, document)
    hits = search(library.as_member, query=WORD).hits
    assert {hit.title for hit in hits} == {"Granted 0", "Granted 1"}


def test_the_counter_of_a_source_follows_its_passages(library: Library) -> None:
    document = library.add(LEAVE, "leave.md")
    count = Source.objects.values_list("passage_count", flat=True)
    assert count.get(pk=library.source.pk) == 2
    delete_document(library.as_owner, document=document)
    assert count.get(pk=library.source.pk) == 0
