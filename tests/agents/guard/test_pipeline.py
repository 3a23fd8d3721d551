"""A tool call, story by story, through a real gate: what happens, what is refused, what is kept."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from django.db import connection

from agents.guard.contract import LeaseLost
from agents.guard.pipeline import ToolRequest, call_tool
from agents.models import ToolCall
from audit.models import AuditEvent
from conversations import turns
from conversations.gate import Gate
from kaizen.kernel.errors import Conflict, Missing
from tests.agents.guard.notes import ALL, Notes
from tests.agents.providers.calls import case_file
from tests.conversations.worlds import (
    MOVING,
    ask,
    audited,
    journal_of,
    lapse,
    make_world,
    open_gate,
    search,
)


def request(name: str, arguments: str = "{}", call_id: str = "c1", step: int = 1) -> ToolRequest:
    return ToolRequest(step=step, call_id=call_id, name=name, arguments_raw=arguments)


def results(gate: Gate) -> list[tuple[str, dict[str, Any]]]:
    """What was journaled of tools."""
    ask_conversation = ToolCall._meta.apps.get_model("conversations", "Conversation")
    conversation = ask_conversation.objects.get(pk=gate.facts.conversation_id)
    return [(kind, data) for _, kind, data in journal_of(conversation) if "tool" in kind]


# --- it runs


@pytest.mark.django_db
def test_a_call_runs_and_is_journaled_intent_first(notes: Notes) -> None:
    world = make_world(tools=ALL)
    ask(world)
    gate = open_gate()
    result = call_tool(gate, request("create_note", '{"title":"Q1"}'))
    call = ToolCall.objects.get()
    assert notes.made == ["Q1"]
    assert (result.tool_call_id, result.outcome, result.empty) == (call.pk, "ok", False)
    assert (result.summary, result.characters) == ('{"title":"Q1"}', 15)
    assert (call.state, call.name, call.effect) == ("done", "create_note", "write")
    assert (call.arguments_raw, call.arguments) == ('{"title":"Q1"}', {"title": "Q1"})
    assert (call.record, call.label, call.error) == ({"title": "Q1"}, "1 note", "")
    assert (call.run_id, call.attempt, call.step, call.call_id) == (gate.facts.run_id, 1, 1, "c1")
    assert results(gate) == [
        (
            "tool_intent",
            {"call": str(call.pk), "step": 1, "name": "create_note", "activity": "noting"},
        ),
        (
            "tool_result",
            {
                "call": str(call.pk),
                "state": "done",
                "label": "1 note",
                "record": {"title": "Q1"},
            },
        ),
    ]
    event = AuditEvent.objects.get(action="agents.tool_called")
    assert event.data == {"tool": "create_note", "step": 1}
    assert (event.run_id, event.channel) == (gate.facts.run_id, "run")
    assert event.actor_id == world.member.user.public_id
    assert (event.object_type, event.object_id) == ("toolcall", str(call.pk))


@pytest.mark.django_db
def test_a_search_keeps_ids_and_digests_and_no_text() -> None:
    world = make_world()
    document = world.add_document()
    ask(world)
    gate = open_gate()
    result = search(gate)
    (passage,) = ToolCall.objects.get().record["passages"]
    assert set(passage) == {"cite", "chunk", "version", "document", "digest", "score"}
    assert passage["document"] == str(document.pk)
    assert result.outcome == "ok"
    assert MOVING[:20] not in result.summary + str(results(gate))


@pytest.mark.django_db
def test_an_empty_result_says_so() -> None:
    world = make_world()
    ask(world)
    result = search(open_gate())
    assert (result.outcome, result.empty) == ("ok", True)


@pytest.mark.django_db
def test_the_same_call_twice_runs_once(notes: Notes) -> None:
    world = make_world(tools=ALL)
    ask(world)
    gate = open_gate()
    first = call_tool(gate, request("create_note", '{"title":"Q1"}'))
    again = call_tool(gate, request("create_note", '{"title":"Q1"}'))
    assert again == first
    assert notes.made == ["Q1"]
    assert len(results(gate)) == 2
    call_tool(gate, request("create_note", '{"title":"Q1"}', step=2))
    assert notes.made == ["Q1", "Q1"]


def test_the_same_call_twice_at_once_runs_once(committed_db: str, notes: Notes) -> None:
    world = make_world(tools=ALL)
    ask(world)
    gate = open_gate()
    outcomes: list[str] = []

    def work() -> None:
        outcomes.append(call_tool(gate, request("create_note", '{"title":"Q1"}')).outcome)
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (outcomes, notes.made) == (["ok"] * 4, ["Q1"])
    assert [kind for kind, _ in results(gate)] == ["tool_intent", "tool_result"]


@pytest.mark.django_db
def test_an_intent_without_a_result_is_carried_out_by_the_next_asking(notes: Notes) -> None:
    world = make_world(tools=ALL)
    ask(world)
    gate = open_gate()
    notes.refuse = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        call_tool(gate, request("create_note", '{"title":"Q1"}'))
    assert ToolCall.objects.get().state == "intent"
    notes.refuse = None
    assert call_tool(gate, request("create_note", '{"title":"Q1"}')).outcome == "ok"
    assert (notes.made, [kind for kind, _ in results(gate)]) == (
        ["Q1"],
        ["tool_intent", "tool_result"],
    )


# --- it is refused


@pytest.mark.django_db
def test_k55_unknown_and_ungranted_tools_are_denied_and_audited(notes: Notes) -> None:
    world = make_world(tools=["search"])
    ask(world)
    gate = open_gate()
    unknown = call_tool(gate, request("delete_everything", "{}", "c1"))
    ungranted = call_tool(gate, request("create_note", '{"title":"Q1"}', "c2"))
    assert [unknown.outcome, ungranted.outcome] == ["denied", "denied"]
    assert notes.made == []
    assert audited(world, "agents.tool_") == ["agents.tool_denied"] * 2
    assert [event.data for event in AuditEvent.objects.filter(action="agents.tool_denied")] == [
        {"tool": "delete_everything", "step": 1, "reason": "unknown_tool"},
        {"tool": "create_note", "step": 1, "reason": "tool_not_granted"},
    ]
    assert [(kind, data["state"]) for kind, data in results(gate)] == [
        ("tool_result", "denied"),
        ("tool_result", "denied"),
    ]
    assert unknown.summary == "There is no tool called 'delete_everything'."
    assert ungranted.summary == "This agent may not use the tool 'create_note'."


@pytest.mark.django_db
def test_what_reaches_outside_needs_a_person(notes: Notes) -> None:
    world = make_world(tools=ALL)
    ask(world)
    assert call_tool(open_gate(), request("send_letter")).outcome == "denied"


def _case_arguments() -> dict[str, tuple[str, str]]:
    """Call id -> name and raw arguments, put together as the stream sends them."""
    calls: dict[int, list[str]] = {}
    for line in case_file("openai-bad-tool-args.sse").read_text("utf-8").splitlines():
        if not line.startswith("data: {"):
            continue
        for piece in json.loads(line[6:])["choices"][0]["delta"].get("tool_calls", ()):
            call = calls.setdefault(piece["index"], ["", "", ""])
            call[0] += piece.get("id", "")
            call[1] += piece["function"].get("name", "")
            call[2] += piece["function"].get("arguments", "")
    return {identity: (name, raw) for identity, name, raw in calls.values()}


@pytest.mark.django_db
def test_k54_glued_empty_and_cut_arguments(notes: Notes) -> None:
    world = make_world(tools=ALL)
    ask(world)
    gate = open_gate()
    asked = _case_arguments()
    assert list(asked) == ["a1", "a2", "a3"]
    done = {
        identity: call_tool(gate, request(name, raw, identity))
        for identity, (name, raw) in asked.items()
    }
    assert [done[name].outcome for name in ("a1", "a2", "a3")] == ["error", "ok", "error"]
    assert notes.made == []
    assert done["a1"].summary == done["a3"].summary
    assert done["a1"].summary == (
        "The arguments of 'create_note' aren't one JSON object. Send them again, complete."
    )
    stored = dict(ToolCall.objects.values_list("call_id", "arguments_raw"))
    assert stored == {identity: raw for identity, (_, raw) in asked.items()}
    assert ToolCall.objects.get(call_id="a2").arguments == {}
    reasons = AuditEvent.objects.filter(action="agents.tool_called").order_by("at", "id")
    assert [event.data.get("reason") for event in reasons] == [
        "bad_arguments",
        None,
        "bad_arguments",
    ]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("{}", "The arguments don't fit 'create_note': title: Field required."),
        ("[]", "The arguments don't fit 'create_note': arguments: Input should be"),
        ('{"title":1}', "title: Input should be a valid string."),
        ('{"title":"a","\\u0000\\ud83d":1}', "\ufffd\ufffd: Extra inputs are not permitted."),
        ("[" * 100_000, "aren't one JSON object"),
        ('"\ud83d\x00', "aren't one JSON object"),
        ('{"title":NaN}', "title: Input should be a valid string."),
    ],
    ids=["missing", "list", "type", "extra", "deep", "raw", "nan"],
)
def test_arguments_that_do_not_fit_are_told_to_the_model(notes: Notes, raw: str, said: str) -> None:
    world = make_world(tools=ALL)
    ask(world)
    result = call_tool(open_gate(), request("create_note", raw, "call \x00\ud83d"))
    assert (result.outcome, notes.made) == ("error", [])
    assert said in result.summary
    assert ToolCall.objects.get().call_id == "call \ufffd\ufffd"


@pytest.mark.django_db
def test_what_a_handler_is_given_can_be_stored(notes: Notes) -> None:
    world = make_world(tools=ALL)
    ask(world)
    call_tool(open_gate(), request("create_note", '{"title":"a\\u0000b\\ud83d \\ud83d\\ude00"}'))
    assert notes.made == ["a\ufffdb\ufffd 😀"]
    assert ToolCall.objects.get().arguments == {"title": "a\ufffdb\ufffd 😀"}


@pytest.mark.django_db
def test_a_tool_name_of_nonsense_is_denied() -> None:
    world = make_world()
    ask(world)
    result = call_tool(open_gate(), request("x\x00\ud83d" * 100))
    assert result.outcome == "denied"
    assert len(ToolCall.objects.get().name) == 64


@pytest.mark.django_db
def test_a_refusal_of_the_handler_is_an_error_that_the_model_sees(notes: Notes) -> None:
    world = make_world(tools=ALL)
    ask(world)
    gate = open_gate()
    notes.refuse = Conflict("There is such a note already.")
    result = call_tool(gate, request("create_note", '{"title":"Q1"}'))
    call = ToolCall.objects.get()
    assert (result.outcome, result.summary) == ("error", "There is such a note already.")
    assert (call.state, call.error, call.record) == (
        "error",
        "There is such a note already.",
        None,
    )
    assert [kind for kind, _ in results(gate)] == ["tool_intent", "tool_result"]
    event = AuditEvent.objects.get(action="agents.tool_called")
    assert event.data == {"tool": "create_note", "step": 1, "reason": "conflict"}


@pytest.mark.django_db
def test_a_document_of_others_is_an_error_result() -> None:
    world, other = make_world(), make_world()
    document = other.add_document()
    ask(world)
    result = call_tool(
        open_gate(), request("read_document", json.dumps({"document": str(document.pk)}))
    )
    assert (result.outcome, result.summary) == ("error", "There is nothing here that you may see.")


# --- nobody may


@pytest.mark.django_db
@pytest.mark.parametrize("how", ["lapsed", "stopped", "lost"])
def test_without_the_lease_nothing_is_called_and_nothing_written(how: str, notes: Notes) -> None:
    world = make_world(tools=ALL)
    turn = ask(world)
    gate = open_gate()
    if how == "lapsed":
        lapse(gate.lease)
    elif how == "stopped":
        turns.stop(world.authority, run_id=turn.run.pk)
    else:
        turns.lose(turn.run.pk, attempt=1)
    before = journal_of(turn.conversation), audited(world)
    with pytest.raises(LeaseLost):
        call_tool(gate, request("create_note", '{"title":"Q1"}'))
    assert (notes.made, ToolCall.objects.count()) == ([], 0)
    assert (journal_of(turn.conversation), audited(world)) == before


@pytest.mark.django_db
def test_a_member_who_lost_their_place_calls_nothing(notes: Notes) -> None:
    world = make_world(tools=ALL)
    ask(world)
    gate = open_gate()
    type(world.member).objects.filter(pk=world.member.pk).update(state="suspended")
    with pytest.raises(Missing):
        call_tool(gate, request("create_note", '{"title":"Q1"}'))
    assert (notes.made, ToolCall.objects.count()) == ([], 0)
