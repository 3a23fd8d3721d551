"""An in-memory backend for tests of the loop: a scripted model behind a scripted bridge.

Promises: it answers each request with the next line of its script, records every frame, and fails:
at once on a request that nothing was scripted for, at the end (`with`) on a script not used up.
Not for: tests of the wire or of the backend; those use real sockets and the real bridge.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from agents.runtime.protocol import (
    ErrorReply,
    Finish,
    Heartbeat,
    ModelReply,
    ModelRequest,
    StopReason,
    ToolCall,
    ToolOutcome,
    ToolReply,
    ToolRequest,
)


class ScriptError(AssertionError):
    """The loop and the script disagree."""


@dataclass(frozen=True, slots=True)
class Says:
    """The model's message: text, calls as (name, arguments), or both."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    stop: StopReason | None = None
    tokens: int = 10


@dataclass(frozen=True, slots=True)
class Gives:
    """A tool's result."""

    outcome: ToolOutcome = "ok"
    summary: str = ""
    empty: bool = False
    tokens: int = 5
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Errs:
    """No result, for model or tool."""

    code: str
    retry: bool = False
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Hangs:
    """No reply at all."""


@dataclass(slots=True)
class ScriptedModel:
    """Says the lines in order; with `forever` the last of them again and again."""

    lines: Sequence[Says | Errs | Hangs]
    forever: bool = False
    used: int = 0

    def next(self) -> Says | Errs | Hangs:
        if self.used >= len(self.lines):
            if not self.forever:
                raise ScriptError(f"model call {self.used + 1}, but {len(self.lines)} are scripted")
            return self.lines[-1]
        self.used += 1
        return self.lines[self.used - 1]


@dataclass(slots=True)
class ScriptedBridge:
    """A `Backend`. `tools` gives each tool's results in order; `always` those that never end.

    A tool in neither is unknown here, and denied as the real bridge would.
    """

    model_script: ScriptedModel
    tools: Mapping[str, Sequence[Gives | Errs | Hangs]] = field(default_factory=dict)
    always: Mapping[str, Gives] = field(default_factory=dict)
    model_requests: list[ModelRequest] = field(default_factory=list)
    tool_requests: list[ToolRequest] = field(default_factory=list)
    finishes: list[Finish] = field(default_factory=list)
    beats: list[Heartbeat] = field(default_factory=list)
    most_at_once: int = 0
    _at_once: int = 0
    _used: dict[str, int] = field(default_factory=dict)

    def __enter__(self) -> ScriptedBridge:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.check_used_up()

    def check_used_up(self) -> None:
        """Raises ScriptError if a scripted line was never asked for."""
        left = len(self.model_script.lines) - self.model_script.used
        if left:
            raise ScriptError(f"{left} model replies were not used")
        for name, script in self.tools.items():
            if self._used.get(name, 0) != len(script):
                raise ScriptError(f"{name}: {self._used.get(name, 0)} of {len(script)} used")

    async def model(self, request: ModelRequest) -> ModelReply | ErrorReply:
        self.model_requests.append(request)
        line = self.model_script.next()
        match line:
            case Hangs():
                return await _never()
            case Errs():
                return _error(request.request_id, line)
        number = len(self.model_requests)
        calls = tuple(
            ToolCall(call_id=f"c{number}.{index}", name=name, arguments=arguments)
            for index, (name, arguments) in enumerate(line.calls, start=1)
        )
        return ModelReply(
            request_id=request.request_id,
            ref=f"a{number}",
            text_tokens=line.tokens,
            text=line.text,
            tool_calls=calls,
            stop=line.stop or ("tool_use" if calls else "end"),
        )

    async def tool(self, request: ToolRequest) -> ToolReply | ErrorReply:
        self.tool_requests.append(request)
        line = self._next_result(request.name)
        match line:
            case Hangs():
                return await _never()
            case Errs():
                return _error(request.request_id, line)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(line.seconds)
        self._at_once -= 1
        return ToolReply(
            request_id=request.request_id,
            ref=f"r:{request.call_id}",
            tokens=line.tokens,
            outcome=line.outcome,
            empty=line.empty,
            summary=line.summary,
        )

    async def finish(self, finish: Finish) -> None:
        self.finishes.append(finish)

    async def heartbeat(self, beat: Heartbeat) -> None:
        self.beats.append(beat)

    def _next_result(self, name: str) -> Gives | Errs | Hangs:
        if name in self.always:
            return self.always[name]
        if name not in self.tools:
            return Gives(outcome="denied", summary="unknown tool")
        index = self._used.get(name, 0)
        if index >= len(self.tools[name]):
            raise ScriptError(f"{name} was called {index + 1} times, but {index} are scripted")
        self._used[name] = index + 1
        return self.tools[name][index]


def _error(request_id: str, line: Errs) -> ErrorReply:
    return ErrorReply(
        request_id=request_id, code=line.code, retry=line.retry, retry_after=line.retry_after
    )


async def _never() -> ErrorReply:
    await asyncio.Event().wait()
    raise ScriptError("the hanging reply was awaited to its end")
