"""The frames between the agent runtime and the backend: JSON text, one object a frame, versioned.

Promises: each frame is frozen and validated on both sides; whatever cannot be read is one
`ProtocolError` that never quotes content. The runtime handles references (`ref`), not content: the
backend re-reads and permission-checks what a reference stands for on every model request.
Not for: authority. A frame is a request; the lease in it is what the backend checks.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

PROTOCOL_VERSION = 1
MAX_FRAME_BYTES = 1024 * 1024
"""The largest frame in either direction; the socket limits of both sides come from it."""
MAX_TEXT = 4_000
"""Characters of a reply that the runtime may see: enough to judge emptiness, not to keep."""
MAX_ARGUMENTS = 128 * 1024
"""Characters of one call's raw arguments: escaped at worst (six bytes each) they fit a frame."""
MAX_CONTEXT_ITEMS = 5_000

Identifier = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,100}$")]
"""Printable ASCII without spaces: it may be logged as it is."""
RequestId = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,160}$")]
"""Unique among all that a runtime asks: replies name nothing else."""
CallId = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Lease = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Code = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_.-]{0,63}$")]
"""A machine-readable reason: never a sentence, never content."""
Name = Annotated[str, StringConstraints(max_length=200)]
"""A tool's name as the model wrote it, which may be empty or nonsense: the backend refuses that."""
Count = Annotated[int, Field(ge=0, le=2**40)]
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
Seconds = Annotated[float, Field(gt=0, le=10**7)]
Text = Annotated[str, StringConstraints(max_length=MAX_TEXT)]

ItemKind = Literal["user", "assistant", "tool", "summary"]
Effect = Literal["read", "write", "external"]
StopReason = Literal["end", "tool_use", "length", "refusal"]
ToolOutcome = Literal["ok", "error", "denied", "held"]
RunOutcome = Literal["answered", "limit", "failed"]


class ProtocolError(Exception):
    """A frame that must not be acted on. The message names the fault and the field, not a value."""

    def __init__(self, code: Literal["too_large", "not_text", "invalid", "version"], message: str):
        super().__init__(message)
        self.code = code


class Value(BaseModel):
    """Base of all that crosses: immutable, no unknown field, no infinity, no value in an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )


class ContextItem(Value):
    """One entry of the conversation as the runtime knows it: where, what kind, how big."""

    ref: Identifier
    kind: ItemKind
    tokens: Count


class ToolOffer(Value):
    """A tool that the model may be shown. `parameters` is the JSON schema of its arguments."""

    name: Identifier
    description: str
    parameters: dict[str, JsonValue]
    effect: Effect


class ToolCall(Value):
    """A call as the model wrote it. `arguments` is raw text: perhaps empty, cut off or not JSON."""

    call_id: CallId
    name: Name
    arguments: Annotated[str, StringConstraints(max_length=MAX_ARGUMENTS)]


class Limits(Value):
    """The bounds the loop keeps by itself; the backend enforces its own as well."""

    max_steps: Positive
    """Model calls; a retry of a failed one is the same step."""
    max_tool_calls: Count
    context_tokens: Positive
    wall_seconds: Seconds
    max_parallel_tools: Positive
    max_repeats: Count = 3
    """The same call with the same result so often ends the run; 0 never does."""


# Runtime to backend


class Hello(Value):
    """First frame on a connection."""

    type: Literal["hello"] = "hello"
    protocol: int
    capacity: Positive
    runtime_id: Identifier


class Goodbye(Value):
    """No more runs, please: the runtime is stopping. Runs already here may still finish."""

    type: Literal["goodbye"] = "goodbye"


class RunFrame(Value):
    """What every frame for a run carries, and what the backend fences it by."""

    run: Identifier
    attempt: Positive
    lease: Lease


class Heartbeat(RunFrame):
    """The run is alive: please extend its lease."""

    type: Literal["heartbeat"] = "heartbeat"


class ModelRequest(RunFrame):
    """Ask the model with these references in this order.

    With `allow_tools` false the model must be called so that it can't ask for tools. `note` is a
    sentence of the runtime to put after the context. A call in the context that no `ToolRequest`
    ever asked for has no result: the backend tells the model that it was not run.
    """

    type: Literal["model.request"] = "model.request"
    request_id: RequestId
    step: Positive
    context: Annotated[tuple[Identifier, ...], Field(max_length=MAX_CONTEXT_ITEMS)]
    allow_tools: bool
    note: Text | None = None


class ToolRequest(RunFrame):
    """Run one call of the model's. Raw on purpose: the backend validates, refuses and journals."""

    type: Literal["tool.request"] = "tool.request"
    request_id: RequestId
    step: Positive
    call_id: CallId
    name: Name
    arguments: Annotated[str, StringConstraints(max_length=MAX_ARGUMENTS)]


