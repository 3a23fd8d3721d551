"""Anthropic's Messages API.

Thinking and redacted blocks are gathered byte by byte as they came and go back unchanged, in order,
with their signatures. Usage counts cached input as input; the raw numbers stay in `raw_usage`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agents.providers.clients import borrow
from agents.providers.contract import (
    CompletionRequest,
    Event,
    Finished,
    Opaque,
    Part,
    ProviderKind,
    StopReason,
    StreamAccount,
    Text,
    ToolResult,
    ToolUse,
    Usage,
)
from agents.providers.history import settle_history
from agents.providers.sdk import load_sdk
from agents.providers.streaming import read_stream

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream
    from anthropic.types import (
        RawContentBlockDeltaEvent,
        RawContentBlockStartEvent,
        RawMessageStreamEvent,
    )

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_use",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicMessages:
    """Anthropic at `base_url` (which has no /v1)."""

    base_url: str
    api_key: str = field(repr=False)
    kind: ProviderKind = "anthropic"

    async def stream(
        self, request: CompletionRequest, *, account: StreamAccount | None = None
    ) -> AsyncGenerator[Event, None]:
        """See `Provider.stream`."""
        account = account or StreamAccount()
        account.begin(request)
        errors = await load_sdk("anthropic", "resources.messages")
        async with borrow(
            name=(self.kind, self.base_url, self.api_key), make=self._make_client
        ) as client:
            events = read_stream(
                open_stream=lambda: _open(client, request),
                reading=MessagesReading(account=account),
                errors=errors,
                request=request,
                account=account,
            )
            async with aclosing(events):
                async for event in events:
                    yield event

    def _make_client(self) -> AsyncAnthropic:
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

        return AsyncAnthropic(
            api_key=self.api_key,
            base_url=self.base_url,
            max_retries=0,
            http_client=DefaultAsyncHttpxClient(follow_redirects=False),
        )


async def _open(
    client: AsyncAnthropic, request: CompletionRequest
) -> AsyncStream[RawMessageStreamEvent]:
    from anthropic import Timeout, omit

    messages: Any = anthropic_messages(request)
    tools: Any = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": dict(tool.parameters),
        }
        for tool in request.tools
    ]
    return await client.messages.create(
        model=request.model,
        max_tokens=request.max_output_tokens,
        system=request.system or omit,
        messages=messages,
        tools=tools or omit,
        tool_choice={"type": "none"} if tools and request.tool_choice == "none" else omit,
        thinking={"type": "adaptive"} if request.thinking else omit,
        cache_control={"type": "ephemeral"} if request.cache_key else omit,
        stream=True,
        timeout=Timeout(request.idle_timeout, connect=request.connect_timeout),
    )


def anthropic_messages(request: CompletionRequest) -> list[dict[str, Any]]:
    """The request's conversation in Messages form: tool results open the next user message."""
    built: list[dict[str, Any]] = []
    for message in settle_history(request.messages, kind="anthropic"):
        role = "assistant" if message.role == "assistant" else "user"
        blocks = [_block(part) for part in message.parts]
        if built and built[-1]["role"] == role:
            built[-1]["content"].extend(blocks)
        else:
            built.append({"role": role, "content": blocks})
    return built


def _block(part: Part) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case ToolUse(call_id, name, arguments):
            return {"type": "tool_use", "id": call_id, "name": name, "input": _input(arguments)}
        case ToolResult(call_id, text, is_error):
            block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id, "content": text}
            return {**block, "is_error": True} if is_error else block
        case Opaque(_, block):
            return block


def _input(raw: str) -> dict[str, Any]:
    """The arguments as the object the API demands; what is none is shown as it was written."""
    try:
        value = json.loads(raw or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"unreadable_arguments": raw}


@dataclass(slots=True)
class _Block:
    start: dict[str, Any]
    pieces: dict[str, list[str]] = field(default_factory=dict)

    def joined(self, name: str) -> str:
        return "".join(self.pieces.get(name, ()))


@dataclass(slots=True, kw_only=True)
class MessagesReading:
    """Gathers one message from Messages events, block by block."""

    account: StreamAccount
    _blocks: dict[int, _Block] = field(default_factory=dict)
    _stop: str = ""
    _raw_usage: dict[str, Any] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """True once a stop reason has come."""
        return bool(self._stop)

    def take(self, event: RawMessageStreamEvent, /) -> str:
        """The visible text of one event."""
        match event.type:
            case "message_start":
                self._take_usage(event.message.usage.to_dict(mode="json"))
            case "content_block_start":
                return self._take_start(event)
            case "content_block_delta":
                return self._take_delta(event)
            case "message_delta":
                self._stop = event.delta.stop_reason or self._stop
                if event.usage is not None:
                    self._take_usage(event.usage.to_dict(mode="json"))
            case _:
                pass
        return ""

    def finish(self) -> Finished:
        """The whole message."""
        parts = [_part(block) for _, block in sorted(self._blocks.items())]
        kept = tuple(part for part in parts if part != Text(""))
        reason = _STOP_REASONS.get(self._stop, "stop")
        return Finished(kept, reason, self._counted(), self._raw_usage)

    def _take_start(self, event: RawContentBlockStartEvent) -> str:
        start = event.content_block.to_dict(mode="json")
        block = self._blocks[event.index] = _Block(start)
        text = start.get("text") if start["type"] == "text" else ""
        if isinstance(text, str) and text:
            block.pieces["text"] = [text]
            return text
        return ""

    def _take_delta(self, event: RawContentBlockDeltaEvent) -> str:
        delta = event.delta
        match delta.type:
            case "text_delta":
                return self._add(event.index, "text", delta.text)
            case "input_json_delta":
                self.account.add_hidden(self._add(event.index, "input", delta.partial_json))
            case "thinking_delta":
                self.account.add_hidden(self._add(event.index, "thinking", delta.thinking))
            case "signature_delta":
                self._add(event.index, "signature", delta.signature)
            case _:
                pass
        return ""

    def _add(self, index: int, name: str, piece: str) -> str:
        self._blocks[index].pieces.setdefault(name, []).append(piece)
        return piece

    def _take_usage(self, usage: dict[str, Any]) -> None:
        """Numbers in later events are cumulative and replace earlier ones."""
        self._raw_usage.update({name: value for name, value in usage.items() if value is not None})
        self.account.reported = self._counted()

    def _counted(self) -> Usage:
        if not self._raw_usage:
            return self.account.usage
        cached = int(self._raw_usage.get("cache_read_input_tokens", 0))
        written = int(self._raw_usage.get("cache_creation_input_tokens", 0))
        details = self._raw_usage.get("output_tokens_details") or {}
        return Usage(
            input_tokens=int(self._raw_usage.get("input_tokens", 0)) + cached + written,
            output_tokens=int(self._raw_usage.get("output_tokens", 0)),
            cached_input_tokens=cached,
            reasoning_tokens=int(details.get("thinking_tokens") or 0),
        )


def _part(block: _Block) -> Part:
    start = block.start
    match start["type"]:
        case "text":
            return Text(block.joined("text"))
        case "tool_use":
            given = start.get("input")
            raw = block.joined("input") or (json.dumps(given) if given else "")
            return ToolUse(str(start["id"]), str(start["name"]), raw)
        case _:
            gathered = {
                name: str(start.get(name) or "") + "".join(pieces)
                for name, pieces in block.pieces.items()
                if name != "input"
            }
            return Opaque("anthropic", {**start, **gathered})
