"""OpenAI's Responses API.

Nothing is stored at the provider: each call sends the whole conversation, with reasoning items in
their encrypted form, unchanged and in order. A reasoning item without it could not be resolved
again, so it is not kept.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agents.providers import failures
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
from agents.providers.openai_client import make_client
from agents.providers.sdk import load_sdk
from agents.providers.streaming import read_stream

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream
    from openai.types.responses import Response, ResponseOutputItem, ResponseStreamEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIResponses:
    """OpenAI itself, at `base_url` (which ends in /v1)."""

    base_url: str
    api_key: str = field(repr=False)
    kind: ProviderKind = "openai"

    async def stream(
        self, request: CompletionRequest, *, account: StreamAccount | None = None
    ) -> AsyncGenerator[Event, None]:
        """See `Provider.stream`."""
        account = account or StreamAccount()
        account.begin(request)
        errors = await load_sdk("openai", "resources.responses")
        async with borrow(
            name=(self.kind, self.base_url, self.api_key),
            make=lambda: make_client(base_url=self.base_url, api_key=self.api_key),
        ) as client:
            events = read_stream(
                open_stream=lambda: _open(client, request),
                reading=ResponsesReading(account=account),
                errors=errors,
                request=request,
                account=account,
            )
            async with aclosing(events):
                async for event in events:
                    yield event


async def _open(
    client: AsyncOpenAI, request: CompletionRequest
) -> AsyncStream[ResponseStreamEvent]:
    from openai import Timeout, omit

    items: Any = response_input(request)
    tools: Any = [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.parameters),
            "strict": False,
        }
        for tool in request.tools
    ]
    return await client.responses.create(
        model=request.model,
        instructions=request.system or omit,
        input=items,
        tools=tools or omit,
        tool_choice="none" if tools and request.tool_choice == "none" else omit,
        max_output_tokens=request.max_output_tokens,
        store=False,
        # Models that cannot reason refuse to be asked for this.
        include=["reasoning.encrypted_content"] if request.thinking else omit,
        prompt_cache_key=request.cache_key or omit,
        stream=True,
        timeout=Timeout(request.idle_timeout, connect=request.connect_timeout),
    )


def response_input(request: CompletionRequest) -> list[dict[str, Any]]:
    """The request's conversation as Responses input items."""
    items: list[dict[str, Any]] = []
    for message in settle_history(request.messages, kind="openai"):
        for part in message.parts:
            match part:
                case Text(text):
                    role = "assistant" if message.role == "assistant" else "user"
                    items.append({"role": role, "content": text})
                case ToolUse(call_id, name, arguments):
                    items.append(
                        {
                            "type": "function_call",
                            "call_id": call_id,
                            "name": name,
                            "arguments": arguments,
                        }
                    )
                case ToolResult(call_id, text):
                    items.append(
                        {"type": "function_call_output", "call_id": call_id, "output": text}
                    )
                case Opaque(_, block):
                    items.append(block)
    return items


@dataclass(slots=True)
class _Item:
    type: str
    call_id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    block: dict[str, Any] = field(default_factory=dict)

    @property
    def content(self) -> str:
        return "".join(self.pieces)


@dataclass(slots=True, kw_only=True)
class ResponsesReading:
    """Gathers one message from Responses events, item by item."""

    account: StreamAccount
    _items: dict[int, _Item] = field(default_factory=dict)
    _response: Response | None = None
    _refused: bool = False

    @property
    def complete(self) -> bool:
        """True once the response has ended, whole or cut by a limit."""
        return self._response is not None

    def take(self, event: ResponseStreamEvent, /) -> str:
        """The visible text of one event. Raises ProviderError if the provider reports a failure."""
        match event.type:
            case "response.output_text.delta":
                return self._add(event.output_index, event.delta)
            case "response.refusal.delta":
                self._refused = True
                return self._add(event.output_index, event.delta)
            case "response.function_call_arguments.delta":
                self._add(event.output_index, event.delta)
                self.account.add_hidden(event.delta)
            case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
                self.account.add_hidden(event.delta)
            case "response.output_item.added":
                self._items[event.output_index] = _begin(event.item)
            case "response.output_item.done":
                self._end(event.output_index, event.item)
            case "response.completed" | "response.incomplete":
                self._response = event.response
            case "response.failed":
                error = event.response.error
                raise failures.from_stream(body=error.to_dict() if error else None)
            case "error":
                raise failures.from_stream(body=event.to_dict())
            case _:
                pass
        return ""

    def finish(self) -> Finished:
        """The whole message."""
        parts: list[Part] = []
        for _, item in sorted(self._items.items()):
            if item.type == "message" and item.pieces:
                parts.append(Text(item.content))
            elif item.type == "function_call":
                parts.append(ToolUse(item.call_id, item.name, item.content))
            elif item.block:
                parts.append(Opaque("openai", item.block))
        usage = self._response.usage if self._response else None
        raw = usage.to_dict(mode="json") if usage else {}
        return Finished(tuple(parts), self._stop_reason(), self._counted(), raw)

    def _add(self, index: int, piece: str) -> str:
        self._items.setdefault(index, _Item("message")).pieces.append(piece)
        return piece

    def _end(self, index: int, item: ResponseOutputItem) -> None:
        held = self._items.setdefault(index, _begin(item))
        if item.type == "function_call":
            # What was streamed wins only if nothing final came; ids may come late.
            held.call_id, held.name = item.call_id or held.call_id, item.name or held.name
            held.pieces = [item.arguments] if item.arguments else held.pieces
        elif item.type == "reasoning":
            held.block = item.to_dict(mode="json") if item.encrypted_content else {}
        elif item.type != "message":
            held.block = item.to_dict(mode="json")

    def _stop_reason(self) -> StopReason:
        response = self._response
        details = response.incomplete_details if response else None
        if self._refused or (details and details.reason == "content_filter"):
            return "refusal"
        if response and response.status == "incomplete":
            return "length" if details and details.reason == "max_output_tokens" else "stop"
        if any(item.type == "function_call" for item in self._items.values()):
            return "tool_use"
        return "end"

    def _counted(self) -> Usage:
        usage = self._response.usage if self._response else None
        if usage is None:
            return self.account.usage
        read, written = usage.input_tokens_details, usage.output_tokens_details
        return Usage(
            input_tokens=usage.input_tokens or 0,
            output_tokens=usage.output_tokens or 0,
            cached_input_tokens=(read and read.cached_tokens) or 0,
            reasoning_tokens=(written and written.reasoning_tokens) or 0,
        )


def _begin(item: ResponseOutputItem) -> _Item:
    if item.type == "function_call":
        return _Item("function_call", call_id=item.call_id or "", name=item.name or "")
    return _Item(item.type)
