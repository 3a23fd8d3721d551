"""What a run may be told: references as messages, each re-read under the member's rights."""

from __future__ import annotations

import json

import pytest
from django.db import transaction

from accounts.models import Membership
from agents.guard.contract import LeaseLost
from agents.guard.gateway import dump_part
from agents.guard.projection import GONE
from agents.providers.contract import Message as ModelMessage
from agents.providers.contract import Opaque, Text, ToolResult, ToolUse
from conversations import turns
from conversations.gate import NOT_RUN, Gate
from kaizen.kernel.errors import Missing
from tests.conversations.worlds import (
    MOVING,
    answer,
    ask,
    lapse,
    make_world,
    open_gate,
    search,
    state_of,
    write,
)

pytestmark = pytest.mark.django_db
Parts = tuple[Text | ToolUse | Opaque, ...]


def tell(gate: Gate, *refs: str) -> tuple[ModelMessage, ...]:
    with gate.hold() as authority:
        return gate.messages(authority, refs)


def reply(gate: Gate, *parts: Text | ToolUse | Opaque) -> str:
    """The model's message `parts` is journaled; its reference."""
    with gate.hold():
        data = {"step": 1, "stop": "tool_use", "parts": [dump_part(part) for part in parts]}
        return f"m.{gate.append('model_reply', data)}"


def user(text: str) -> ModelMessage:
    return ModelMessage("user", (Text(text),))


def call(identity: str = "c1") -> ToolUse:
    return ToolUse(identity, "search", '{"query":"moving house"}')


# --- the start frame


def test_the_start_names_the_conversation_and_holds_none_of_it() -> None:
    world = make_world()
    first = answer(world, "Two days.")
    second = ask(world, "Paid leave?", conversation=first.conversation)
    gate = open_gate()
    start = gate.start()
    assert [(item.ref, item.kind) for item in start.context] == [
        (f"u.{first.message.pk}", "user"),
        (f"a.{first.run.answer_id}", "assistant"),
        (f"u.{second.message.pk}", "user"),
    ]
    assert (start.run, start.attempt, start.lease) == (
        str(second.run.pk),
        1,
        gate.lease.secret,
    )
    assert [tool.name for tool in start.tools] == ["read_document", "search"]
    said = start.model_dump_json()
    for secret in ("Two days", "Paid leave", "cite them"):
        assert secret not in said


def test_the_path_leaves_out_what_was_tried_and_given_up() -> None:
    world = make_world()
    turn = ask(world)
    gate = open_gate()
    write(gate, "Two d")
    turns.lose(turn.run.pk, attempt=1)
    turns.retry(world.authority, run_id=turn.run.pk, key="r")
    assert [item.ref for item in open_gate().start().context] == [f"u.{turn.message.pk}"]


# --- references


def test_a_question_and_an_answer_are_told_as_they_were_said() -> None:
    world = make_world()
    first = answer(world, "Two days.")
    second = ask(world, "Paid?", conversation=first.conversation)
    told = tell(
        open_gate(),
        f"u.{first.message.pk}",
        f"a.{first.run.answer_id}",
        f"u.{second.message.pk}",
    )
    assert told == (
        user("How many days do I get?"),
        ModelMessage(
            "assistant",
            (
                Text(
                    "Two days.",
                ),
            ),
        ),
        user("Paid?"),
    )


def test_references_of_another_conversation_are_left_out() -> None:
    world = make_world()
    elsewhere = ask(world, "A secret elsewhere")
    other_gate = open_gate()
    secret = reply(other_gate, Text("told elsewhere"), call())
    result = search(other_gate)
    turn = ask(world, "Here")
    told = tell(
        open_gate(),
        f"u.{elsewhere.message.pk}",
        f"a.{elsewhere.message.pk}",
        secret,
        f"t.{result.tool_call_id}",
        f"u.{turn.message.pk}",
    )
    assert told == (user("Here"),)


