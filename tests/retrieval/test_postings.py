"""Postings: folding changes what is read and never what is found; only the seen is counted."""

from __future__ import annotations

import math
import random

import pytest
from django.db import connection

from accounts.permissions import Verb
from retrieval.documents import delete_document, set_acl_state
from retrieval.ingest.index import move_passages
from retrieval.models import Chunk, Document
from retrieval.postings import Segment, choose_segments, find_long_tails, fold_organization
from retrieval.search import Mode, search
from tests import factories
from tests.retrieval.conftest import Library
from tests.retrieval.worlds import WORD, index_document

pytestmark = pytest.mark.django_db


def found(library: Library, query: str, *, as_member: bool = False) -> list[str]:
    who = library.as_member if as_member else library.as_owner
    return [hit.title for hit in search(who, query=query, limit=50, mode=Mode.LEXICAL).hits]


def rows(table: str, library: Library) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT count(*) FROM {table} WHERE organization_key = %s",
            [library.organization.key],
        )
        return int(cursor.fetchone()[0])


def fill(library: Library, *, seed: int = 3, count: int = 40) -> None:
    """Documents of words as unevenly frequent as in real text."""
    dice = random.Random(seed)
    words = [f"w{number}" for number in range(60)]
    weights = [1 / (number + 1) for number in range(60)]
    for number in range(count):
        text = " ".join(dice.choices(words, weights, k=dice.randint(5, 60)))
        index_document(library.source, title=f"T{number}", of=text)


def test_folding_keeps_the_order_of_what_is_found(library: Library) -> None:
    fill(library)
    queries = ["w3", "w7 w40", "w0 w1 w59", "w12 w13 w14 w15", "absent w5"]
    before = {query: found(library, query) for query in queries}
    assert fold_organization(library.organization.key) == 40
    assert {query: found(library, query) for query in queries} == before
    assert all(len(titles) > 3 for titles in before.values())


def test_the_order_is_that_of_bm25(library: Library) -> None:
    texts = {
        "Short": "the gannet dives",
        "Long": "the gannet dives again " + "and others look on from the cliff " * 4,
        "Twice": "the gannet and another gannet dive " + "and others look on " * 2,
        "Rare": "a petrel dives",
    }
    documents = {
        title: index_document(library.source, title="x", of=t) for title, t in texts.items()
    }
    names = {document.pk: title for title, document in documents.items()}
    fold_organization(library.organization.key)
    hits = search(library.as_owner, query="gannet petrel", limit=9, mode=Mode.LEXICAL).hits
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT d.id, l.words, ts_filter(l.lexemes, '{d}')::text LIKE '%%gannet%%',"
            " coalesce((SELECT cardinality(u.positions) FROM unnest(l.lexemes) u"
            "  WHERE u.lexeme IN ('gannet', 'petrel')), 0),"
            " EXISTS (SELECT 1 FROM unnest(l.lexemes) u WHERE u.lexeme = 'petrel')"
            " FROM retrieval_lexeme l JOIN retrieval_document d ON d.key = l.document_key"
        )
        stored = cursor.fetchall()
    average = sum(row[1] for row in stored) / len(stored)
    idf = {1: math.log(1 + (4 - 1 + 0.5) / 1.5), 3: math.log(1 + (4 - 3 + 0.5) / 3.5)}

    def score(words: int, frequency: int, rare: bool) -> float:
        part = 2.5 * frequency / (frequency + 1.5 * (0.25 + 0.75 * words / average))
        return part * idf[1 if rare else 3]

    expected = sorted(stored, key=lambda row: -score(row[1], row[3], row[4]))
    assert [names[hit.document_id] for hit in hits] == [names[row[0]] for row in expected]


def test_small_segments_join_larger_ones() -> None:
    assert choose_segments(400, {}) == []
    assert choose_segments(400, {1: Segment(500, 0)}) == [1]
    assert choose_segments(400, {1: Segment(500, 0), 2: Segment(9_000, 0)}) == [1]
    assert choose_segments(400, {1: Segment(500, 0), 2: Segment(1_500, 0)}) == [1, 2]
    assert choose_segments(400, {1: Segment(49_900, 0)}) == []


