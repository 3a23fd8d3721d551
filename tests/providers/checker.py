"""Refuses a history that the real providers would refuse, and says why.

Every tool call has exactly one result in the very next message; thinking and reasoning that the
server issued come back unaltered and in order with the calls they led to; nothing is empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.providers.received import Dialect, Received

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_THINKING = {"thinking", "redacted_thinking", "reasoning"}
_REASONING_FIELDS = ("reasoning_content", "reasoning")
Block = dict[str, Any]


class Refused(Exception):
    """The request breaks a rule; the text says which."""


@dataclass(slots=True)
class Turn:
    """One assistant turn of a history, in no dialect: what it thought, which tools it called."""

    thinking: list[Block] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Checker:
    """Remembers which thinking led to which call, and checks histories against it."""

    issued: dict[str, list[Block]] = field(default_factory=dict)

    def learn(self, dialect: Dialect, sent: bytes) -> None:
        """Take note of what an answer's bytes contained."""
        events = list(_events(sent))
        read = {"chat": _read_chat, "messages": _read_messages, "responses": _read_responses}
        thinking, calls = read[dialect](events)
        for call in calls:
            self.issued[call] = thinking

    def check(self, request: Received) -> None:
        """Raises Refused."""
        body = request.json
        if body.get("stream") is not True:
            raise Refused("stream must be true")
        if not request.model:
            raise Refused("model is required")
        self._check_tools(request)
        read = {"chat": _chat_turns, "messages": _message_turns, "responses": _response_turns}
        seen: set[str] = set()
        for turn in read[request.dialect](body):
            self._check_turn(turn, seen=seen)

    def _check_tools(self, request: Received) -> None:
        for tool in request.json.get("tools") or []:
            function = tool.get("function", tool)
            schema = function.get("input_schema") or function.get("parameters") or {}
            if not _NAME.fullmatch(str(function.get("name"))):
                raise Refused(f"tool name {function.get('name')!r} is not allowed")
            if schema.get("type") != "object":
                raise Refused(f"schema of tool {function['name']} must be of type object")

    def _check_turn(self, turn: Turn, *, seen: set[str]) -> None:
        for call in turn.calls:
            if call in seen:
                raise Refused(f"tool call id {call} occurs twice")
            seen.add(call)
            if turn.results.count(call) != 1:
                count = turn.results.count(call)
                raise Refused(f"tool call {call} has {count} results in the next message")
        for result in turn.results:
            if result not in turn.calls:
                raise Refused(f"tool result {result} answers no call of the message before")
        expected = next((self.issued[call] for call in turn.calls if call in self.issued), None)
        if expected is not None and turn.thinking != expected:
            raise Refused("thinking blocks of the latest turn were altered, dropped or reordered")


def _events(sent: bytes) -> Iterable[Mapping[str, Any]]:
    for line in sent.decode("utf-8", "replace").splitlines():
        if not line.startswith("data:"):
            continue
        try:
            event = json.loads(line.removeprefix("data:"))
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


Issued = tuple[list[Block], list[str]]


def _read_chat(events: list[Mapping[str, Any]]) -> Issued:
    reasoning: dict[str, str] = {}
    calls = []
    for event in events:
        for choice in event.get("choices") or []:
            delta = choice.get("delta") or {}
            for name in _REASONING_FIELDS:
                if delta.get(name):
                    reasoning[name] = reasoning.get(name, "") + delta[name]
            calls += [call["id"] for call in delta.get("tool_calls") or [] if call.get("id")]
    return ([reasoning] if reasoning else []), calls


def _read_messages(events: list[Mapping[str, Any]]) -> Issued:
    blocks: dict[int, Block] = {}
    for event in events:
        if event.get("type") == "content_block_start":
            blocks[event["index"]] = dict(event["content_block"])
        elif event.get("type") == "content_block_delta":
            for name in ("thinking", "signature"):
                if name in event["delta"]:
                    blocks[event["index"]][name] += event["delta"][name]
    ordered = [block for _, block in sorted(blocks.items())]
    thinking = [block for block in ordered if block["type"] in _THINKING]
    return thinking, [block["id"] for block in ordered if block["type"] == "tool_use"]


