"""What a reply means, and how runs of calls are cut and compared."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.runtime import steps
from agents.runtime.protocol import ModelReply, StopReason, ToolCall, ToolReply
from agents.runtime.steps import Answer, CallTools, Repeats, Stop

CALL = ToolCall(call_id="c1", name="search", arguments="{}")
LIMIT = Stop("limit", "steps")
EMPTY = Stop("failed", "empty_reply")


def reply(
    text: str = "", *, calls: tuple[ToolCall, ...] = (), stop: StopReason = "end"
) -> ModelReply:
    return ModelReply(
        request_id="m1", ref="a1", text_tokens=1, text=text, tool_calls=calls, stop=stop
    )


def result(summary: str = "", *, empty: bool = False) -> ToolReply:
    return ToolReply(
        request_id="t1", ref="r1", tokens=1, outcome="ok", empty=empty, summary=summary
    )


@pytest.mark.parametrize(
    ("given_reply", "expected"),
    [
        (reply("Yes."), Answer("end")),
        (reply("Yes", stop="length"), Answer("length")),
        (reply("Yes.", stop="tool_use"), Answer("end")),
        (reply("No.", stop="refusal"), Answer("refusal")),
        (reply(stop="refusal"), Stop("failed", "refusal")),
        (reply("Let me see.", calls=(CALL,), stop="tool_use"), CallTools((CALL,))),
        (reply(calls=(CALL,), stop="length"), CallTools((CALL,))),
        (reply(calls=(CALL,), stop="end"), CallTools((CALL,))),
        (reply("\n \t"), Stop("failed", "empty_reply", steps.NOTES["empty_reply"])),
        (reply(stop="tool_use"), Stop("failed", "empty_reply", steps.NOTES["empty_reply"])),
    ],
)
def test_decide(given_reply: ModelReply, expected: steps.Step) -> None:
    assert steps.decide(reply=given_reply) == expected


@pytest.mark.parametrize(
    ("given_reply", "ending", "withheld", "expected"),
    [
        (reply("Yes."), LIMIT, True, LIMIT),
        (reply(), LIMIT, True, LIMIT),
        (reply(calls=(CALL,)), LIMIT, True, LIMIT),
        (reply("Yes."), LIMIT, False, Answer("end")),
        (reply("Yes.", calls=(CALL,)), LIMIT, False, LIMIT),
        (reply(), LIMIT, False, Stop("failed", "empty_reply")),
        (reply("Yes."), EMPTY, True, Answer("end")),
        (reply(), EMPTY, True, EMPTY),
        (reply("No.", stop="refusal"), LIMIT, True, Answer("refusal")),
        (reply(stop="refusal"), LIMIT, True, Stop("failed", "refusal")),
    ],
)
def test_close(
    given_reply: ModelReply, ending: Stop, withheld: bool, expected: Answer | Stop
) -> None:
    assert steps.close(reply=given_reply, ending=ending, withheld=withheld) == expected


@settings(deadline=None)
@given(names=st.lists(st.sampled_from(["read", "look", "write", "unknown"])))
def test_batches_keep_the_order_and_nothing_but_readers_share_one(names: list[str]) -> None:
    calls = [ToolCall(call_id=f"c{n}", name=name, arguments="") for n, name in enumerate(names)]
    groups = steps.batches(calls=calls, readers={"read", "look"})
    assert [call for group in groups for call in group] == calls
    for group in groups:
        assert len(group) == 1 or {call.name for call in group} <= {"read", "look"}


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ('{"a":1,"b":[2]}', ' {"b": [2], "a": 1}', True),
        ('{"a":1}', '{"a":2}', False),
        ('{"a":1}', '{"a":"1"}', False),
        ("not json", " not json\n", True),
        ("[" * 100_000, "[" * 100_000, True),
        ("9" * 5_000, "9" * 5_000, True),
        ('{"a":"\\ud800"}', '{"a": "\\uD800"}', True),
    ],
)
def test_canonical(one: str, other: str, equal: bool) -> None:
    assert (steps.canonical(one) == steps.canonical(other)) is equal


@settings(deadline=None)
@given(st.text())
def test_canonical_takes_any_text(text: str) -> None:
    assert isinstance(steps.canonical(text), str)


def test_repeats_count_equal_results_of_equal_calls() -> None:
    repeats = Repeats(most=3)
    assert [repeats.add(done=[(CALL, result(empty=True))]) for _ in range(3)] == [
        False,
        False,
        True,
    ]


def test_repeats_start_again_when_the_result_changes() -> None:
    repeats = Repeats(most=2)
    found = [repeats.add(done=[(CALL, result(text))]) for text in ("1", "2", "1", "1")]
    assert found == [False, False, False, True]


def test_the_same_call_twice_in_one_step_counts_once() -> None:
    repeats = Repeats(most=2)
    assert repeats.add(done=[(CALL, result()), (CALL, result())]) is False


def test_no_cap_on_repeats_never_finds_one() -> None:
    repeats = Repeats(most=0)
    assert not any(repeats.add(done=[(CALL, result())]) for _ in range(20))
