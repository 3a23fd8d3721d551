"""The shared failure cases that concern the providers, each served from its recorded file."""

from __future__ import annotations

import json

import pytest

from agents.providers.contract import Opaque, ProviderOverloaded, Text, ToolUse, Usage
from tests.agents.providers.calls import Target, after_tools, case_file, cuts
from tests.providers.script import Script, cut_script, file_script
from tests.providers.server import ModelServer


@pytest.fixture
def chat(server: ModelServer) -> Target:
    """The Chat Completions adapter."""
    return Target(kind="openai_compatible", server=server)


@pytest.fixture
def claude(server: ModelServer) -> Target:
    """The Messages adapter."""
    return Target(kind="anthropic", server=server)


async def test_k45_characters_cut_by_network_reads(chat: Target) -> None:
    chunks = json.loads(case_file("openai-utf8-split.json").read_text("utf-8"))["chunks"]
    chat.server.add(Script(raw=tuple(bytes.fromhex(chunk) for chunk in chunks)))
    heard = await chat.hear()
    assert heard.text == "你好世界 🌍 fin"
    assert heard.end.usage == Usage(10, 5)
    chat.server.assert_used_up()


async def test_k45_cut_anywhere(chat: Target) -> None:
    chunks = json.loads(case_file("openai-utf8-split.json").read_text("utf-8"))["chunks"]
    body = b"".join(bytes.fromhex(chunk) for chunk in chunks)
    for at in cuts(body):
        chat.server.add(cut_script(body, at=at))
        heard = await chat.hear()
        assert (heard.text, heard.end.usage) == ("你好世界 🌍 fin", Usage(10, 5)), at


async def test_k48_thinking_and_two_tools_go_back_unchanged(claude: Target) -> None:
    claude.server.add(
        file_script(case_file("anthropic-thinking-then-two-tools.sse")), Script(text=("Done.",))
    )
    heard = await claude.hear()
    assert heard.end.parts == (
        Opaque(
            "anthropic",
            {"type": "thinking", "thinking": "need both", "signature": "c2lnLTE="},
        ),
        Opaque("anthropic", {"type": "redacted_thinking", "data": "cmVk"}),
        ToolUse("toolu_1", "search", '{"q":"a"}'),
        ToolUse("toolu_2", "search", '{"q":"b"}'),
    )
    assert heard.end.usage == Usage(9, 30)
    await claude.hear(after_tools(heard, "ra", "rb"))
    assert claude.server.requests[1].json["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "need both", "signature": "c2lnLTE="},
                {"type": "redacted_thinking", "data": "cmVk"},
                {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"q": "a"}},
                {"type": "tool_use", "id": "toolu_2", "name": "search", "input": {"q": "b"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ra"},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "rb"},
            ],
        },
    ]
    claude.server.assert_used_up()


async def test_k48_thinking_and_two_tools_cut_anywhere(claude: Target) -> None:
    body = case_file("anthropic-thinking-then-two-tools.sse").read_bytes()
    for at in cuts(body):
        claude.server.add(cut_script(body, at=at))
        heard = await claude.hear()
        assert [part.arguments_raw for part in heard.calls] == ['{"q":"a"}', '{"q":"b"}'], at


async def test_k50_chunks_without_choices_or_delta(chat: Target) -> None:
    chat.server.add(file_script(case_file("openai-empty-and-null-choices.sse")))
    heard = await chat.hear()
    assert heard.end.parts == (Text("Hello"),)
    assert (heard.text, heard.end.stop_reason, heard.end.usage) == ("Hello", "end", Usage(10, 5))
    assert heard.end.raw_usage == {
        "completion_tokens": 5,
        "prompt_tokens": 10,
        "total_tokens": 15,
    }


async def test_k52_overload_first(claude: Target) -> None:
    claude.server.add(file_script(case_file("anthropic-overloaded-first.sse")))
    with pytest.raises(ProviderOverloaded) as caught:
        await claude.hear()
    assert (caught.value.retryable, caught.value.partial_text) == (True, "")


async def test_k52_overload_after_text(claude: Target) -> None:
    claude.server.add(file_script(case_file("anthropic-overloaded-after-text.sse")))
    with pytest.raises(ProviderOverloaded) as caught:
        await claude.hear()
    assert caught.value.partial_text == "The total is 41"
    assert caught.value.usage_so_far == Usage(9, 4, estimated=True)


async def test_k54_bad_tool_arguments(chat: Target) -> None:
    chat.server.add(
        file_script(case_file("openai-bad-tool-args.sse")), Script(text=("I will try again.",))
    )
    heard = await chat.hear()
    assert heard.end.parts == (
        ToolUse("a1", "create_note", '{"title": "Q1"}{"title": "Q2"}'),
        ToolUse("a2", "list_notes", ""),
        ToolUse("a3", "create_note", '{"title": "cut o'),
    )
    assert heard.end.stop_reason == "length"
    assert heard.end.usage.estimated  # the file reports none
    assert (await chat.hear(after_tools(heard, "bad", "[]", "cut"))).text == "I will try again."
    chat.server.assert_used_up()
