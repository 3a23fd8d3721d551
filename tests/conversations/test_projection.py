"""What a reader sees: numbered sources, quotations, covered words, events."""

from __future__ import annotations

import pytest
from django.urls import set_script_prefix

from accounts.permissions import Verb
from conversations.citations import resolve
from conversations.projection import AnswerView, answer_view
from conversations.queries import read_events
from tests import factories
from tests.conversations.worlds import (
    World,
    answer,
    ask,
    first_cite,
    make_world,
    open_gate,
    search,
    write,
)

pytestmark = pytest.mark.django_db


def read(world: World, turn: object, text: str) -> AnswerView:
    set_script_prefix(f"/o/{world.organization.slug}/")
    try:
        citations = resolve(world.authority, turn.conversation)  # type: ignore[attr-defined]
        return answer_view(citations, text=text, run_id=turn.run.pk)  # type: ignore[attr-defined]
    finally:
        set_script_prefix("/")


def test_a_mark_becomes_a_number_and_a_link_to_the_passage() -> None:
    world = make_world()
    document = world.add_document()
    turn = answer(world, "Two days [[{cite}]].", searches=True)
    view = read(world, turn, f"Two days [[{first_cite(turn.run)}]].")
    (source,) = view.sources
    assert view.text == "Two days [1]."
    assert source.url == (
        f"/o/{world.organization.slug}/documents/{document.pk}/?passage={source.chunk_id}"
    )
    assert view.html == (
        f'<p>Two days <a class="cite" href="{source.url}" data-cite="{source.chunk_id}" '
        f'data-number="1" aria-label="Source 1: moving">1</a>.</p>\n'
    )
    assert (source.number, source.title, source.source_name, source.file_name) == (
        1,
        "moving",
        world.source.name,
        "moving.md",
    )
    assert view.withheld is False


def test_a_quotation_is_written_out_of_the_passage() -> None:
    world = make_world()
    world.add_document()
    turn = answer(world, "x", searches=True)
    view = read(world, turn, f"It says [[{first_cite(turn.run)}:0-19]].")
    assert view.text == "It says “Whoever moves house” [1]."
    assert '<q class="quote">Whoever moves house</q><a class="cite"' in view.html


def test_one_passage_has_one_number_however_often_it_is_cited() -> None:
    world = make_world()
    world.add_document()
    world.add_document("leave.md", "Moving house again: ask for leave two weeks ahead.")
    turn = answer(world, "x", searches=True)
    one, two = resolve(world.authority, turn.conversation).passages
    view = read(world, turn, f"a [[{two}]] b [[{one}]] c [[{two}]]")
    assert view.text == "a [1] b [2] c [1]"
    assert [source.number for source in view.sources] == [1, 2]


def test_a_made_up_mark_is_dropped() -> None:
    world = make_world()
    turn = answer(world, "x")
    view = read(world, turn, "So it is [[paaaaaaaa]].")
    assert (view.text, view.html) == ("So it is .", "<p>So it is .</p>\n")
    assert (view.sources, view.withheld) == ((), False)


def test_a_mark_that_another_conversation_showed_is_dropped_here() -> None:
    world = make_world()
    world.add_document()
    elsewhere = answer(world, "x", searches=True)
    turn = answer(world, "x")
    view = read(world, turn, f"See [[{first_cite(elsewhere.run)}]].")
    assert (view.text, view.sources) == ("See .", ())


def test_after_a_revocation_nothing_of_the_passage_is_left() -> None:
    world = make_world()
    world.add_document()
    turn = answer(world, "x", searches=True)
    cite = first_cite(turn.run)
    world.revoke()
    view = read(world, turn, f"Form 4471 [[{cite}]]: [[{cite}:0-19]].")
    gone = '<span class="cite-gone">source no longer available</span>'
    assert view.html == f"<p>Form ▒▒▒▒ {gone}: {gone}.</p>\n"
    assert view.text == "Form ▒▒▒▒ [source no longer available]: [source no longer available]."
    assert (view.sources, view.withheld) == ((), True)


def test_words_taken_without_a_mark_are_withheld_too() -> None:
    world = make_world()
    world.add_document()
    turn = answer(world, "x", searches=True)
    world.revoke()
    view = read(world, turn, "You get two days of paid leave.")
    assert (view.text, view.withheld) == ("You get ▒▒▒ ▒▒▒▒ ▒▒ ▒▒▒▒ ▒▒▒▒▒.", True)


# --- events


def test_events_hide_what_is_the_machinerys_own() -> None:
    world = make_world()
    turn = ask(world)
    gate = open_gate()
    with gate.hold():
        gate.append("model_reply", {"step": 1, "stop": "end", "parts": []})
    write(gate, "Two")
    events = read_events(world.authority, turn.conversation.pk, after=0)
    assert [(event["seq"], event["kind"]) for event in events] == [
        (1, "user_message"),
        (2, "run_queued"),
        (3, "run_started"),
        (5, "text"),
    ]
    assert events[3]["data"] == {"message": str(turn.run.answer_id), "offset": 0, "text": "Two"}
    assert events[3]["run"] == str(turn.run.pk)


def test_a_tool_result_shows_its_label_and_no_record() -> None:
    world = make_world()
    world.add_document()
    turn = ask(world)
    result = search(open_gate())
    intent, done = read_events(world.authority, turn.conversation.pk, after=3)
    assert intent["data"] == {
        "call": str(result.tool_call_id),
        "step": 1,
        "name": "search",
        "activity": "searching “moving house”",
    }
    assert done["data"] == {
        "call": str(result.tool_call_id),
        "state": "done",
        "label": "1 passage",
    }


def test_events_are_covered_across_pieces_and_keep_their_offsets() -> None:
    world = make_world()
    world.add_document()
    turn = ask(world)
    gate = open_gate()
    search(gate)
    search(gate, "form 4471", call_id="c2")
    write(gate, "You get two days ")
    write(gate, "of paid leave. OK", offset=17)
    world.revoke()
    events = read_events(world.authority, turn.conversation.pk, after=0)
    texts = [(event["data"]["offset"], event["data"]["text"]) for event in events[-2:]]
    assert texts == [(0, "You get ▒▒▒ ▒▒▒▒ "), (17, "▒▒ ▒▒▒▒ ▒▒▒▒▒. OK")]
    activities = [e["data"]["activity"] for e in events if e["kind"] == "tool_intent"]
    assert activities == ["searching “moving house”", "searching “form ▒▒▒▒”"]
    assert "4471" not in str(events)


def test_a_watcher_with_fewer_rights_reads_the_same_events_covered() -> None:
    world = make_world()
    world.add_document()
    turn = ask(world)
    gate = open_gate()
    search(gate)
    write(gate, "Form 4471.")
    watcher = factories.authority_of(world.another((Verb.VIEW, turn.conversation)))
    assert "4471" in str(read_events(world.authority, turn.conversation.pk, after=0))
    assert "4471" not in str(read_events(watcher, turn.conversation.pk, after=0))
