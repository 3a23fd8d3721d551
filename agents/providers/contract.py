"""What the gateway and every model provider agree on: request, stream of events, failures.

Promises: values are frozen and provider-neutral; what a provider must get back unchanged travels as
`Opaque`; every failure is a `ProviderError` whose message may be shown to a member and never quotes
the provider.
Not for: retries, budgets, authority or keys at rest; those belong to the guard.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

ProviderKind = Literal["openai", "openai_compatible", "anthropic", "extractive"]
Role = Literal["user", "assistant", "tool"]
ToolChoice = Literal["auto", "none"]
StopReason = Literal["end", "tool_use", "length", "refusal", "stop"]


@dataclass(frozen=True, slots=True)
class Text:
    """Visible text."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool the model asks for.

    `arguments_raw` is what it wrote, perhaps empty, glued or cut: the guard validates.
    """

    id: str
    name: str
    arguments_raw: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to one `ToolUse`, carried by a message of role `tool`."""

    tool_use_id: str
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Opaque:
    """A block only `provider` understands (thinking, reasoning): goes back unchanged and in order,
    to no other kind.
    """

    provider: str
    block: dict[str, Any]


Part: TypeAlias = Text | ToolUse | ToolResult | Opaque


@dataclass(frozen=True, slots=True)
class Message:
    """One turn: `user` holds Text, `assistant` Text, ToolUse and Opaque, `tool` ToolResult."""

    role: Role
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool offered to the model; `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """One model call.

    With `tool_choice` "none" the tools are described, since the history may use them, but none may
    be called. `timeout` bounds the whole call, `idle_timeout` the wait for the next bytes,
    `connect_timeout` the connection (seconds each). `cache_key` is a stable word for the
    conversation: when given, the provider may cache the prefix. `thinking` asks a model that can
    think to do so.
    """

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...] = ()
    tool_choice: ToolChoice = "auto"
    max_output_tokens: int = 4096
    timeout: float = 600.0
    idle_timeout: float = 120.0
    connect_timeout: float = 10.0
    cache_key: str | None = None
    thinking: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call.

    `input_tokens` includes the cached ones, `output_tokens` includes the reasoning ones.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of visible text, never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event: the whole message in order, why it ended, and what it cost."""

    parts: tuple[Part, ...]
    stop_reason: StopReason
    usage: Usage
    raw_usage: dict[str, Any]


Event: TypeAlias = TextDelta | Finished


class Provider(Protocol):
    """A source of completions."""

    @property
    def kind(self) -> ProviderKind:
        """Which dialect this is; `Opaque` blocks of another kind are dropped."""
        ...

    def stream(
        self, request: CompletionRequest, *, account: StreamAccount | None = None
    ) -> AsyncGenerator[Event, None]:
        """Yield `TextDelta`s, then exactly one `Finished`; raise `ProviderError` otherwise.

        Cancelling the consuming task, or `aclose()`, closes the connection at once; `account` then
        still tells what was received and what to charge.
        """
        ...


class ProviderError(Exception):
    """A model call that failed.

    `message` may be shown to a member; `code`, `status` and `provider_code` are for the log. When
    text had been received it is in `partial_text`; `usage_so_far` is what the attempt cost, None if
    it was refused before it began.
    """

    default_code: ClassVar[str] = "broken"
    default_message: ClassVar[str] = "The model provider's answer broke off."
    default_retryable: ClassVar[bool] = True

    def __init__(
        self,
        message: str = "",
        *,
        code: str = "",
        retryable: bool | None = None,
        retry_after: float | None = None,
        status: int | None = None,
        provider_code: str = "",
    ) -> None:
        self.message = message or self.default_message
        self.code = code or self.default_code
        self.retryable = self.default_retryable if retryable is None else retryable
        self.retry_after = retry_after
        self.status = status
        self.provider_code = provider_code
        self.partial_text = ""
        self.usage_so_far: Usage | None = None
        super().__init__(self.message)


class ProviderRefused(ProviderError):
    """The provider said no to this request or this key; the same request will be refused again."""

    default_code = "refused_request"
    default_message = "The model provider refused the request. Please tell an administrator."
    default_retryable = False


class ProviderLimited(ProviderError):
    """Too many requests; `retry_after` says when to come back, if the provider did."""

    default_code = "limited"
    default_message = "The model provider is limiting requests. Please try again in a moment."


class ProviderOverloaded(ProviderError):
    """The provider has no capacity now, said by status or inside the stream."""

    default_code = "overloaded"
    default_message = "The model provider is overloaded. Please try again in a moment."


class ProviderTimeout(ProviderError):
    """No connection, no next piece, or no end in the time allowed."""

    default_code = "timeout"
    default_message = "The model provider did not answer in time."


class ProviderBroken(ProviderError):
    """Unreachable, failed inside, cut in mid-stream, or answering with something unreadable."""


@dataclass(slots=True)
class StreamAccount:
    """What one call has received so far.

    Lives outside the stream, so it can be settled after a cancel or a cut.
    """

    reported: Usage | None = None
    complete: bool = False
    refused: bool = False
    _input_estimate: int = 0
    _pieces: list[str] = field(default_factory=list)
    _received_pieces: int = 0
    _received_bytes: int = 0

    def begin(self, request: CompletionRequest) -> None:
        """Note what is being sent."""
        self._input_estimate = estimate_input_tokens(request)

    def add_text(self, piece: str) -> None:
        """Note a piece of visible text."""
        self._pieces.append(piece)
        self.add_hidden(piece)

    def add_hidden(self, piece: str) -> None:
        """Note a piece that is charged but not shown: thinking, tool arguments."""
        if piece:
            self._received_pieces += 1
            self._received_bytes += len(piece.encode("utf-8", "replace"))

    @property
    def text(self) -> str:
        """The visible text received so far."""
        return "".join(self._pieces)

    @property
    def usage(self) -> Usage:
        """The reported usage once the message is complete, nothing if it was refused, an estimate
        in between.
        """
        if self.refused:
            return Usage()
        if self.complete and self.reported is not None:
            return self.reported
        return estimate_usage(
            input_tokens=self._input_estimate,
            received_pieces=self._received_pieces,
            received_bytes=self._received_bytes,
            reported=self.reported,
        )


def estimate_usage(
    *, input_tokens: int, received_pieces: int, received_bytes: int, reported: Usage | None = None
) -> Usage:
    """Charge for what arrived: a piece is at least a token, four bytes are about one.

    What the provider had already reported wins over the guess for input and is the least for
    output.
    """
    output = max(received_pieces, math.ceil(received_bytes / 4))
    if reported is None:
        return Usage(input_tokens=input_tokens, output_tokens=output, estimated=True)
    return Usage(
        input_tokens=reported.input_tokens or input_tokens,
        output_tokens=max(output, reported.output_tokens),
        cached_input_tokens=reported.cached_input_tokens,
        reasoning_tokens=reported.reasoning_tokens,
        estimated=True,
    )


def estimate_input_tokens(request: CompletionRequest) -> int:
    """About how many tokens `request` is, without a tokenizer (those download tables when run)."""
    size = len(request.system.encode("utf-8", "replace"))
    for message in request.messages:
        for part in message.parts:
            match part:
                case Text(text) | ToolResult(_, text):
                    size += len(text.encode("utf-8", "replace"))
                case ToolUse(_, name, arguments):
                    size += len(name) + len(arguments.encode("utf-8", "replace"))
                case Opaque(_, block):
                    size += len(json.dumps(block))
    for tool in request.tools:
        size += len(tool.name) + len(tool.description) + len(json.dumps(dict(tool.parameters)))
    return max(1, math.ceil(size / 4))
