"""Model calls: the only holder of provider keys, and the only place that reaches a model.

One call is: prove the lease, re-read the context under the member's permission, stream, settle
what it cost. Nothing here holds a transaction while the provider talks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agents import calls
from agents.guard.contract import RunGate, TextSink
from agents.guard.persona import system_text
from agents.guard.registry import tools
from agents.models import LanguageModel, ModelCall
from agents.providers.catalog import build
from agents.providers.contract import (
    CompletionRequest,
    Finished,
    Message,
    Opaque,
    Provider,
    ProviderBroken,
    ProviderError,
    StreamAccount,
    Text,
    TextDelta,
    ToolSchema,
    ToolUse,
    Usage,
)
from audit.record import record
from kaizen.kernel.errors import Conflict
from kaizen.kernel.text import make_storable
from kaizen.kernel.threads import in_database

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """What the runtime is told of a finished message; `seq` is where it stands in the journal."""

    seq: int
    text: str
    tool_uses: tuple[ToolUse, ...]
    stop_reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    call: ModelCall
    provider: Provider
    request: CompletionRequest


async def complete(
    gate: RunGate,
    *,
    step: int,
    refs: Sequence[str],
    allow_tools: bool,
    note: str | None,
    sink: TextSink,
) -> ModelReply:
    """Call the run's model once and return its whole message.

    Text goes to `sink` as it arrives. However the call ends (cancelled included), what was used is
    settled and what was said is journaled.

    Raises:
        LeaseLost, Missing: the attempt or the member may not act any more; nothing was sent.
        Conflict: the model was switched off; nothing was sent.
        ProviderError: the provider refused, broke off or took too long; `partial_text` says
        whether text came.
    """
    prepared = await in_database(
        _prepare, gate, step=step, refs=refs, allow_tools=allow_tools, note=note
    )
    account = StreamAccount()
    try:
        finished = await _stream(prepared, account, sink)
        await sink.flush()
    except ProviderError as error:
        logger.warning(
            "model call %s failed: %s %s", prepared.call.id, error.code, error.provider_code
        )
        usage = error.usage_so_far or (account.usage if account.text else Usage())
        await asyncio.shield(_failed(gate, prepared.call, usage, error.code, sink))
        raise
    except asyncio.CancelledError:
        # Finish the accounts although this task is being cancelled: shielded, and awaited by
        # nobody else.
        await asyncio.shield(_stopped(gate, prepared.call, account, sink))
        raise
    return await in_database(_settle, gate, prepared.call, step=step, finished=finished)


async def _stream(prepared: _Prepared, account: StreamAccount, sink: TextSink) -> Finished:
    stream = prepared.provider.stream(prepared.request, account=account)
    try:
        async for event in stream:
            match event:
                case TextDelta(text):
                    sink.add(make_storable(text).text)
                case Finished():
                    return event
    finally:
        await stream.aclose()
    raise ProviderBroken


async def _stopped(gate: RunGate, call: ModelCall, account: StreamAccount, sink: TextSink) -> None:
    await sink.flush()
    await in_database(
        calls.settle_model_call,
        gate.facts,
        call,
        state=ModelCall.State.STOPPED,
        usage=account.usage,
    )


async def _failed(gate: RunGate, call: ModelCall, usage: Usage, code: str, sink: TextSink) -> None:
    await sink.flush()
    await in_database(
        calls.settle_model_call,
        gate.facts,
        call,
        state=ModelCall.State.FAILED,
        usage=usage,
        error_code=code,
    )


def _prepare(
    gate: RunGate, *, step: int, refs: Sequence[str], allow_tools: bool, note: str | None
) -> _Prepared:
    facts = gate.facts
    with gate.hold() as authority:
        model = LanguageModel.objects.select_related("provider").get(
            organization_id=facts.organization_id, pk=facts.language_model_id
        )
        if not (model.enabled and model.provider.enabled):
            raise Conflict("The language model of this agent was switched off meanwhile.")
        messages = gate.messages(authority, refs)
        if note:
            messages = (*messages, Message("user", (Text(note),)))
        call = calls.start_model_call(facts, step=step, model=model)
        record(
            authority, "agents.model_called", subject=call, data={"step": step, "model": model.name}
        )
        provider = build(
            model.provider.kind, base_url=model.provider.base_url, api_key=model.provider.api_key
        )
    request = CompletionRequest(
        model=model.name,
        system=system_text(authority, facts.definition),
        messages=messages,
        tools=tool_schemas(facts.definition["tools"]),
        tool_choice="auto" if allow_tools else "none",
        max_output_tokens=model.max_output_tokens,
        timeout=float(facts.definition["limits"]["seconds"]),
        cache_key=str(facts.conversation_id),
    )
    return _Prepared(call=call, provider=provider, request=request)


def tool_schemas(names: Sequence[str]) -> tuple[ToolSchema, ...]:
    """The granted tools as the model is shown them; one that no longer exists is left out."""
    known = tools()
    return tuple(
        ToolSchema(name, known[name].description, known[name].arguments.model_json_schema())
        for name in names
        if name in known
    )


def _settle(gate: RunGate, call: ModelCall, *, step: int, finished: Finished) -> ModelReply:
    text = "".join(part.text for part in finished.parts if isinstance(part, Text))
    uses = tuple(part for part in finished.parts if isinstance(part, ToolUse))
    # What was used is owed even if the lease was lost meanwhile.
    calls.settle_model_call(
        gate.facts,
        call,
        state=ModelCall.State.FINISHED,
        usage=finished.usage,
        raw_usage=finished.raw_usage,
    )
    with gate.hold():
        seq = gate.append(
            "model_reply",
            {
                "step": step,
                "stop": finished.stop_reason,
                "parts": [dump_part(part) for part in finished.parts],
            },
        )
    return ModelReply(
        seq=seq, text=make_storable(text).text, tool_uses=uses, stop_reason=finished.stop_reason
    )


def dump_part(part: Any) -> dict[str, Any]:
    """One part of a model's message as the journal keeps it; blocks of the provider's own stay
    whole.
    """
    match part:
        case Text(text):
            return {"type": "text", "text": make_storable(text).text}
        case ToolUse(call_id, name, arguments_raw):
            return {
                "type": "tool_use",
                "id": make_storable(call_id).text,
                "name": make_storable(name).text,
                "arguments": make_storable(arguments_raw).text,
            }
        case Opaque(provider, block):
            return {"type": "opaque", "provider": provider, "block": block}
        case _:
            raise TypeError(f"a {type(part).__name__} is no part of a model's message")


def load_part(data: dict[str, Any]) -> Text | ToolUse | Opaque:
    """The inverse of `dump_part`."""
    match data["type"]:
        case "text":
            return Text(data["text"])
        case "tool_use":
            return ToolUse(data["id"], data["name"], data["arguments"])
        case "opaque":
            return Opaque(data["provider"], data["block"])
        case other:
            raise ValueError(f"unknown part {other!r}")