def test_a_model_message_of_an_earlier_run_is_left_out() -> None:
    world = make_world()
    turn = ask(world)
    gate = open_gate()
    earlier = reply(gate, Text("from the first run"))
    turns.lose(turn.run.pk, attempt=1)
    turns.retry(world.authority, run_id=turn.run.pk, key="r")
    assert tell(open_gate(), earlier) == ()


@pytest.mark.parametrize(
    "ref",
    [
        "",
        "x",
        "u.",
        "u.nonsense",
        "a.1",
        "m.x",
        "m.²",
        "m." + "9" * 90,
        "t.nonsense",
        "z.1",
        "m.-1",
    ],
)
def test_nonsense_is_nothing(ref: str) -> None:
    world = make_world()
    turn = ask(world, "Here")
    gate = open_gate()
    said = reply(gate, call())
    told = tell(gate, f"u.{turn.message.pk}", ref, said, ref)
    assert told == (
        user("Here"),
        ModelMessage("assistant", (call(),)),
        ModelMessage("tool", (ToolResult("c1", NOT_RUN, is_error=True),)),
    )


# --- tool results


def test_each_call_has_exactly_one_result_right_after_its_message() -> None:
    world = make_world()
    world.add_document()
    turn = ask(world)
    gate = open_gate()
    first = reply(gate, Text("I look."), call("c1"), call("c2"))
    found = [search(gate, call_id=name) for name in ("c1", "c2")]
    second = reply(gate, Text("So it is."))
    told = tell(
        gate,
        f"u.{turn.message.pk}",
        first,
        f"t.{found[1].tool_call_id}",
        f"t.{found[0].tool_call_id}",
        second,
    )
    assert [message.role for message in told] == ["user", "assistant", "tool", "assistant"]
    results = told[2].parts
    assert [(part.tool_use_id, part.is_error) for part in results] == [  # type: ignore[union-attr]
        ("c1", False),
        ("c2", False),
    ]
    passages = json.loads(results[0].text)["passages"]  # type: ignore[union-attr]
    assert [passage["text"] for passage in passages] == [MOVING.strip()]


def test_a_call_that_was_never_asked_for_was_not_run() -> None:
    world = make_world()
    ask(world)
    gate = open_gate()
    said = reply(gate, call("c1"), call("c2"))
    found = search(gate, call_id="c2")
    told = tell(gate, said, f"t.{found.tool_call_id}")
    first, second = told[1].parts
    assert first == ToolResult("c1", NOT_RUN, is_error=True)
    assert (second.tool_use_id, second.is_error) == ("c2", False)  # type: ignore[union-attr]


def test_a_result_that_answers_nothing_is_left_out() -> None:
    world = make_world()
    turn = ask(world)
    gate = open_gate()
    found = search(gate)
    assert tell(gate, f"t.{found.tool_call_id}", f"u.{turn.message.pk}") == (
        user("How many days do I get?"),
    )


def test_blocks_of_the_providers_own_come_back_whole() -> None:
    world = make_world()
    ask(world)
    gate = open_gate()
    block = Opaque("anthropic", {"type": "thinking", "thinking": "hm \ud83d", "signature": "c2ln"})
    assert tell(gate, reply(gate, block, Text("Yes."))) == (
        ModelMessage("assistant", (block, Text("Yes."))),
    )


# --- revoked meanwhile


def test_a_result_is_read_again_under_the_rights_of_now() -> None:
    world = make_world()
    world.add_document()
    ask(world)
    gate = open_gate()
    said = reply(gate, call())
    found = search(gate)
    assert "4471" in str(tell(gate, said, f"t.{found.tool_call_id}"))
    world.revoke()
    told = tell(gate, said, f"t.{found.tool_call_id}")
    assert "4471" not in str(told)
    assert json.loads(told[1].parts[0].text)["passages"] == []  # type: ignore[union-attr]