def _read_responses(events: list[Mapping[str, Any]]) -> Issued:
    done = [event["item"] for event in events if event.get("type") == "response.output_item.done"]
    thinking = [item for item in done if item["type"] in _THINKING]
    return thinking, [item["call_id"] for item in done if item["type"] == "function_call"]


def _chat_turns(body: Mapping[str, Any]) -> Iterable[Turn]:
    turns: list[Turn] = []
    awaiting = False
    for message in body.get("messages") or []:
        role, content = message.get("role"), message.get("content")
        if role == "tool":
            if not awaiting:
                raise Refused("a tool message must follow the assistant message that called")
            turns[-1].results.append(message.get("tool_call_id"))
            continue
        calls = message.get("tool_calls") or []
        if not content and not calls:
            raise Refused(f"a message of role {role} is empty")
        awaiting = role == "assistant"
        if role == "assistant":
            for call in calls:
                _check_object(call["function"]["arguments"])
            reasoning = {name: message[name] for name in _REASONING_FIELDS if message.get(name)}
            thinking = [reasoning] if reasoning else []
            turns.append(Turn(thinking=thinking, calls=[call["id"] for call in calls]))
    return turns


def _check_object(arguments: object) -> None:
    try:
        valid = isinstance(arguments, str) and isinstance(json.loads(arguments), dict)
    except ValueError:
        valid = False
    if not valid:
        raise Refused("function arguments must be a JSON object in a string")


def _message_turns(body: Mapping[str, Any]) -> Iterable[Turn]:
    if not isinstance(body.get("max_tokens"), int):
        raise Refused("max_tokens is required")
    turns: list[Turn] = []
    previous = ""
    for at, message in enumerate(body.get("messages") or []):
        role, content = message.get("role"), message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if at == 0 and role != "user":
            raise Refused("the first message must be of role user")
        if not blocks or role not in {"user", "assistant"}:
            raise Refused(f"message {at} is empty or of an unknown role")
        for block in blocks:
            if block["type"] == "text" and not block["text"].strip():
                raise Refused("text content blocks must contain non-whitespace text")
            if block["type"] == "tool_use" and not isinstance(block.get("input"), dict):
                raise Refused("the input of a tool_use block must be an object")
        if role == "assistant":
            turns.append(_assistant_turn(blocks))
        else:
            results = _leading_results(blocks)
            if results and previous != "assistant":
                raise Refused("tool results must follow the assistant message that called")
            if results:
                turns[-1].results.extend(results)
        previous = role
    return turns


def _assistant_turn(blocks: list[Block]) -> Turn:
    if all(block["type"] in _THINKING for block in blocks):
        raise Refused("an assistant message must hold more than thinking")
    return Turn(
        thinking=[block for block in blocks if block["type"] in _THINKING],
        calls=[block["id"] for block in blocks if block["type"] == "tool_use"],
    )


def _leading_results(blocks: list[Block]) -> list[str]:
    kinds = [block["type"] == "tool_result" for block in blocks]
    if kinds != sorted(kinds, reverse=True):
        raise Refused("tool results must come first in their message")
    return [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]


def _response_turns(body: Mapping[str, Any]) -> Iterable[Turn]:
    items = body.get("input")
    turns: list[Turn] = []
    current = Turn()
    for item in items if isinstance(items, list) else []:
        kind, user = item.get("type", "message"), item.get("role") == "user"
        # A turn ends where results or the user come in; a new one begins with the next item.
        if (current.results and kind != "function_call_output") or user:
            turns.append(_whole(current))
            current = Turn()
        if kind == "reasoning":
            current.thinking.append(item)
        elif kind == "function_call":
            if not isinstance(item.get("arguments"), str):
                raise Refused("arguments must be a string")
            current.calls.append(item["call_id"])
        elif kind == "function_call_output":
            current.results.append(item["call_id"])
        elif not item.get("content"):
            raise Refused("a message item is empty")
    turns.append(_whole(current))
    return turns


def _whole(turn: Turn) -> Turn:
    if turn.thinking and not turn.calls:
        # Without a call a message must follow; our histories never end a turn in reasoning.
        turn.thinking = []
    return turn
