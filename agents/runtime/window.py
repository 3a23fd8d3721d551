"""Which references of a conversation the next model request carries. Pure.

Promises: the newest user item and everything after it are always there, in order; whole turns only,
so a message and the results of its tool calls are never split; the oldest turns go first.
Not for: counting tokens (the backend does) or shortening a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agents.runtime.protocol import ContextItem


@dataclass(frozen=True, slots=True)
class Fitted:
    """The chosen references. `over`: even the part that can't be left out exceeds the budget."""

    refs: tuple[str, ...]
    tokens: int
    over: bool


def choose(*, items: Sequence[ContextItem], budget: int) -> Fitted:
    """The references that fit `budget` tokens.

    The newest summary before the current turn stands for everything older than itself: it is kept
    if it fits, and nothing older is. Between it and the current turn, whole turns are kept from the
    newest back to the first that doesn't fit.
    """
    start = _current_turn(items)
    kept = list(items[start:])
    room = budget - _tokens(kept)
    over = room < 0
    older = items[:start]
    summary, recent = _split_at_summary(older)
    if summary is not None and summary.tokens <= room:
        room -= summary.tokens
    else:
        summary = None
    for turn in reversed(_turns(recent)):
        size = _tokens(turn)
        if size > room:
            break
        kept[:0] = turn
        room -= size
    if summary is not None:
        kept.insert(0, summary)
    return Fitted(refs=tuple(item.ref for item in kept), tokens=budget - room, over=over)


def _current_turn(items: Sequence[ContextItem]) -> int:
    """Where the part begins that is always kept."""
    for index in range(len(items) - 1, -1, -1):
        if items[index].kind == "user":
            return index
    # Nobody has spoken: the newest message with its tool results is the least that makes sense.
    for index in range(len(items) - 1, -1, -1):
        if items[index].kind != "tool":
            return index
    return 0


def _split_at_summary(
    items: Sequence[ContextItem],
) -> tuple[ContextItem | None, Sequence[ContextItem]]:
    for index in range(len(items) - 1, -1, -1):
        if items[index].kind == "summary":
            return items[index], items[index + 1 :]
    return None, items


def _turns(items: Sequence[ContextItem]) -> list[list[ContextItem]]:
    """Cut before each user item; what precedes the first one is a turn of its own."""
    turns: list[list[ContextItem]] = []
    for item in items:
        if item.kind == "user" or not turns:
            turns.append([])
        turns[-1].append(item)
    return turns


def _tokens(items: Sequence[ContextItem]) -> int:
    return sum(item.tokens for item in items)
