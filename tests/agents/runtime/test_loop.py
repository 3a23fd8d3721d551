"""Stories of single runs, told through `loop.execute` with a scripted backend."""

from __future__ import annotations

import asyncio

import pytest

from agents.runtime import loop, steps
from agents.runtime.protocol import ContextItem, Finish, Start, ToolOffer
from agents.runtime.recovery import Policy
from agents.runtime.steps import Wait
from agents.runtime.testing import (
    Errs,
    Gives,
    Hangs,
    Says,
    ScriptedBridge,
    ScriptedModel,
    ScriptError,
)
from tests.agents.runtime.starts import IMPATIENT, POLICY, SEARCH, limits, offer, start


async def execute(
    bridge: ScriptedBridge, begin: Start | None = None, policy: Policy = POLICY
) -> tuple[str, str, int] | Wait:
    """Run to the end; what was told to the backend as (outcome, reason, model calls)."""
    with bridge:
        end = await asyncio.wait_for(
            loop.execute(start=begin or start(), backend=bridge, policy=policy), 10
        )
    if isinstance(end, Finish):
        assert bridge.finishes == [end]
        return end.outcome, end.reason, end.step
    assert bridge.finishes == []
    return end


def search_for_ever(*words: str) -> ScriptedModel:
    """Searches for each of the words and then for the last one until stopped."""
    return ScriptedModel([Says(calls=(("search", word),)) for word in words], forever=True)


async def test_answer_without_tools_is_one_model_call() -> None:
    bridge = ScriptedBridge(ScriptedModel([Says("Thirty days.")]))
    assert await execute(bridge) == ("answered", "end", 1)
    (request,) = bridge.model_requests
    assert (request.run, request.attempt, request.lease) == ("run-1", 1, "lease-run-1")
    assert (request.request_id, request.step) == ("run-1:1:m1.1", 1)
    assert (request.context, request.allow_tools, request.note) == (("u1",), True, None)


async def test_one_tool_then_answer_carries_the_references_in_order() -> None:
    bridge = ScriptedBridge(
        ScriptedModel([Says(calls=(("search", SEARCH),)), Says("Found.")]),
        tools={"search": [Gives(summary="2 passages")]},
    )
    assert await execute(bridge) == ("answered", "end", 2)
    assert [request.context for request in bridge.model_requests] == [
        ("u1",),
        ("u1", "a1", "r:c1.1"),
    ]
    (call,) = bridge.tool_requests
    assert (call.request_id, call.step, call.call_id) == ("run-1:1:t1.1", 1, "c1.1")
    assert (call.name, call.arguments) == ("search", SEARCH)


async def test_reading_tools_run_side_by_side_and_their_results_keep_the_calls_order() -> None:
    calls = tuple(("search", f'{{"q":"{word}"}}') for word in "abc")
    bridge = ScriptedBridge(
        ScriptedModel([Says(calls=calls), Says("Found.")]),
        tools={"search": [Gives(seconds=0.05), Gives(seconds=0.03), Gives(seconds=0.01)]},
    )
    assert await execute(bridge) == ("answered", "end", 2)
    assert bridge.most_at_once == 3
    assert bridge.model_requests[1].context == ("u1", "a1", "r:c1.1", "r:c1.2", "r:c1.3")


async def test_no_more_tools_run_at_once_than_allowed() -> None:
    calls = tuple(("search", f'{{"q":"{word}"}}') for word in "abcde")
    bridge = ScriptedBridge(
        ScriptedModel([Says(calls=calls), Says("Found.")]),
        tools={"search": [Gives(seconds=0.01)] * 5},
    )
    await execute(bridge, start(bounds=limits(max_parallel_tools=2)))
    assert bridge.most_at_once == 2


async def test_tools_that_change_something_run_one_after_the_other() -> None:
    calls = (("note", "1"), ("note", "2"), ("search", SEARCH))
    bridge = ScriptedBridge(
        ScriptedModel([Says(calls=calls), Says("Done.")]),
        tools={"note": [Gives(seconds=0.01)] * 2, "search": [Gives()]},
    )
    await execute(bridge, start(tools=[offer("note", "write"), offer("search")]))
    assert bridge.most_at_once == 1
    assert [request.call_id for request in bridge.tool_requests] == ["c1.1", "c1.2", "c1.3"]


