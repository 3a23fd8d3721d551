"""Chat Completions, the dialect of compatible servers (vLLM, Ollama, llama.cpp, many hosts).

Tolerates what such servers send: no choices, null deltas, tool calls without id or index, usage in
every chunk or in none. Reasoning they stream beside the text goes back under the name it came with.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from agents.providers.clients import borrow
from agents.providers.contract import (
    CompletionRequest,
    Event,
    Finished,
    Message,
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
from agents.providers.openai_client import make_client
from agents.providers.sdk import load_sdk
from agents.providers.streaming import read_stream

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream
    from openai.types.chat import ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import ChoiceDelta, ChoiceDeltaToolCall
    from openai.types.completion_usage import CompletionUsage

_REASONING_FIELDS = ("reasoning_content", "reasoning")
_STOP_REASONS: dict[str, StopReason] = {
    "stop": "end",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "length",
    "content_filter": "refusal",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAICompatible:
    """A server that speaks Chat Completions at `base_url` (which ends in /v1)."""

    base_url: str
    api_key: str = field(repr=False)
    kind: ProviderKind = "openai_compatible"

    async def stream(
        self, request: CompletionRequest, *, account: StreamAccount | None = None
    ) -> AsyncGenerator[Event, None]:
        """See `Provider.stream`."""
        account = account or StreamAccount()
        account.begin(request)
        errors = await load_sdk("openai", "resources.chat.completions")
        async with borrow(
            name=(self.kind, self.base_url, self.api_key),
            make=lambda: make_client(base_url=self.base_url, api_key=self.api_key),
        ) as client:
            events = read_stream(
                open_stream=lambda: _open(client, request, keyless=not self.api_key),
                reading=ChatReading(account=account),
                errors=errors,
                request=request,
                account=account,
            )
            async with aclosing(events):
                async for event in events:
                    yield event


async def _open(
    client: AsyncOpenAI, request: CompletionRequest, *, keyless: bool
) -> AsyncStream[ChatCompletionChunk]:
    from openai import Omit, Timeout, omit

    messages: Any = chat_messages(request)
    tools: Any = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            },
        }
        for tool in request.tools
    ]
    return await client.chat.completions.create(
        model=request.model,
        messages=messages,
        tools=tools or omit,
        tool_choice="none" if tools and request.tool_choice == "none" else omit,
        max_tokens=request.max_output_tokens,
        stream=True,
        stream_options={"include_usage": True},
        extra_headers={"Authorization": Omit()} if keyless else None,
        timeout=Timeout(request.idle_timeout, connect=request.connect_timeout),
    )


def chat_messages(request: CompletionRequest) -> list[dict[str, Any]]:
    """The request's conversation in Chat Completions form."""
    messages: list[dict[str, Any]] = []
    if request.system:
        messages.append({"role": "system", "content": request.system})
    for message in settle_history(request.messages, kind="openai_compatible"):
        match message.role:
            case "user":
                messages.append({"role": "user", "content": _visible(message)})
            case "assistant":
                messages.append(_assistant(message))
            case "tool":
                messages.extend(
                    {"role": "tool", "tool_call_id": part.tool_use_id, "content": part.text}
                    for part in message.parts
                    if isinstance(part, ToolResult)
                )
    return messages


def _visible(message: Message) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, Text))


def _assistant(message: Message) -> dict[str, Any]:
    built: dict[str, Any] = {"role": "assistant", "content": _visible(message) or None}
    calls = []
    for part in message.parts:
        if isinstance(part, ToolUse):
            # Servers that template the arguments need an object; the raw text stays in our records.
            arguments = part.arguments_raw if _is_object(part.arguments_raw) else "{}"
            function = {"name": part.name, "arguments": arguments}
            calls.append({"id": part.id, "type": "function", "function": function})
        elif isinstance(part, Opaque):
            built.update(part.block)
    if calls:
        built["tool_calls"] = calls
    return built


def _is_object(raw: str) -> bool:
    try:
        return isinstance(json.loads(raw), dict)
    except ValueError:
        return False


@dataclass(slots=True)
class _Call:
    id: str
    index: int | None
    name: str = ""
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ChatReading:
    """Gathers one message from chat completion chunks."""

    account: StreamAccount
    _text: list[str] = field(default_factory=list)
    _reasoning: dict[str, list[str]] = field(default_factory=dict)
    _calls: list[_Call] = field(default_factory=list)
    _finish_reason: str = ""
    _refused: bool = False
    _usage: CompletionUsage | None = None

    @property
    def complete(self) -> bool:
        """True once a finish reason has come."""
        return bool(self._finish_reason)

    def take(self, event: ChatCompletionChunk, /) -> str:
        """The visible text of one chunk; its first choice only, since only one was asked for."""
        if event.usage is not None:
            self._usage = event.usage
        visible = ""
        for choice in (event.choices or [])[:1]:
            if choice.delta is not None:
                visible = self._take_delta(choice.delta)
            if choice.finish_reason:
                self._finish_reason = str(choice.finish_reason)
        return visible

    def finish(self) -> Finished:
        """The whole message."""
        parts: list[Part] = []
        if self._reasoning:
            block = {name: "".join(pieces) for name, pieces in self._reasoning.items()}
            parts.append(Opaque("openai_compatible", block))
        if self._text:
            parts.append(Text("".join(self._text)))
        parts.extend(ToolUse(call.id, call.name, "".join(call.arguments)) for call in self._calls)
        raw = self._usage.to_dict(mode="json") if self._usage else {}
        return Finished(tuple(parts), self._stop_reason(), self._counted(), raw)

    def _take_delta(self, delta: ChoiceDelta) -> str:
        for name in _REASONING_FIELDS:
            piece = (delta.model_extra or {}).get(name)
            if isinstance(piece, str) and piece:
                self._reasoning.setdefault(name, []).append(piece)
                self.account.add_hidden(piece)
        for call in delta.tool_calls or []:
            self._take_call(call)
        if delta.refusal:
            self._refused = True
        visible = (delta.content or "") + (delta.refusal or "")
        if visible:
            self._text.append(visible)
        return visible

    def _take_call(self, piece: ChoiceDeltaToolCall) -> None:
        name = (piece.function and piece.function.name) or ""
        call = self._find_call(piece, name=name)
        call.name = call.name or name
        arguments = (piece.function and piece.function.arguments) or ""
        if arguments:
            call.arguments.append(arguments)
            self.account.add_hidden(arguments)

    def _find_call(self, piece: ChoiceDeltaToolCall, *, name: str) -> _Call:
        """The call that `piece` continues. Some servers give every call the same index, or none."""
        for call in reversed(self._calls):
            same_place = piece.index is None or call.index == piece.index
            starts_another = bool(piece.id and name and piece.id != call.id)
            if same_place and not starts_another:
                return call
        call = _Call(id=piece.id or f"call_{uuid4().hex}", index=piece.index)
        self._calls.append(call)
        return call

    def _stop_reason(self) -> StopReason:
        reason = _STOP_REASONS.get(self._finish_reason, "stop")
        if self._refused:
            return "refusal"
        if self._calls and reason in {"end", "stop"}:
            return "tool_use"
        return reason

    def _counted(self) -> Usage:
        usage = self._usage
        if usage is None:
            return self.account.usage
        prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
        return Usage(
            input_tokens=usage.prompt_tokens or 0,
            output_tokens=usage.completion_tokens or 0,
            cached_input_tokens=(prompt and prompt.cached_tokens) or 0,
            reasoning_tokens=(completion and completion.reasoning_tokens) or 0,
        )
