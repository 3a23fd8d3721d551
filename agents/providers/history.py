"""Makes a conversation one that a provider accepts, whatever was interrupted or trimmed.

Every tool call has exactly one result in the very next message; a result that answers nothing is
left out. Pure.
"""

from __future__ import annotations

from agents.providers.contract import Message, Opaque, Part, ProviderKind, Text, ToolResult, ToolUse

INTERRUPTED = "This tool call was interrupted; it has no result."


def settle_history(messages: tuple[Message, ...], *, kind: ProviderKind) -> tuple[Message, ...]:
    """`messages` with opaque blocks of other kinds dropped and calls paired with results.

    A call without a result gets an error result, in the order of the calls. Empty texts and empty
    messages go, as does an assistant message that holds nothing but opaque blocks (a turn cut while
    thinking).
    """
    settled: list[Message] = []
    position = 0
    while position < len(messages):
        message = messages[position]
        position += 1
        if message.role == "tool":
            continue
        parts = tuple(part for part in message.parts if _may_go(part, kind=kind))
        if not any(isinstance(part, Text | ToolUse) for part in parts):
            continue
        settled.append(Message(message.role, parts))
        calls = [part for part in parts if isinstance(part, ToolUse)]
        if not calls:
            continue
        results: dict[str, ToolResult] = {}
        while position < len(messages) and messages[position].role == "tool":
            for part in messages[position].parts:
                if isinstance(part, ToolResult):
                    results.setdefault(part.tool_use_id, part)
            position += 1
        answers = tuple(
            results.get(call.id) or ToolResult(call.id, INTERRUPTED, is_error=True)
            for call in calls
        )
        settled.append(Message("tool", answers))
    return tuple(settled)


def _may_go(part: Part, *, kind: ProviderKind) -> bool:
    match part:
        case Text(text):
            return bool(text.strip())
        case Opaque(provider, _):
            return provider == kind
        case _:
            return True