async def test_k55_a_model_that_never_stops_gets_exactly_twelve_calls() -> None:
    model = search_for_ever(*(f'{{"q":{number}}}' for number in range(12)))
    bridge = ScriptedBridge(model, always={"search": Gives(empty=True)})
    assert await execute(bridge) == ("limit", "steps", 12)
    assert len(bridge.model_requests) == 12
    assert len(bridge.tool_requests) == 11
    assert [request.allow_tools for request in bridge.model_requests] == [True] * 11 + [False]
    assert bridge.model_requests[11].note == steps.NOTES["steps"]


@pytest.mark.parametrize("words", [[SEARCH], ['{"q":"a"}', '{"q":"b"}'] * 6])
async def test_k55_the_cap_counts_repeated_and_alternating_calls(words: list[str]) -> None:
    bridge = ScriptedBridge(search_for_ever(*words), always={"search": Gives(empty=True)})
    ending = await execute(bridge, start(bounds=limits(max_repeats=0)))
    assert ending == ("limit", "steps", 12)
    assert len(bridge.model_requests) == 12


async def test_k55_unknown_and_ungranted_tools_are_error_results_and_the_loop_goes_on() -> None:
    lines = [
        Says(calls=(("delete_everything", "{}"),)),
        Says(calls=(("read_document", "{}"),)),
        Says("I can't do that."),
    ]
    bridge = ScriptedBridge(
        ScriptedModel(lines), tools={"read_document": [Gives(outcome="denied")]}
    )
    assert await execute(bridge, start(tools=[offer("search")])) == ("answered", "end", 3)
    assert [call.name for call in bridge.tool_requests] == ["delete_everything", "read_document"]
    assert bridge.model_requests[2].context == ("u1", "a1", "r:c1.1", "a2", "r:c2.1")


async def test_the_last_permitted_call_lets_the_model_close_with_what_it_has() -> None:
    lines = [Says(calls=(("search", SEARCH),)), Says("As far as I found: thirty days.")]
    bridge = ScriptedBridge(ScriptedModel(lines), tools={"search": [Gives()]})
    assert await execute(bridge, start(bounds=limits(max_steps=2))) == ("limit", "steps", 2)


async def test_a_run_without_tools_may_answer_in_its_only_call() -> None:
    bridge = ScriptedBridge(ScriptedModel([Says("Hello.")]))
    ending = await execute(bridge, start(tools=[], bounds=limits(max_steps=1)))
    assert ending == ("answered", "end", 1)
    assert (bridge.model_requests[0].allow_tools, bridge.model_requests[0].note) == (False, None)


async def test_the_same_call_with_the_same_result_three_times_ends_in_one_closing_call() -> None:
    spellings = ['{"q":"x","n":1}', '{"n":1,"q":"x"}', ' { "q" : "x", "n" : 1 } ']
    lines = [Says(calls=(("search", text),)) for text in spellings]
    bridge = ScriptedBridge(
        ScriptedModel([*lines, Says("Nothing was found.")]), always={"search": Gives(empty=True)}
    )
    assert await execute(bridge) == ("limit", "repeated_calls", 4)
    assert bridge.model_requests[3].allow_tools is False
    assert bridge.model_requests[3].note == steps.NOTES["repeated_calls"]


async def test_alternating_calls_are_noticed_as_well() -> None:
    bridge = ScriptedBridge(
        search_for_ever('{"q":"a"}', '{"q":"b"}', '{"q":"a"}', '{"q":"b"}', '{"q":"a"}', "{}"),
        always={"search": Gives(empty=True)},
    )
    assert await execute(bridge) == ("limit", "repeated_calls", 6)
    assert len(bridge.tool_requests) == 5


async def test_the_same_call_with_another_result_is_not_a_loop() -> None:
    results = [Gives(summary=f"{percent} % done") for percent in range(0, 100, 20)]
    bridge = ScriptedBridge(
        ScriptedModel([*[Says(calls=(("search", SEARCH),))] * 5, Says("Done.")]),
        tools={"search": results},
    )
    assert await execute(bridge) == ("answered", "end", 6)


