"""What servers that are only nearly compatible send, and what the Chat adapter makes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.providers.catalog import build
from agents.providers.contract import Opaque, StreamAccount, Text, Usage
from tests.agents.providers.calls import ASK, Heard, Target, after_tools
from tests.providers.script import Script
from tests.providers.server import ModelServer


@pytest.fixture
def chat(server: ModelServer) -> Target:
    """The Chat Completions adapter."""
    return Target(kind="openai_compatible", server=server)


def chunks(*deltas: dict[str, Any], reason: str | None = "stop", **last: Any) -> Script:
    """A stream of these deltas, ended by `reason`."""
    events = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    if reason:
        events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], **last})
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return Script(raw=("".join(lines).encode(),))


def call(index: int | None, id: str | None, name: str | None, arguments: str) -> dict[str, Any]:
    """A delta with one piece of a tool call."""
    piece: dict[str, Any] = {"function": {"name": name, "arguments": arguments}}
    if index is not None:
        piece["index"] = index
    if id is not None:
        piece["id"] = id
    return {"tool_calls": [piece]}


def told(heard: Heard) -> list[tuple[str, str, str]]:
    """The calls as plain values."""
    return [(use.id, use.name, use.arguments_raw) for use in heard.calls]


async def test_every_call_under_index_0(chat: Target) -> None:
    chat.server.add(chunks(call(0, "x", "search", '{"q":1}'), call(0, "y", "search", '{"q":2}')))
    heard = await chat.hear()
    assert told(heard) == [("x", "search", '{"q":1}'), ("y", "search", '{"q":2}')]
    assert heard.end.stop_reason == "tool_use"  # although the server said "stop"


async def test_no_index_at_all(chat: Target) -> None:
    chat.server.add(
        chunks(
            call(None, "x", "search", '{"q"'), call(None, None, None, ":1}"), reason="tool_calls"
        )
    )
    assert told(await chat.hear()) == [("x", "search", '{"q":1}')]


async def test_id_and_name_repeated_in_every_piece(chat: Target) -> None:
    chat.server.add(chunks(call(0, "x", "search", '{"q"'), call(0, "x", "search", ":1}")))
    assert told(await chat.hear()) == [("x", "search", '{"q":1}')]


async def test_no_id_gets_one_that_no_other_call_has(chat: Target) -> None:
    chat.server.add(*(chunks(call(0, None, "search", "{}")) for _ in range(2)))
    first, second = await chat.hear(), await chat.hear()
    assert first.calls[0].id
    assert first.calls[0].id != second.calls[0].id


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
async def test_reasoning_goes_back_under_its_own_name(chat: Target, name: str) -> None:
    chat.server.add(
        chunks({name: "let me "}, {name: "see"}, call(0, "x", "search", "{}")),
        Script(text=("ok",)),
    )
    heard = await chat.hear()
    assert heard.end.parts[0] == Opaque("openai_compatible", {name: "let me see"})
    assert heard.text == ""
    await chat.hear(after_tools(heard, "r"))
    assert chat.server.requests[1].json["messages"][2][name] == "let me see"


async def test_no_usage_is_estimated_and_says_so(chat: Target) -> None:
    chat.server.add(chunks({"content": "Hello there, "}, {"content": "friend."}))
    account = StreamAccount()
    heard = await chat.hear(account=account)
    assert heard.end.usage.estimated
    assert heard.end.usage.output_tokens == 5
    assert heard.end.usage.input_tokens > 10
    assert account.usage == heard.end.usage


async def test_usage_in_every_chunk_is_taken_once(chat: Target) -> None:
    events = [
        {
            "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": reason}],
            "usage": {"prompt_tokens": 10, "completion_tokens": count},
        }
        for count, reason in ((1, None), (2, None), (3, "stop"))
    ]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    chat.server.add(Script(raw=(body.encode(),)))
    heard = await chat.hear()
    assert (heard.text, heard.end.usage) == ("aaa", Usage(10, 3))


async def test_an_end_without_done_is_an_end(chat: Target) -> None:
    chat.server.add(chunks({"content": "a"}))
    assert (await chat.hear()).end.parts == (Text("a"),)


async def test_an_error_in_the_stream_with_a_numeric_code(chat: Target) -> None:
    error = {"error": {"message": "no slot", "code": 503, "type": "unavailable"}}
    chat.server.add(Script(raw=(f"data: {json.dumps(error)}\n\n".encode(),)))
    with pytest.raises(Exception, match="overloaded"):
        await chat.hear()


async def test_no_key_sends_no_key() -> None:
    async with ModelServer() as server:
        server.add(Script(text=("ok",)))
        events = [
            event
            async for event in build("openai_compatible", base_url=server.openai_url).stream(ASK)
        ]
    assert len(events) == 2
    assert "authorization" not in server.requests[0].headers


async def test_the_environment_adds_nothing(chat: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-leak")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-leak")
    chat.server.add(Script(text=("ok",)))
    await chat.hear()
    assert "leak" not in str(dict(chat.server.requests[0].headers))
