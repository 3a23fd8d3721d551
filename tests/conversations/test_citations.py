"""Citations: what a mark stands for, for this reader, now; and covering what was taken."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounts.permissions import Verb
from conversations.citations import (
    COVER,
    MARK,
    Citations,
    cover_spans,
    cover_taken,
    resolve,
)
from retrieval.documents import delete_document
from tests import factories
from tests.conversations.worlds import MOVING, answer, first_cite, make_world

# --- resolving


@pytest.mark.django_db
def test_a_mark_stands_for_the_passage_that_a_tool_showed() -> None:
    world = make_world()
    document = world.add_document()
    turn = answer(world, "Two days [[{cite}]].", searches=True)
    citations = resolve(world.authority, turn.conversation)
    (passage,) = citations.passages.values()
    assert list(citations.passages) == [first_cite(turn.run)]
    assert (passage.document_id, passage.text) == (document.pk, MOVING.strip())
    assert citations.hidden == frozenset()
    assert citations.hidden_texts == {turn.run.pk: ()}


@pytest.mark.django_db
def test_a_revoked_grant_hides_it_in_the_next_reading() -> None:
    world = make_world()
    world.add_document()
    turn = answer(world, "Two days [[{cite}]].", searches=True)
    world.revoke()
    citations = resolve(world.authority, turn.conversation)
    assert (dict(citations.passages), citations.hidden) == ({}, {first_cite(turn.run)})
    assert citations.hidden_texts == {turn.run.pk: (MOVING.strip(),)}
    assert citations.cites_hidden(f"so [[{first_cite(turn.run)}]]")
    assert not citations.cites_hidden("so [[paaaaaaaa]]")


@pytest.mark.django_db
def test_a_deleted_document_hides_it_too() -> None:
    world = make_world()
    document = world.add_document()
    turn = answer(world, "Two days [[{cite}]].", searches=True)
    delete_document(factories.authority_of(world.admin), document=document)
    assert resolve(world.authority, turn.conversation).hidden == {first_cite(turn.run)}


@pytest.mark.django_db
def test_each_reader_resolves_under_their_own_rights() -> None:
    world = make_world()
    world.add_document()
    turn = answer(world, "Two days [[{cite}]].", searches=True)
    watcher = world.another((Verb.VIEW, turn.conversation))
    cite = first_cite(turn.run)
    assert resolve(factories.authority_of(watcher), turn.conversation).hidden == {cite}
    assert list(resolve(world.authority, turn.conversation).passages) == [cite]


@pytest.mark.django_db
def test_a_later_run_is_covered_for_what_an_earlier_one_read_and_not_the_reverse() -> None:
    world = make_world()
    first = answer(world, "Hello.")
    second = answer(world, "x", question="?", conversation=first.conversation)
    world.add_document()
    third = answer(world, "y", question="?", conversation=first.conversation, searches=True)
    fourth = answer(world, "z", question="?", conversation=first.conversation)
    world.revoke()
    texts = resolve(world.authority, first.conversation).hidden_texts
    assert texts == {
        first.run.pk: (),
        second.run.pk: (),
        third.run.pk: (MOVING.strip(),),
        fourth.run.pk: (MOVING.strip(),),
    }


@pytest.mark.django_db
@pytest.mark.parametrize("turns", [1, 6])
def test_resolving_takes_three_queries_however_long_the_talk(
    turns: int, django_assert_num_queries: object
) -> None:
    world = make_world()
    world.add_document()
    conversation = None
    for _ in range(turns):
        turn = answer(world, "[[{cite}]]", conversation=conversation, searches=True)
        conversation = turn.conversation
    authority = world.authority
    resolve(authority, turn.conversation)
    with django_assert_num_queries(3):  # type: ignore[operator]  # runs, their calls, passages
        resolve(authority, turn.conversation)


# --- covering

HIDDEN = "Whoever moves house gets two days of paid leave, form 4471, from A-19 on."


@pytest.mark.parametrize(
    ("text", "covered"),
    [
        ("Nothing of it.", "Nothing of it."),
        ("You get TWO  days, of paid LEAVE.", "You get ▒▒▒  ▒▒▒▒▒ ▒▒ ▒▒▒▒ ▒▒▒▒▒."),
        ("two days of paid", "two days of paid"),  # four words running are anybody's
        ("The form is 4471!", "The form is ▒▒▒▒!"),
        ("It is form 44710.", "It is form 44710."),
        ("Since 19.", "Since 19."),  # two figures say too little
        ("", ""),
    ],
)
def test_what_was_taken_is_covered(text: str, covered: str) -> None:
    assert cover_taken(text, HIDDEN) == covered


def test_a_short_passage_counts_whole() -> None:
    assert cover_taken("It says alpha beta.", "Alpha, beta") == "It says ▒▒▒▒▒ ▒▒▒▒."
    assert cover_taken("It says alpha.", "") == "It says alpha."


def test_marks_stay_as_they_are() -> None:
    text = "two days [[paaaaaaaa:100-4471]] of paid leave [[p44715678]]"
    covered = cover_taken(text, HIDDEN + " 44715678 p44715678")
    assert covered == "▒▒▒ ▒▒▒▒ [[paaaaaaaa:100-4471]] ▒▒ ▒▒▒▒ ▒▒▒▒▒ [[p44715678]]"


@given(st.text(max_size=200), st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_covering_moves_nothing(text: str, source: str) -> None:
    covered = cover_taken(text, source)
    assert len(covered) == len(text)
    assert all(new in (old, COVER) for old, new in zip(text, covered, strict=True))
    assert [mark.span() for mark in MARK.finditer(covered)] == [
        mark.span() for mark in MARK.finditer(text)
    ]


WORDS = st.lists(st.sampled_from(["an", "ox", "5471", "Ünit", "日本", "x9z"]), max_size=30)


@given(WORDS, WORDS, WORDS)
@settings(max_examples=300, deadline=None)
def test_no_five_words_of_the_hidden_text_are_left(
    before: list[str], taken: list[str], after: list[str]
) -> None:
    source = " ".join(taken)
    covered = cover_taken(" ".join([*before, *taken, *after]), source).split()
    hidden = source.casefold().split()
    runs = {tuple(hidden[i : i + 5]) for i in range(len(hidden) - 4)}
    left = [word.casefold() for word in covered]
    assert not any(tuple(left[i : i + 5]) in runs for i in range(len(left) - 4))
    assert not {"5471", "x9z"} & set(left) & set(hidden)


def test_while_more_may_follow_the_beginning_of_something_taken_is_covered() -> None:
    text = "You get two days o"
    assert cover_taken(text, HIDDEN) == text
    assert cover_taken(text, HIDDEN, is_open=True) == "You get ▒▒▒ ▒▒▒▒ ▒"
    assert cover_taken("Nothing of it.", HIDDEN, is_open=True) == "Nothing of it."


def test_a_paragraph_that_cites_what_was_purged_is_covered_whole() -> None:
    citations = Citations(
        passages={}, hidden=frozenset({"paaaaaaaa"}), purged=frozenset({"paaaaaaaa"})
    )
    text = "Not this.\n\nBut this [[paaaaaaaa]] and that.\n\nNor this."
    assert citations.cover(text, run_id=None) == (
        "Not this.\n\n▒▒▒ ▒▒▒▒ [[paaaaaaaa]] ▒▒▒ ▒▒▒▒▒\n\nNor this."
    )


def test_spans_cover_all_but_blanks_and_what_is_kept() -> None:
    assert cover_spans("ab cd ef", [(0, 4), (6, 8)], kept={1}) == "▒b ▒d ▒▒"