async def test_used_up_tool_calls_are_cut_off_and_the_model_closes() -> None:
    calls = tuple(("search", f'{{"q":"{word}"}}') for word in "abc")
    bridge = ScriptedBridge(
        ScriptedModel([Says(calls=calls), Says("From two of three.")]),
        tools={"search": [Gives(), Gives()]},
    )
    ending = await execute(bridge, start(bounds=limits(max_tool_calls=2)))
    assert ending == ("limit", "tool_calls", 2)
    assert [call.call_id for call in bridge.tool_requests] == ["c1.1", "c1.2"]
    assert bridge.model_requests[1].allow_tools is False
    assert bridge.model_requests[1].note == steps.NOTES["tool_calls"]


@pytest.mark.parametrize("tools", [[], [offer("search")]])
async def test_with_no_tool_calls_allowed_none_is_asked_for(tools: list[ToolOffer]) -> None:
    bridge = ScriptedBridge(ScriptedModel([Says(calls=(("search", SEARCH),)), Says("No tools.")]))
    ending = await execute(bridge, start(tools=tools, bounds=limits(max_tool_calls=0)))
    assert ending == ("answered", "end", 2)
    assert bridge.tool_requests == []
    assert [request.allow_tools for request in bridge.model_requests] == [False, False]


async def test_k54_malformed_and_cut_arguments_go_to_the_backend_as_they_are() -> None:
    calls = (("search", '{"q":"x"}{"q":"y"}'), ("search", "{}"), ("search", '{"q": "cut o'))
    bridge = ScriptedBridge(
        ScriptedModel([Says(calls=calls, stop="length"), Says("Once more.")]),
        tools={"search": [Gives(outcome="error"), Gives(), Gives(outcome="error")]},
    )
    assert await execute(bridge) == ("answered", "end", 2)
    assert [call.arguments for call in bridge.tool_requests] == [raw for _, raw in calls]
    assert bridge.model_requests[1].context == ("u1", "a1", "r:c1.1", "r:c1.2", "r:c1.3")


async def test_results_that_fill_the_context_end_in_a_closing_call() -> None:
    bridge = ScriptedBridge(
        ScriptedModel([Says(calls=(("search", SEARCH),)), Says("In short: yes.")]),
        tools={"search": [Gives(tokens=950)]},
    )
    ending = await execute(bridge, start(bounds=limits(context_tokens=1_000)))
    assert ending == ("limit", "context", 2)
    assert bridge.model_requests[1].note == steps.NOTES["context"]


async def test_older_turns_leave_the_context_when_results_need_the_room() -> None:
    context = [
        ContextItem(ref="u0", kind="user", tokens=300),
        ContextItem(ref="a0", kind="assistant", tokens=300),
        ContextItem(ref="u1", kind="user", tokens=100),
    ]
    bridge = ScriptedBridge(
        ScriptedModel([Says(calls=(("search", SEARCH),)), Says("Found.")]),
        tools={"search": [Gives(tokens=400)]},
    )
    await execute(bridge, start(context=context, bounds=limits(context_tokens=1_000)))
    assert [request.context for request in bridge.model_requests] == [
        ("u0", "a0", "u1"),
        ("u1", "a1", "r:c1.1"),
    ]


async def test_an_empty_reply_is_asked_about_once_and_is_not_part_of_the_context() -> None:
    bridge = ScriptedBridge(ScriptedModel([Says(" \n"), Says("Here it is.")]))
    assert await execute(bridge) == ("answered", "end", 2)
    assert bridge.model_requests[1].context == ("u1",)
    assert bridge.model_requests[1].note == steps.NOTES["empty_reply"]


async def test_two_empty_replies_are_a_failure() -> None:
    bridge = ScriptedBridge(ScriptedModel([Says(), Says()]))
    assert await execute(bridge) == ("failed", "empty_reply", 2)


async def test_an_answer_cut_by_length_says_so() -> None:
    bridge = ScriptedBridge(ScriptedModel([Says("Thirty d", stop="length")]))
    assert await execute(bridge) == ("answered", "length", 1)


