"""How a tool call happens, top to bottom: lease, authority, known, valid, policy, intent, handler,
result, audit.

The handler is the same service function that the pages and the API call. A bad call is an error
result that the model sees, never a crash. No call runs twice: its key finds the row of the first
time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from pydantic import BaseModel, ValidationError

from accounts.authority import Authority
from agents import calls
from agents.guard.contract import RunGate
from agents.guard.policy import Deny, decide
from agents.guard.projection import project
from agents.guard.registry import find_tool
from agents.models import ToolCall
from audit.record import record
from kaizen.kernel.errors import KaizenError
from kaizen.kernel.models import exact_json
from kaizen.kernel.text import make_storable
from kaizen.kernel.tools import Tool, ToolOutcome

INTERRUPTED = "This call was interrupted before it ended."


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """A call as the model wrote it."""

    step: int
    call_id: str
    name: str
    arguments_raw: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What the runtime is told: an id to refer to, sizes, and how it went."""

    tool_call_id: UUID
    outcome: str  # ok, error, denied
    empty: bool
    characters: int
    summary: str


def call_tool(gate: RunGate, request: ToolRequest) -> ToolResult:
    """Run one tool call, or refuse it.

    The intent is committed before the handler starts, the result after it, each under the lease.

    Raises:
        LeaseLost: the attempt may not act any more. Missing: the member lost their place.
    """
    raw = make_storable(request.arguments_raw).text
    call_id = make_storable(request.call_id).text
    tool = find_tool(request.name)
    key = calls.idempotency_key(gate.facts, step=request.step, call_id=call_id)
    with gate.hold() as authority:
        known = calls.find_tool_call(gate.facts, key=key)
        if known is not None and known.state != ToolCall.State.INTENT:
            return _result(authority, known, tool)
        arguments, fault = _parse(tool, raw)
        call = known or calls.start_tool_call(
            gate.facts,
            step=request.step,
            call_id=call_id,
            name=make_storable(request.name).text,
            arguments_raw=raw,
            arguments=_dump(arguments),
            effect=tool.effect if tool else "",
            key=key,
        )
        decision = decide(tool, name=request.name, granted=gate.facts.definition["tools"])
        if isinstance(decision, Deny):
            return _refuse(
                gate,
                authority,
                call,
                tool,
                state=ToolCall.State.DENIED,
                reason=decision.reason,
                code=decision.code,
            )
        if arguments is None:
            return _refuse(
                gate,
                authority,
                call,
                tool,
                state=ToolCall.State.ERROR,
                reason=fault,
                code="bad_arguments",
            )
        if known is None:
            gate.append(
                "tool_intent",
                {
                    "call": str(call.id),
                    "step": request.step,
                    "name": call.name,
                    "activity": decision.tool.activity(arguments)[:200],
                },
            )
    answered = None
    if decision.tool.outside:
        with gate.hold() as authority:
            pass
        # No lock is held while somebody else's server answers: the lease is renewed, and a stop
        # is heard.
        answered = _run(decision.tool, authority, arguments)
    with gate.hold() as authority:
        # The same request may have come twice at once; whoever holds the run second finds the
        # result.
        standing = calls.find_tool_call(gate.facts, key=key)
        if standing is None or standing.state != ToolCall.State.INTENT:
            return _result(authority, standing or call, tool)
        if answered is None:
            answered = _run_atomically(decision.tool, authority, arguments)
        return _finish(gate, authority, standing, decision.tool, answered)


def _run(tool: Tool, authority: Authority, arguments: BaseModel) -> ToolOutcome | KaizenError:
    try:
        return tool.handler(authority, arguments)
    except KaizenError as error:
        return error


def _run_atomically(
    tool: Tool, authority: Authority, arguments: BaseModel
) -> ToolOutcome | KaizenError:
    """Run the handler; what it wrote and its result stand or fall together."""
    try:
        with transaction.atomic():
            return tool.handler(authority, arguments)
    except KaizenError as error:
        return error


def _finish(
    gate: RunGate,
    authority: Authority,
    call: ToolCall,
    tool: Tool,
    outcome: ToolOutcome | KaizenError,
) -> ToolResult:
    """Write down how the handler ended."""
    if isinstance(outcome, KaizenError):
        return _refuse(
            gate,
            authority,
            call,
            tool,
            state=ToolCall.State.ERROR,
            reason=outcome.message,
            code=outcome.code,
        )
    calls.finish_tool_call(
        call, state=ToolCall.State.DONE, record=outcome.record, label=outcome.label
    )
    gate.append(
        "tool_result",
        {"call": str(call.id), "state": call.state, "label": call.label, "record": outcome.record},
    )
    record(
        authority, "agents.tool_called", subject=call, data={"tool": call.name, "step": call.step}
    )
    return _result(authority, call, tool, empty=outcome.empty)


def _refuse(
    gate: RunGate,
    authority: Authority,
    call: ToolCall,
    tool: Tool | None,
    *,
    state: ToolCall.State,
    reason: str,
    code: str,
) -> ToolResult:
    reason = make_storable(reason).text  # It may quote the model's own names.
    calls.finish_tool_call(call, state=state, error=reason, label=reason)
    gate.append(
        "tool_result",
        {"call": str(call.id), "state": call.state, "label": call.label, "name": call.name},
    )
    action = "agents.tool_denied" if state == ToolCall.State.DENIED else "agents.tool_called"
    record(
        authority, action, subject=call, data={"tool": call.name, "step": call.step, "reason": code}
    )
    return _result(authority, call, tool)


def _result(
    authority: Authority, call: ToolCall, tool: Tool | None, *, empty: bool = False
) -> ToolResult:
    outcome = {ToolCall.State.DONE: "ok", ToolCall.State.DENIED: "denied"}.get(
        ToolCall.State(call.state), "error"
    )
    # Equal results read alike, so that the loop notices when it goes round in circles.
    seen = exact_json(call.record) if call.record is not None else call.error
    return ToolResult(
        tool_call_id=call.id,
        outcome=outcome,
        empty=empty or outcome != "ok",
        characters=len(project(authority, call, tool)),
        summary=seen[:1000],
    )


def _parse(tool: Tool | None, raw: str) -> tuple[BaseModel | None, str]:
    """The arguments as the tool's own model, or None and what is wrong, in words for the model."""
    if tool is None:
        return None, ""
    try:
        value = _storable(json.loads(raw)) if raw.strip() else {}
        return tool.arguments.model_validate(value), ""
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc']) or 'arguments'}: {fault['msg']}"
            for fault in error.errors(
                include_url=False, include_input=False, include_context=False
            )[:5]
        )
        return None, f"The arguments don't fit {tool.name!r}: {faults}."
    except (ValueError, RecursionError):
        return (
            None,
            f"The arguments of {tool.name!r} aren't one JSON object. Send them again, complete.",
        )


def _storable(value: Any) -> Any:
    """A parsed JSON value whose texts can all be stored: escapes may have hidden NUL and
    surrogates.
    """
    match value:
        case str():
            return make_storable(value).text
        case list():
            return [_storable(item) for item in value]
        case dict():
            return {make_storable(key).text: _storable(item) for key, item in value.items()}
        case _:
            return value


def _dump(arguments: BaseModel | None) -> dict[str, Any] | None:
    return None if arguments is None else arguments.model_dump(mode="json")