class Finish(RunFrame):
    """The run is over; whatever is still in flight for it should be stopped.

    `step` is the number of model calls made; with reason `runtime_error` it is unknown and 0. With
    reason `busy` or `draining` the runtime did not take the run: nothing was asked, and it may
    safely be given to another runtime.
    """

    type: Literal["finish"] = "finish"
    outcome: RunOutcome
    reason: Code
    step: Count


# Backend to runtime


class Welcome(Value):
    """The answer to `Hello`."""

    type: Literal["welcome"] = "welcome"
    protocol: int
    heartbeat_seconds: Seconds


class Start(RunFrame):
    """One run for this runtime, with all it needs to know."""

    type: Literal["start"] = "start"
    lease_seconds: Seconds
    context: Annotated[tuple[ContextItem, ...], Field(max_length=MAX_CONTEXT_ITEMS)]
    tools: tuple[ToolOffer, ...]
    limits: Limits
    persona_tokens: Count
    """What the backend adds to every request (persona, tool schemas): off the context budget."""


class ModelReply(Value):
    """The whole message of the model, as a reference. `text` is its beginning, up to `MAX_TEXT`."""

    type: Literal["model.reply"] = "model.reply"
    request_id: RequestId
    ref: Identifier
    text_tokens: Count
    text: Text = ""
    tool_calls: tuple[ToolCall, ...] = ()
    stop: StopReason


class ToolReply(Value):
    """The result of one call, refusals included: a reference like any other."""

    type: Literal["tool.reply"] = "tool.reply"
    request_id: RequestId
    ref: Identifier
    tokens: Count
    outcome: ToolOutcome
    empty: bool
    summary: Text = ""
    """Bounded and equal for equal results: the runtime notices loops by it."""


class ErrorReply(Value):
    """A request that has no result. With `retry` the same request may be asked again."""

    type: Literal["error"] = "error"
    request_id: RequestId
    code: Code
    message: Text = ""
    retry: bool
    retry_after: Annotated[float, Field(ge=0)] | None = None


class Cancel(Value):
    """Stop the run at once; nothing more need be sent for it."""

    type: Literal["cancel"] = "cancel"
    run: Identifier
    reason: Code


class LeaseLost(Value):
    """The run is no longer this runtime's."""

    type: Literal["lease.lost"] = "lease.lost"
    run: Identifier


RuntimeFrame = Annotated[
    Hello | Heartbeat | ModelRequest | ToolRequest | Finish | Goodbye,
    Field(discriminator="type"),
]
BackendFrame = Annotated[
    Welcome | Start | ModelReply | ToolReply | ErrorReply | Cancel | LeaseLost,
    Field(discriminator="type"),
]

Frame = TypeVar("Frame")

_RUNTIME: TypeAdapter[RuntimeFrame] = TypeAdapter(RuntimeFrame)
_BACKEND: TypeAdapter[BackendFrame] = TypeAdapter(BackendFrame)


def encode(frame: RuntimeFrame | BackendFrame) -> str:
    """The frame as JSON text. Raises ProtocolError: too large, or text that UTF-8 cannot hold."""
    try:
        text = frame.model_dump_json()
        size = len(text.encode())
    except ValueError:  # pydantic's serialisation error is one, as is Unicode's
        raise ProtocolError("invalid", f"{frame.type} holds text that cannot be encoded") from None
    if size > MAX_FRAME_BYTES:
        raise ProtocolError("too_large", f"{frame.type} would be {size} bytes")
    return text


def parse_runtime_frame(data: str | bytes) -> RuntimeFrame:
    """What a runtime sent. Raises ProtocolError."""
    return _parse(_RUNTIME, data)


def parse_backend_frame(data: str | bytes) -> BackendFrame:
    """What the backend sent. Raises ProtocolError."""
    return _parse(_BACKEND, data)


def check_version(protocol: int) -> None:
    """Raises ProtocolError unless the other side speaks this version."""
    if protocol != PROTOCOL_VERSION:
        raise ProtocolError("version", f"protocol {protocol} is not {PROTOCOL_VERSION}")


def _parse(adapter: TypeAdapter[Frame], data: str | bytes) -> Frame:
    if not isinstance(data, str):
        raise ProtocolError("not_text", "a frame is text, not bytes")
    try:
        # Characters first: encoding something huge only to refuse it would be work for nothing.
        size = len(data) if len(data) > MAX_FRAME_BYTES else len(data.encode())
    except UnicodeEncodeError:
        raise ProtocolError("invalid", "the frame is not valid Unicode") from None
    if size > MAX_FRAME_BYTES:
        raise ProtocolError("too_large", f"a frame of more than {MAX_FRAME_BYTES} bytes")
    try:
        return adapter.validate_json(data, strict=True)
    except ValidationError as error:
        raise ProtocolError("invalid", _fault(error)) from None


def _fault(error: ValidationError) -> str:
    """The first fault as kind and place; the name of an unknown field is the sender's: left out."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    kind = first["type"]
    if kind == "extra_forbidden":
        return kind
    # Deeper parts may be keys of a tool's schema.
    place = ".".join(str(part) for part in first["loc"][:2])
    return f"{kind} at {place}" if place else kind
