"""What to do next, as types: Answer | CallTools | Wait | Stop. Pure.

Promises: every model reply and every batch of tool results has exactly one meaning, to be matched
exhaustively. The sentences that the runtime says to a model are all here.
Not for: doing anything (loop.py acts), or judging whether a call is allowed (the backend does).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from agents.runtime.protocol import (
    ModelReply,
    RunOutcome,
    ToolCall,
    ToolOutcome,
    ToolReply,
)

NOTES = {
    "steps": "This is the last reply of this run. No more tools can be called: answer now with "
    "what you have, and say what is missing.",
    "tool_calls": "The tool calls of this run are used up; a call without a result was not run. "
    "Answer now with what you have, and say what is missing.",
    "repeated_calls": "The same tool call keeps giving the same result, so tools are now off. "
    "Answer now with what you have, and say what could not be found.",
    "context": "There is no room for more results. Answer now with what you have, and say what is "
    "missing.",
    "empty_reply": "Your last reply was empty. Answer now in plain text, briefly if need be.",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """The reply is the answer; `reason` tells how it ended: end, length or refusal."""

    reason: str


@dataclass(frozen=True, slots=True)
class CallTools:
    """The reply asks for these calls."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """These calls are held for a person: the run ends quietly and is nobody's failure."""

    call_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """The run must end. With a `note`, one more model call without tools may close it first."""

    outcome: RunOutcome
    reason: str
    note: str | None = None


Step = Answer | CallTools | Wait | Stop


def limit(reason: str, *, told: bool = True) -> Stop:
    """The run has reached a bound; the model may close with what it has, and is `told` so."""
    return Stop("limit", reason, NOTES[reason] if told else None)


def decide(*, reply: ModelReply) -> Answer | CallTools | Stop:
    """The next step after an ordinary reply.

    Calls are made even from a reply cut by length: the backend refuses the one that was cut, and
    the model sees that. A refusal never runs anything.
    """
    said = bool(reply.text.strip())
    if reply.stop == "refusal":
        return Answer("refusal") if said else Stop("failed", "refusal")
    if reply.tool_calls:
        return CallTools(reply.tool_calls)
    if said:
        return Answer("length" if reply.stop == "length" else "end")
    return Stop("failed", "empty_reply", NOTES["empty_reply"])


def close(*, reply: ModelReply, ending: Stop, withheld: bool) -> Answer | Stop:
    """How the run ends after its closing reply, in which no call may be run any more.

    `withheld`: tools that the run has were off for this reply, so even a good text is only what the
    model could say within the limit. Otherwise nothing was limited and the text is the answer.
    """
    said = bool(reply.text.strip())
    if reply.stop == "refusal":
        return Answer("refusal") if said else Stop("failed", "refusal")
    limited = ending.outcome == "limit" and (withheld or bool(reply.tool_calls))
    if said and not limited:
        return Answer("length" if reply.stop == "length" else "end")
    if ending.outcome == "limit" and not limited:
        return Stop("failed", "empty_reply")
    return Stop(ending.outcome, ending.reason)


def batches(*, calls: Sequence[ToolCall], readers: Collection[str]) -> list[tuple[ToolCall, ...]]:
    """The calls in order, cut into groups that may run side by side.

    Neighbouring calls of tools that only read share a group. Any other is alone: what it changes
    may be what the next call needs.
    """
    groups: list[list[ToolCall]] = []
    open_group = False
    for call in calls:
        reads = call.name in readers
        if reads and open_group:
            groups[-1].append(call)
        else:
            groups.append([call])
        open_group = reads
    return [tuple(group) for group in groups]


def held(*, done: Sequence[tuple[ToolCall, ToolReply]]) -> Wait | None:
    """Wait if any of these calls is held, None if the loop may go on."""
    call_ids = tuple(call.call_id for call, reply in done if reply.outcome == "held")
    return Wait(call_ids) if call_ids else None


@dataclass(slots=True)
class Repeats:
    """Notices a loop: the same call with an equal result `most` times, neighbours or not."""

    most: int
    _seen: dict[tuple[str, str], tuple[tuple[ToolOutcome, bool, str], int]] = field(
        default_factory=dict
    )

    def add(self, *, done: Sequence[tuple[ToolCall, ToolReply]]) -> bool:
        """Whether this step's results show a loop. The same call twice in one step counts once."""
        step = {(call.name, canonical(call.arguments)): reply for call, reply in done}
        looping = False
        for key, reply in step.items():
            result = (reply.outcome, reply.empty, reply.summary)
            before, count = self._seen.get(key, (result, 0))
            count = count + 1 if before == result else 1
            self._seen[key] = (result, count)
            looping = looping or 0 < self.most <= count
        return looping


def canonical(arguments: str) -> str:
    """One spelling for equal arguments; what isn't JSON stands for itself."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return arguments.strip()


def estimate_tokens(calls: Sequence[ToolCall]) -> int:
    """Roughly what a message's calls weigh in the next request: the reply counts only its text."""
    return sum(8 + (len(call.name) + len(call.arguments)) // 3 for call in calls)
