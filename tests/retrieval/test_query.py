"""What a person typed, taken apart, and what search makes of it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.permissions import Verb
from kaizen.kernel.errors import Invalid
from retrieval.models import Document
from retrieval.postings import fold_organization
from retrieval.query import Filters, parse_query
from retrieval.search import Mode, SearchResult, search
from tests import factories
from tests.retrieval.conftest import Library
from tests.retrieval.worlds import WORD, index_document


def titles(result: SearchResult) -> list[str]:
    return [hit.title for hit in result.hits]


def by_words(library: Library, query: str, **more: object) -> list[str]:
    return titles(search(library.as_owner, query=query, mode=Mode.LEXICAL, **more))  # type: ignore[arg-type]


# --- parsing


@pytest.mark.parametrize(
    ("typed", "words", "phrases", "excluded", "meaning"),
    [
        ("annual leave", ("annual", "leave"), (), (), "annual leave"),
        ('"annual leave" policy', ("annual", "leave", "policy"), ("annual leave",), (), None),
        ("leave -sick", ("leave",), (), ("sick",), "leave"),
        ('leave -"sick day" now', ("leave", "now"), (), ("sick day",), "leave now"),
        ("well-known", ("well-known",), (), (), "well-known"),
        ('"open', ('"open',), (), (), '"open'),
        ("„zwei Worte“", ("zwei", "worte"), ("zwei worte",), (), "zwei Worte"),
        ("INV-4471", ("inv-4471", "inv4471"), (), (), "INV-4471"),
        ("-- - !!", ("--", "-", "!!"), (), (), "-- - !!"),
        ("-only", (), (), ("only",), "-only"),
    ],
)
def test_a_query_is_taken_apart(
    typed: str,
    words: tuple[str, ...],
    phrases: tuple[str, ...],
    excluded: tuple[str, ...],
    meaning: str | None,
) -> None:
    query = parse_query(typed)
    assert (query.words, query.phrases, query.excluded) == (words, phrases, excluded)
    assert query.meaning == (typed.replace('"', "") if meaning is None else meaning)


@given(st.text(max_size=200))
def test_any_text_that_is_not_blank_is_a_query(typed: str) -> None:
    query = parse_query(f"{typed}x")
    assert query.meaning
    assert len(query.words) <= 64


# --- in a search


@pytest.mark.django_db
@pytest.mark.parametrize("folded", [False, True], ids=["tail", "postings"])
def test_a_phrase_must_stand_there_word_for_word(library: Library, folded: bool) -> None:
    index_document(library.source, title="Apart", of="old grey tower by the light")
    index_document(library.source, title="Together", of="grey light")
    if folded:
        fold_organization(library.organization.key)
    assert set(by_words(library, "grey light")) == {"Apart", "Together"}
    assert by_words(library, '"grey light"') == ["Together"]
    assert titles(search(library.as_owner, query='"grey light" tower')) == ["Together"]
    assert titles(search(library.as_owner, query='"grey light"', mode=Mode.SEMANTIC)) == [
        "Together"
    ]
    assert titles(search(library.as_owner, query='"light grey"')) == []


@pytest.mark.django_db
def test_a_word_with_a_minus_must_not_stand_there(library: Library) -> None:
    index_document(library.source, title="Sick", of="sick leave")
    index_document(library.source, title="Annual", of="annual leave")
    assert by_words(library, "leave -sick") == ["Annual"]
    assert titles(search(library.as_owner, query="leave -sick")) == ["Annual"]
    assert titles(search(library.as_owner, query='leave -"annual leave"')) == ["Sick"]


@pytest.mark.django_db
def test_a_code_is_found_before_texts_with_its_parts(library: Library) -> None:
    for number in range(5):
        index_document(library.source, title=f"Part {number}", of=f"4471 inv inv {number} 4471")
    index_document(library.source, title="Whole", of="INV-4471 of the long list of other things")
    assert by_words(library, "inv-4471")[0] == "Whole"


@pytest.mark.django_db
def test_each_document_is_read_in_its_own_language(library: Library) -> None:
    library.add(
        '<html lang="de"><title>Umzug</title><p>Die Häuser am Hafen wurden verkauft.</p></html>',
        "umzug.html",
    )
    library.add("# Moving\n\nThe houses were sold.", "moving.md")
    assert by_words(library, "haus") == ["Umzug"]
    assert by_words(library, "verkaufen") == ["Umzug"]
    assert by_words(library, "selling house") == ["Moving"]


@pytest.mark.django_db
@pytest.mark.parametrize("folded", [False, True], ids=["tail", "postings"])
def test_a_misspelt_word_finds_what_is_meant(library: Library, folded: bool) -> None:
    index_document(library.source, title="Policy", of="page")
    if folded:
        fold_organization(library.organization.key)
    result = search(library.as_owner, query="lighthuose", mode=Mode.LEXICAL)
    assert titles(result) == ["Policy"]
    assert result.similar_words == ("lighthuose",)
    assert search(library.as_owner, query="lighthouse").similar_words == ()


@pytest.mark.django_db
@pytest.mark.parametrize("folded", [False, True], ids=["tail", "postings"])
def test_K01_spelling_help_knows_no_word_of_what_may_not_be_read(
    library: Library, folded: bool
) -> None:
    factories.grant(library.member, Verb.VIEW, library.source)
    index_document(library.source, title="Open")
    hidden = factories.make_source(library.organization)
    index_document(hidden, title="Hidden", of="Quillfeather")
    if folded:
        fold_organization(library.organization.key)
    with_hidden = search(library.as_member, query="Quilfeather", mode=Mode.LEXICAL)
    without = search(library.as_member, query="Quxlfeatxer", mode=Mode.LEXICAL)
    assert (with_hidden.hits, with_hidden.similar_words) == (without.hits, without.similar_words)
    assert with_hidden.hits == ()


@pytest.mark.django_db
@pytest.mark.parametrize("folded", [False, True], ids=["tail", "postings"])
def test_K01_a_word_of_a_hidden_document_beside_a_granted_one_changes_nothing(
    library: Library, folded: bool
) -> None:
    granted = index_document(library.source, title="Granted", of="marigold")
    factories.grant(library.member, Verb.VIEW, granted)

    def asked() -> tuple[list[str], tuple[str, ...]]:
        if folded:
            fold_organization(library.organization.key)
        result = search(library.as_member, query="marigolq", mode=Mode.LEXICAL)
        return titles(result), result.similar_words

    before = asked()
    assert before == (["Granted"], ("marigolq",))
    index_document(library.source, title="Hidden", of="marigolq")
    assert asked() == before


@pytest.mark.django_db
def test_filters_narrow_both_branches(library: Library) -> None:
    def add(title: str, **fields: object) -> None:
        document = index_document(library.source, title=title, of=title)
        Document.objects.filter(pk=document.pk).update(**fields)

    day = datetime(2026, 3, 1, tzinfo=UTC)
    add("Pdf", media_type="application/pdf", author="Mia", tags=["travel", "hr"], dated_at=day)
    add("Note", media_type="text/markdown", author="Noa", tags=["hr"])
    add("Sheet", media_type="text/csv", author="Mia")
    expected = [
        (Filters(types=("pdf",)), {"Pdf"}),
        (Filters(types=("pdf", "sheet")), {"Pdf", "Sheet"}),
        (Filters(authors=("Mia",)), {"Pdf", "Sheet"}),
        (Filters(tags=("hr",)), {"Pdf", "Note"}),
        (Filters(tags=("hr",), authors=("Mia",)), {"Pdf"}),
        (Filters(before=datetime(2026, 3, 2, tzinfo=UTC)), {"Pdf"}),
        (Filters(after=datetime(2026, 3, 2, tzinfo=UTC)), {"Note", "Sheet"}),
        (Filters(tags=("none",)), set()),
    ]
    for folded in (False, True):
        if folded:
            fold_organization(library.organization.key)
        for filters, wanted in expected:
            for mode in Mode:
                result = search(library.as_owner, query=WORD, filters=filters, mode=mode)
                assert set(titles(result)) == wanted, (filters, mode, folded)


@pytest.mark.django_db
def test_a_filter_opens_nothing(library: Library) -> None:
    hidden = index_document(library.source, title="Hidden")
    Document.objects.filter(pk=hidden.pk).update(tags=["secret"])
    result = search(library.as_member, query=WORD, filters=Filters(tags=("secret",)), facets=True)
    assert result.hits == ()
    assert result.facets == {"source": (), "type": (), "author": (), "tag": ()}


def test_a_kind_of_file_that_is_unknown_is_an_error() -> None:
    with pytest.raises(Invalid, match="no kind of file called 'floppy'"):
        Filters(types=("floppy",)).of_documents()


@pytest.mark.django_db
def test_facets_count_the_documents_that_the_caller_may_see(library: Library) -> None:
    shown = factories.make_source(library.organization, name="Shown")
    factories.grant(library.member, Verb.VIEW, shown)
    for number in range(3):
        document = index_document(shown, title=f"Seen {number}", passages=2)
        Document.objects.filter(pk=document.pk).update(
            media_type="application/pdf", author="Mia", tags=["a", f"n{number % 2}"]
        )
    hidden = index_document(library.source, title="Hidden")
    Document.objects.filter(pk=hidden.pk).update(author="Noa", tags=["a"])
    facets = search(library.as_member, query=WORD, facets=True).facets
    assert facets is not None
    counts = {name: [(row.label, row.count) for row in rows] for name, rows in facets.items()}
    assert counts == {
        "source": [("Shown", 3)],
        "type": [("pdf", 3)],
        "author": [("Mia", 3)],
        "tag": [("a", 3), ("n0", 2), ("n1", 1)],
    }


@pytest.mark.django_db
def test_newer_documents_come_first_when_asked_for(library: Library) -> None:
    for year in (2020, 2026, 2023):
        document = index_document(library.source, title=str(year), of=f"page of {year}")
        day = datetime(year, 1, 1, tzinfo=UTC)
        Document.objects.filter(pk=document.pk).update(dated_at=day)

    def order(*, recency: bool) -> list[str]:
        return titles(search(library.as_owner, query=WORD, recency=recency, mode=Mode.LEXICAL))

    assert order(recency=False) == ["2020", "2026", "2023"]
    assert order(recency=True)[0] == "2026"


@pytest.mark.django_db
def test_copies_of_a_passage_come_last(library: Library) -> None:
    for number in range(4):
        index_document(library.source, title=f"Copy {number}")
    index_document(library.source, title="Other", of="distant and unrelated thing")
    first, second, *_ = search(library.as_owner, query=f"{WORD} keeper of page").hits
    assert (first.title[:4], second.title) == ("Copy", "Other")