def test_what_the_run_said_itself_is_covered_too() -> None:
    world = make_world()
    world.add_document()
    ask(world)
    gate = open_gate()
    search(gate, call_id="c0")
    said = reply(
        gate,
        Opaque("anthropic", {"type": "thinking", "thinking": "the form is 4471"}),
        Text("Use form 4471."),
        ToolUse("c1", "search", '{"query":"form 4471"}'),
        ToolUse("c2", "search", '{"query":"leave"}'),
    )
    assert "4471" in str(tell(gate, said))
    world.revoke()
    assert tell(gate, said)[0].parts == (
        Text("Use form ▒▒▒▒."),
        ToolUse("c1", "search", "{}"),
        ToolUse("c2", "search", '{"query":"leave"}'),
    )


@pytest.mark.parametrize("text", ["See [[{cite}]].", "It is form 4471."])
@pytest.mark.parametrize("kind", ["a", "u"])
def test_an_earlier_answer_that_rests_on_what_is_hidden_is_left_out(text: str, kind: str) -> None:
    world = make_world()
    world.add_document()
    first = answer(world, text, searches=True)
    ask(world, "And?", conversation=first.conversation)
    gate = open_gate()
    ref = f"{kind}.{first.run.answer_id}"  # Calling it a question must not help.
    assert [message.role for message in tell(gate, ref)] == ["assistant"]
    world.revoke()
    assert tell(gate, ref) == ()


def test_a_run_that_called_no_tool_may_have_repeated_an_earlier_answer() -> None:
    world = make_world()
    world.add_document()
    first = answer(world, "It is form 4471.", searches=True)
    second = answer(world, "As I said, 4471.", question="?", conversation=first.conversation)
    ask(world, "And?", conversation=first.conversation)
    gate = open_gate()
    world.revoke()
    assert tell(gate, f"a.{second.run.answer_id}") == ()


# --- hold


def test_holding_gives_the_members_authority_narrowed_to_the_run() -> None:
    world = make_world(all_sources=False)
    turn = ask(world)
    with open_gate().hold() as authority:
        assert authority.user_id == world.member.user_id
        assert authority.narrowing is not None
        assert authority.narrowing.source_keys == frozenset()
        assert authority.narrowing.run_id == turn.run.pk


def test_a_lapsed_lease_holds_nothing() -> None:
    world = make_world()
    ask(world)
    gate = open_gate()
    lapse(gate.lease)
    before = state_of(world)
    with pytest.raises(LeaseLost), gate.hold():
        pytest.fail("must not be entered")
    with pytest.raises(LeaseLost):
        write(gate, "late")
    assert state_of(world) == before


def test_a_stop_lets_nothing_new_begin_but_keeps_what_came() -> None:
    world = make_world()
    turn = ask(world)
    gate = open_gate()
    turns.stop(world.authority, run_id=turn.run.pk)
    with pytest.raises(LeaseLost), gate.hold():
        pytest.fail("must not be entered")
    write(gate, "Two d")


def test_a_member_who_lost_their_place_holds_nothing() -> None:
    world = make_world()
    ask(world)
    gate = open_gate()
    Membership.objects.filter(pk=world.member.pk).update(state="suspended")
    with pytest.raises(Missing), gate.hold():
        pytest.fail("must not be entered")


def test_what_happens_in_a_hold_stands_or_falls_together() -> None:
    world = make_world()
    ask(world)
    gate = open_gate()
    before = state_of(world)
    with transaction.atomic(), gate.hold():
        gate.append("title", {"title": "x"})
        transaction.set_rollback(True)
    assert state_of(world) == before


def test_the_result_of_a_call_that_broke_off_says_so() -> None:
    world = make_world()
    ask(world)
    gate = open_gate()
    said = reply(gate, call())
    found = search(gate)
    type(world.agent)._meta.apps.get_model("agents", "ToolCall").objects.update(
        state="intent", record=None
    )
    assert tell(gate, said, f"t.{found.tool_call_id}")[1].parts == (
        ToolResult("c1", GONE, is_error=True),
    )