def test_a_segment_that_is_much_dead_is_rewritten() -> None:
    assert choose_segments(0, {1: Segment(30_000, 999), 2: Segment(9_000, 3_000)}) == [2]
    assert choose_segments(1, {1: Segment(9_000, 1)}) == []
    assert choose_segments(1, {1: Segment(9_000, 1, is_waited_for=True)}) == [1]


def test_what_is_added_after_a_fold_is_found_beside_the_rest(library: Library) -> None:
    index_document(library.source, title="Early")
    fold_organization(library.organization.key)
    index_document(library.source, title="Late", of="shore")
    assert set(found(library, WORD)) == {"Early", "Late"}


def test_a_deleted_document_is_gone_from_folded_postings_at_once(library: Library) -> None:
    gone = index_document(library.source, title="Gone")
    index_document(library.source, title="Kept", of="shore")
    fold_organization(library.organization.key)
    delete_document(library.as_owner, document=gone)
    assert found(library, WORD) == ["Kept"]
    assert rows("retrieval_tombstone", library) == 1
    fold_organization(library.organization.key)
    assert found(library, WORD) == ["Kept"]
    assert rows("retrieval_tombstone", library) == 0


def test_a_passage_deleted_past_the_product_is_buried_too(library: Library) -> None:
    document = index_document(library.source, title="Gone", passages=3)
    fold_organization(library.organization.key)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM retrieval_chunk WHERE document_id = %s", [document.pk])
    assert rows("retrieval_tombstone", library) == 3
    assert found(library, WORD) == []


def test_a_restricted_document_leaves_its_sources_blocks_at_once(library: Library) -> None:
    factories.grant(library.member, Verb.VIEW, library.source)
    document = index_document(library.source, title="Private")
    index_document(library.source, title="Open", of="shore")
    fold_organization(library.organization.key)
    set_acl_state(library.as_owner, document=document, state=Document.AclState.RESTRICTED)
    assert found(library, WORD, as_member=True) == ["Open"]
    assert set(found(library, WORD)) == {"Open", "Private"}
    fold_organization(library.organization.key)
    assert found(library, WORD, as_member=True) == ["Open"]
    assert set(found(library, WORD)) == {"Open", "Private"}
    assert rows("retrieval_tombstone", library) == 0


def test_a_document_granted_alone_is_found_inside_blocks(library: Library) -> None:
    shared = index_document(library.source, title="Shared", passages=2)
    index_document(library.source, title="Hidden", passages=2, of="shore")
    factories.grant(library.member, Verb.VIEW, shared)
    fold_organization(library.organization.key)
    assert set(found(library, WORD, as_member=True)) == {"Shared"}


def test_a_document_that_moves_is_found_where_it_lies(library: Library) -> None:
    other = factories.make_source(library.organization)
    factories.grant(library.member, Verb.VIEW, other)
    document = index_document(library.source, title="Moved")
    fold_organization(library.organization.key)
    assert found(library, WORD, as_member=True) == []
    move_passages(document, source=other)
    Document.objects.filter(pk=document.pk).update(source=other)
    assert found(library, WORD, as_member=True) == ["Moved"]
    fold_organization(library.organization.key)
    assert found(library, WORD, as_member=True) == ["Moved"]
    library.source.refresh_from_db()
    other.refresh_from_db()
    assert (library.source.passage_count, other.passage_count) == (0, 1)


def test_term_counts_follow_what_is_folded(library: Library) -> None:
    gone = index_document(library.source, title="Gone")
    index_document(library.source, title="Kept", of="shore")

    def count() -> dict[str, int]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT term, passages FROM retrieval_term WHERE organization_key = %s",
                [library.organization.key],
            )
            return dict(cursor.fetchall())

    fold_organization(library.organization.key)
    assert count()["lighthous"] == 2
    delete_document(library.as_owner, document=gone)
    fold_organization(library.organization.key)
    assert count()["lighthous"] == 1
    assert count()["shore"] == 1


def test_a_long_tail_is_due_for_folding(library: Library) -> None:
    index_document(library.source, title="Long", passages=399)
    assert library.organization.key not in find_long_tails()
    index_document(library.source, title="One more")
    assert library.organization.key in find_long_tails()
    fold_organization(library.organization.key)
    assert library.organization.key not in find_long_tails()
    assert Chunk.objects.filter(organization=library.organization).count() == 400
