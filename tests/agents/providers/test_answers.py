"""What a good answer becomes, in all three dialects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.providers.contract import (
    Message,
    Opaque,
    ProviderRefused,
    StreamAccount,
    Text,
    ToolUse,
    Usage,
)
from tests.agents.providers.calls import ASK, KEY, Target, after_tools, cuts
from tests.providers.script import Call, Counted, Script, Thinking, cut_script

TWO_CALLS = Script(
    text=("Let me ", "look."),
    thinking=(Thinking(text="need both"), Thinking(text="and more", signature="c2lnLTI=")),
    calls=(
        Call(id="t1", name="search", arguments='{"query": "höhe"}'),
        Call(id="t2", name="search", arguments='{"query": "b"}'),
    ),
)


async def test_text_comes_piece_by_piece_and_whole(target: Target) -> None:
    target.server.add(Script(text=("The ", "total ", "is 412.")))
    heard = await target.hear()
    assert heard.pieces == ["The ", "total ", "is 412."]
    assert heard.end.parts == (Text("The total is 412."),)
    assert heard.end.stop_reason == "end"
    target.server.assert_used_up()


async def test_the_request_says_what_was_asked(target: Target) -> None:
    target.server.add(Script(text=("ok",)))
    await target.hear()
    [received] = target.server.requests
    assert (received.dialect, received.model) == (target.dialect, "m")
    assert (received.system, received.question) == ("Be brief.", "How many?")
    assert (received.tools, received.key) == (("search",), KEY)


async def test_tools_may_be_described_but_not_called(target: Target) -> None:
    target.server.add(Script(text=("ok",)), Script(text=("ok",)))
    await target.hear(replace(ASK, tool_choice="none"))
    await target.hear(replace(ASK, tool_choice="none", tools=()))
    described, bare = target.server.requests
    assert described.tools == ("search",)
    none = {"type": "none"} if target.kind == "anthropic" else "none"
    assert described.json["tool_choice"] == none
    assert "tool_choice" not in bare.json


async def test_pieces_are_yielded_when_they_come_not_at_the_end(target: Target) -> None:
    target.server.add(Script(text=("One ", "moment "), ending="hang"))
    stream = target.stream()
    first = await anext(stream)
    assert first.text == "One "  # type: ignore[union-attr]
    await stream.aclose()


async def test_parallel_tool_calls_keep_their_arguments_apart(target: Target) -> None:
    target.server.add(TWO_CALLS)
    heard = await target.hear()
    assert heard.calls == [
        ToolUse("t1", "search", '{"query": "höhe"}'),
        ToolUse("t2", "search", '{"query": "b"}'),
    ]
    assert heard.end.stop_reason == "tool_use"
    assert heard.text == "Let me look."


async def test_thinking_goes_back_unchanged_in_a_tool_round(target: Target) -> None:
    target.server.add(TWO_CALLS, Script(text=("Done.",)))
    asked = await target.hear()
    opaque = [part for part in asked.end.parts if isinstance(part, Opaque)]
    assert opaque
    assert all(part.provider == target.kind for part in opaque)
    answered = await target.hear(after_tools(asked, "first", "second"))
    assert answered.text == "Done."
    # The server compared every block with what it had issued, and each call with its result.
    target.server.assert_used_up()
    assert target.server.requests[1].results == ("first", "second")


async def test_altered_thinking_would_have_been_refused(target: Target) -> None:
    target.server.add(TWO_CALLS)
    asked = await target.hear()
    kept = tuple(part for part in asked.end.parts if not isinstance(part, Opaque))
    asked.finished = replace(asked.end, parts=kept)
    request = after_tools(asked, "first", "second")
    with pytest.raises(ProviderRefused):
        await target.hear(request)
    assert "thinking blocks" in target.server.requests[1].refusal


async def test_opaque_blocks_go_to_no_other_provider(target: Target) -> None:
    target.server.add(Script(text=("ok",)))
    foreign = Opaque("elsewhere", {"type": "thinking", "thinking": "SECRET"})
    history = (*ASK.messages, Message("assistant", (foreign, Text("Hm."))), *ASK.messages)
    await target.hear(replace(ASK, messages=history))
    assert b"SECRET" not in target.server.requests[0].raw
    target.server.assert_used_up()


async def test_usage_is_reported_as_counted(target: Target) -> None:
    counted = Counted(input=100, output=30, cached=60, reasoning=12)
    target.server.add(Script(text=("ok",), usage=counted))
    account = StreamAccount()
    heard = await target.hear(account=account)
    assert heard.end.usage == Usage(100, 30, 60, 12, estimated=False)
    assert account.usage == heard.end.usage
    assert heard.end.raw_usage


async def test_a_limit_in_length_is_told(target: Target) -> None:
    target.server.add(Script(text=("Once upon",), stop="length"))
    heard = await target.hear()
    assert (heard.text, heard.end.stop_reason) == ("Once upon", "length")


async def test_a_refusal_by_the_model_is_an_answer(target: Target) -> None:
    target.server.add(Script(text=("I can't help with that.",), stop="refusal"))
    heard = await target.hear()
    assert (heard.text, heard.end.stop_reason) == ("I can't help with that.", "refusal")


async def test_malformed_arguments_are_passed_on_as_they_came(target: Target) -> None:
    calls = (
        Call(id="a1", name="create_note", arguments='{"title": "Q1"}{"title": "Q2"}'),
        Call(id="a2", name="list_notes", arguments=""),
        Call(id="a3", name="create_note", arguments='{"title": "cut o'),
    )
    target.server.add(Script(calls=calls, stop="length"), Script(text=("Sorry.",)))
    heard = await target.hear()
    assert [(call.id, call.arguments_raw) for call in heard.calls] == [
        ("a1", '{"title": "Q1"}{"title": "Q2"}'),
        ("a2", ""),
        ("a3", '{"title": "cut o'),
    ]
    assert heard.end.stop_reason == "length"
    # And the history that holds them is still one the provider accepts.
    assert (await target.hear(after_tools(heard, "bad", "[]", "bad"))).text == "Sorry."
    target.server.assert_used_up()


async def test_an_interrupted_call_gets_an_error_result_first(target: Target) -> None:
    target.server.add(TWO_CALLS, Script(text=("Hello.",)))
    asked = await target.hear()
    history = (*ASK.messages, Message("assistant", asked.end.parts))
    again = replace(ASK, messages=(*history, Message("user", (Text("hello"),))))
    assert (await target.hear(again)).text == "Hello."
    target.server.assert_used_up()


async def test_characters_cut_by_network_reads_stay_whole(target: Target) -> None:
    text = "你好世界 🌍 fin"
    body = target.body(Script(text=(text,)))
    middle = body.index("🌍".encode()) + 2
    raw = (body[: middle - 1], body[middle - 1 : middle], body[middle:])
    target.server.add(Script(raw=raw))
    heard = await target.hear()
    assert heard.text == text


async def test_a_surrogate_pair_split_over_two_pieces_is_joined(target: Target) -> None:
    # JSON escapes let a provider cut an emoji in two halves that are no characters.
    body = target.body(Script(text=("wave LEFT", "RIGHT over LEFT")))
    raw = body.replace(b"LEFT", rb"\ud83c").replace(b"RIGHT", rb"\udf0a")
    target.server.add(Script(raw=(raw,)))
    heard = await target.hear()
    assert heard.text == "wave 🌊 over \ufffd"
    assert heard.end.parts == (Text(heard.text),)


async def test_any_cut_of_the_stream_gives_the_same_message(target: Target) -> None:
    script = replace(TWO_CALLS, text=("Größe: ", "你好 🌍."), usage=Counted(input=9, output=30))
    body = target.body(script)
    positions = cuts(body)
    assert len(positions) >= 20
    for at in positions:
        target.server.add(cut_script(body, at=at))
        heard = await target.hear()
        assert heard.pieces == ["Größe: ", "你好 🌍."], at
        assert [call.id for call in heard.calls] == ["t1", "t2"], at
        assert heard.calls[0].arguments_raw == '{"query": "höhe"}', at
        assert heard.end.usage == Usage(9, 30), at
    target.server.assert_used_up()


async def test_one_connection_serves_many_calls(target: Target) -> None:
    target.server.add(Script(text=("a",)), Script(text=("b",)))
    await target.hear()
    await target.hear()
    assert len(target.server._open) == 1
