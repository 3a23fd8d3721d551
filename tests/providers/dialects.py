"""Writes a script as the bytes of each dialect's stream, event by event."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.providers.received import Dialect
from tests.providers.script import Call, ErrorWord, Script

ERROR_STATUS: dict[ErrorWord, int] = {
    "overloaded": 503,
    "limited": 429,
    "quota": 429,
    "refused_key": 401,
    "bad_request": 400,
    "too_long": 400,
    "failed": 500,
}
_ANTHROPIC_WORDS: dict[ErrorWord, str] = {
    "overloaded": "overloaded_error",
    "limited": "rate_limit_error",
    "quota": "billing_error",
    "refused_key": "authentication_error",
    "bad_request": "invalid_request_error",
    "too_long": "request_too_large",
    "failed": "api_error",
}
_OPENAI_WORDS: dict[ErrorWord, tuple[str, str | None]] = {
    "overloaded": ("service_unavailable_error", "server_is_overloaded"),
    "limited": ("requests", "rate_limit_exceeded"),
    "quota": ("insufficient_quota", "insufficient_quota"),
    "refused_key": ("invalid_request_error", "invalid_api_key"),
    "bad_request": ("invalid_request_error", None),
    "too_long": ("invalid_request_error", "context_length_exceeded"),
    "failed": ("server_error", "server_error"),
}


@dataclass(frozen=True, slots=True)
class Frame:
    """Bytes to write; `piece` marks those that count as a piece of the answer."""

    data: bytes
    piece: bool = False


def error_body(dialect: Dialect, word: ErrorWord, message: str) -> dict[str, Any]:
    """The JSON body of an error reply."""
    if dialect == "messages":
        error = {"type": _ANTHROPIC_WORDS[word or "failed"], "message": message}
        return {"type": "error", "error": error}
    kind, code = _OPENAI_WORDS[word or "failed"]
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def render(dialect: Dialect, script: Script, *, model: str) -> Iterator[Frame]:
    """The frames of one answer, up to where its ending takes over."""
    if script.raw:
        yield from (Frame(chunk, piece=True) for chunk in script.raw)
        return
    write = {"chat": _chat, "messages": _messages, "responses": _responses}[dialect]
    opening, closing = write(script, model)
    yield from opening
    if script.error:
        body = error_body(dialect, script.error, script.error_message)
        yield Frame(_sse({**body, "type": "error"}, event=None if dialect == "chat" else "error"))
    elif script.ending == "end":
        yield from closing


def _sse(data: object, *, event: str | None = None) -> bytes:
    # Providers send UTF-8, so that a read can end within a character.
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {text}\n\n".encode()


def _halves(call: Call) -> tuple[str, str]:
    middle = len(call.arguments) // 2
    return call.arguments[:middle], call.arguments[middle:]


Written = tuple[list[Frame], list[Frame]]


def _chat(script: Script, model: str) -> Written:
    def chunk(choices: list[dict[str, Any]], **more: Any) -> bytes:
        kind = "chat.completion.chunk"
        return _sse({"id": "c1", "object": kind, "model": model, "choices": choices, **more})

    def delta(value: dict[str, Any], reason: str | None = None) -> bytes:
        return chunk([{"index": 0, "delta": value, "finish_reason": reason}])

    refused = script.stop_reason == "refusal"
    frames = [Frame(delta({"role": "assistant", "content": None}))]
    frames += [Frame(delta({"reasoning_content": block.text})) for block in script.thinking]
    name = "refusal" if refused else "content"
    frames += [Frame(delta({name: piece}), piece=True) for piece in script.text]
    starts = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        for call in script.calls
    ]
    frames += [
        Frame(delta({"tool_calls": [{"index": at, **start}]})) for at, start in enumerate(starts)
    ]
    # Alternating, since parallel calls may be streamed side by side.
    for half in (0, 1):
        for at, call in enumerate(script.calls):
            function = {"arguments": _halves(call)[half]}
            frames.append(Frame(delta({"tool_calls": [{"index": at, "function": function}]})))
    reasons = {"tool_use": "tool_calls", "length": "length", "refusal": "stop"}
    closing = [Frame(delta({}, reasons.get(script.stop_reason, "stop")))]
    if script.usage:
        usage = {
            "prompt_tokens": script.usage.input,
            "completion_tokens": script.output_tokens,
            "total_tokens": script.usage.input + script.output_tokens,
            "prompt_tokens_details": {"cached_tokens": script.usage.cached},
            "completion_tokens_details": {"reasoning_tokens": script.usage.reasoning},
        }
        closing.append(Frame(chunk([], usage=usage)))
    closing.append(Frame(_sse("[DONE]")))
    return frames, closing


def _messages(script: Script, model: str) -> Written:
    def event(kind: str, **data: Any) -> Frame:
        return Frame(_sse({"type": kind, **data}, event=kind))

    counted = script.usage
    usage: dict[str, Any] = {"input_tokens": 0, "output_tokens": 0}
    if counted:
        usage["input_tokens"] = counted.input - counted.cached
        usage["cache_read_input_tokens"] = counted.cached
        usage["output_tokens"] = 1
    message: dict[str, Any] = {
        "id": "m1", "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    frames = [event("message_start", message=message), event("ping")]
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    for thought in script.thinking:
        if thought.redacted:
            blocks.append(({"type": "redacted_thinking", "data": thought.text}, []))
            continue
        start: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [
            {"type": "thinking_delta", "thinking": thought.text},
            {"type": "signature_delta", "signature": thought.signature},
        ]
        blocks.append((start, deltas))
    if script.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in script.text]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for call in script.calls:
        start = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        halves = [half for half in _halves(call) if half]
        deltas = [{"type": "input_json_delta", "partial_json": half} for half in halves]
        blocks.append((start, deltas))
    for at, (start, deltas) in enumerate(blocks):
        frames.append(event("content_block_start", index=at, content_block=start))
        for delta in deltas:
            frame = event("content_block_delta", index=at, delta=delta)
            frames.append(Frame(frame.data, piece=delta["type"] == "text_delta"))
        # A block that is cut or interrupted in its text is never stopped.
        if script.ending == "end" and not script.error:
            frames.append(event("content_block_stop", index=at))
    reasons = {
        "end": "end_turn", "tool_use": "tool_use", "length": "max_tokens",
        "refusal": "refusal", "stop": "stop_sequence",
    }  # fmt: skip
    ending: dict[str, Any] = {"stop_reason": reasons[script.stop_reason], "stop_sequence": None}
    final: dict[str, Any] = {"output_tokens": script.output_tokens}
    if counted and counted.reasoning:
        final["output_tokens_details"] = {"thinking_tokens": counted.reasoning}
    closing = [event("message_delta", delta=ending, usage=final), event("message_stop")]
    return frames, closing


@dataclass(slots=True)
class _Numbered:
    """Responses events carry a running number."""

    number: int = 0

    def __call__(self, kind: str, *, piece: bool = False, **data: Any) -> Frame:
        body = {"type": kind, "sequence_number": self.number, **data}
        self.number += 1
        return Frame(_sse(body, event=kind), piece=piece)


def _responses(script: Script, model: str) -> Written:
    event = _Numbered()
    shell = {"id": "r1", "object": "response", "created_at": 1, "model": model, "output": []}
    running = {**shell, "status": "in_progress", "usage": None, "error": None}
    frames = [event("response.created", response=running)]
    output: list[dict[str, Any]] = []
    for thought in script.thinking:
        item = {
            "id": f"rs_{len(output)}", "type": "reasoning", "summary": [],
            "encrypted_content": f"{thought.text}.{thought.signature}",
        }  # fmt: skip
        started = {**item, "encrypted_content": ""}
        frames.append(event("response.output_item.added", output_index=len(output), item=started))
        frames.append(event("response.output_item.done", output_index=len(output), item=item))
        output.append(item)
    if script.text:
        frames += _responses_text(script, event, output)
    for call in script.calls:
        frames += _responses_call(call, event, output)
    length = script.stop_reason == "length"
    status = "incomplete" if length else "completed"
    details = {"reason": "max_output_tokens"} if length else None
    whole = {
        **shell, "status": status, "output": output, "error": None, "incomplete_details": details,
        "usage": _responses_usage(script),
    }  # fmt: skip
    return frames, [event(f"response.{status}", response=whole)]


def _responses_text(
    script: Script, event: Callable[..., Frame], output: list[dict[str, Any]]
) -> list[Frame]:
    kind = "refusal" if script.stop_reason == "refusal" else "output_text"
    field = "refusal" if kind == "refusal" else "text"
    place = {"output_index": len(output), "item_id": "msg_1", "content_index": 0}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    added = {**item, "status": "in_progress"}
    text = "".join(script.text)
    part = {"type": kind, field: text, "annotations": []}
    done = {**item, "status": "completed", "content": [part]}
    frames = [
        event("response.output_item.added", output_index=len(output), item=added),
        event("response.content_part.added", part={**part, field: ""}, **place),
    ]
    for piece in script.text:
        frames.append(event(f"response.{kind}.delta", piece=True, delta=piece, **place))
    if script.ending == "end" and not script.error:
        frames += [
            event(f"response.{kind}.done", **{field: text}, **place),
            event("response.content_part.done", part=part, **place),
            event("response.output_item.done", output_index=len(output), item=done),
        ]
    output.append(done)
    return frames


def _responses_call(
    call: Call, event: Callable[..., Frame], output: list[dict[str, Any]]
) -> list[Frame]:
    at = len(output)
    item = {"id": f"fc_{at}", "type": "function_call", "call_id": call.id, "name": call.name}
    done = {**item, "arguments": call.arguments, "status": "completed"}
    place = {"output_index": at, "item_id": item["id"]}
    deltas = [
        event("response.function_call_arguments.delta", delta=half, **place)
        for half in _halves(call)
        if half
    ]
    output.append(done)
    return [
        event(
            "response.output_item.added",
            output_index=at,
            item={**item, "arguments": "", "status": "in_progress"},
        ),
        *deltas,
        event("response.function_call_arguments.done", arguments=call.arguments, **place),
        event("response.output_item.done", output_index=at, item=done),
    ]


def _responses_usage(script: Script) -> dict[str, Any] | None:
    if not script.usage:
        return None
    return {
        "input_tokens": script.usage.input,
        "input_tokens_details": {"cached_tokens": script.usage.cached, "cache_write_tokens": 0},
        "output_tokens": script.output_tokens,
        "output_tokens_details": {"reasoning_tokens": script.usage.reasoning},
        "total_tokens": script.usage.input + script.output_tokens,
    }