async def test_a_refusal_runs_no_tools() -> None:
    line = Says("I won't.", calls=(("search", SEARCH),), stop="refusal")
    bridge = ScriptedBridge(ScriptedModel([line]))
    assert await execute(bridge) == ("answered", "refusal", 1)
    assert bridge.tool_requests == []


async def test_a_held_call_ends_the_loop_quietly_and_later_calls_are_not_made() -> None:
    calls = (("search", SEARCH), ("send", "1"), ("send", "2"))
    bridge = ScriptedBridge(
        ScriptedModel([Says(calls=calls)]),
        tools={"search": [Gives()], "send": [Gives(outcome="held")]},
    )
    ending = await execute(bridge, start(tools=[offer("search"), offer("send", "external")]))
    assert ending == Wait(("c1.2",))
    assert [call.call_id for call in bridge.tool_requests] == ["c1.1", "c1.2"]


async def test_a_retryable_error_is_asked_again_within_the_same_step() -> None:
    again = Errs("overloaded", retry=True)
    bridge = ScriptedBridge(ScriptedModel([again, again, Says("At last.")]))
    assert await execute(bridge) == ("answered", "end", 1)
    asked = [(request.step, request.request_id) for request in bridge.model_requests]
    assert asked == [(1, "run-1:1:m1.1"), (1, "run-1:1:m1.2"), (1, "run-1:1:m1.3")]


async def test_retries_are_bounded() -> None:
    bridge = ScriptedBridge(ScriptedModel([Errs("overloaded", retry=True)] * 4))
    assert await execute(bridge) == ("failed", "overloaded", 1)


async def test_a_final_error_of_the_model_fails_the_run_with_its_code() -> None:
    bridge = ScriptedBridge(ScriptedModel([Errs("budget_exhausted")]))
    assert await execute(bridge) == ("failed", "budget_exhausted", 1)


async def test_a_tool_that_has_no_result_at_all_fails_the_run() -> None:
    bridge = ScriptedBridge(
        ScriptedModel([Says(calls=(("search", SEARCH),))]), tools={"search": [Errs("unavailable")]}
    )
    assert await execute(bridge) == ("failed", "unavailable", 1)


async def test_a_retried_tool_call_keeps_its_call_id() -> None:
    bridge = ScriptedBridge(
        ScriptedModel([Says(calls=(("search", SEARCH),)), Says("Found.")]),
        tools={"search": [Errs("busy", retry=True), Gives()]},
    )
    assert await execute(bridge) == ("answered", "end", 2)
    asked = [(call.call_id, call.request_id) for call in bridge.tool_requests]
    assert asked == [("c1.1", "run-1:1:t1.1"), ("c1.1", "run-1:1:t1.2")]


async def test_silence_is_not_asked_again() -> None:
    bridge = ScriptedBridge(ScriptedModel([Hangs()]))
    assert await execute(bridge, policy=IMPATIENT) == ("failed", "model_timeout", 1)
    assert len(bridge.model_requests) == 1


async def test_the_wall_clock_ends_a_run_in_the_middle_of_a_call() -> None:
    bridge = ScriptedBridge(
        ScriptedModel([Says(calls=(("search", SEARCH),))]), tools={"search": [Hangs()]}
    )
    ending = await execute(bridge, start(bounds=limits(wall_seconds=0.05)))
    assert ending == ("limit", "time", 1)


async def test_cancelling_sends_nothing_more() -> None:
    bridge = ScriptedBridge(
        ScriptedModel([Says(calls=(("search", SEARCH),))]), tools={"search": [Hangs()]}
    )
    task = asyncio.create_task(loop.execute(start=start(), backend=bridge, policy=POLICY))
    while not bridge.tool_requests:
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bridge.finishes == []
    assert len(bridge.tool_requests) == 1


async def test_a_script_that_is_not_used_up_fails_its_test() -> None:
    bridge = ScriptedBridge(ScriptedModel([Says("One."), Says("Two.")]))
    with pytest.raises(ScriptError, match="1 model replies were not used"):
        await execute(bridge)
