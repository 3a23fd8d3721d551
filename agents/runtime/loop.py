"""One run: choose the context, ask the model, act on its reply, until an answer or a bound.

Promises: at most `max_steps` model calls, the last of them without tools; at most `max_tool_calls`
tool requests; results in the order of the calls; one Finish, except when the run waits for a person
or the task is cancelled. It knows references and sizes, not content.
Not for: permission, budgets, validation or the wire: `Backend` is all that it can reach.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, assert_never

from agents.runtime import recovery, steps, window
from agents.runtime.protocol import (
    ContextItem,
    ErrorReply,
    Finish,
    Heartbeat,
    ModelReply,
    ModelRequest,
    RunOutcome,
    Start,
    ToolCall,
    ToolReply,
    ToolRequest,
)
from agents.runtime.recovery import Failed, Policy
from agents.runtime.steps import Answer, CallTools, Stop, Wait


class Backend(Protocol):
    """All that a run can do in the world. Request ids are unique per run attempt and request."""

    async def model(self, request: ModelRequest) -> ModelReply | ErrorReply: ...
    async def tool(self, request: ToolRequest) -> ToolReply | ErrorReply: ...
    async def finish(self, finish: Finish) -> None: ...
    async def heartbeat(self, beat: Heartbeat) -> None: ...


async def execute(*, start: Start, backend: Backend, policy: Policy) -> Finish | Wait:
    """Run to the end and tell the backend, or return quietly with the calls that a person must see.

    Cancelling the task is how a run is stopped from outside: nothing more is sent then.
    """
    loop = _Loop(start=start, backend=backend, policy=policy)
    ending: Answer | Stop | Wait
    try:
        async with asyncio.timeout(start.limits.wall_seconds):
            ending = await loop.to_the_end()
    except TimeoutError:
        ending = Stop("limit", "time")
    match ending:
        case Wait():
            return ending
        case Answer(reason):
            finish = loop.finish(outcome="answered", reason=reason)
        case Stop(outcome, reason):
            finish = loop.finish(outcome=outcome, reason=reason)
        case _:
            assert_never(ending)
    await backend.finish(finish)
    return finish


class _Loop:
    def __init__(self, *, start: Start, backend: Backend, policy: Policy) -> None:
        self._start = start
        self._id = f"{start.run}:{start.attempt}"
        self._backend = backend
        self._policy = policy
        self._items = list(start.context)
        self._budget = start.limits.context_tokens - start.persona_tokens
        self._readers = frozenset(tool.name for tool in start.tools if tool.effect == "read")
        self._has_tools = bool(start.tools) and start.limits.max_tool_calls > 0
        self._repeats = steps.Repeats(start.limits.max_repeats)
        self._slots = asyncio.Semaphore(start.limits.max_parallel_tools)
        self._model_calls = 0
        self._tool_calls = 0

    async def to_the_end(self) -> Answer | Stop | Wait:
        asked_to_close: Stop | None = None
        while True:
            fitted = window.choose(items=self._items, budget=self._budget)
            ending = asked_to_close or self._limit_now(over=fitted.over)
            reply = await self._ask_model(fitted.refs, ending)
            if isinstance(reply, Failed):
                return Stop("failed", reply.code)
            if ending is not None:
                return steps.close(reply=reply, ending=ending, withheld=self._has_tools)
            step: Answer | CallTools | Stop | Wait | None = steps.decide(reply=reply)
            if isinstance(step, CallTools):
                step = await self._call_tools(step.calls)
            match step:
                case None:
                    continue
                case Stop(note=str()):
                    asked_to_close = step
                case Answer() | Wait() | Stop():
                    return step
                case _:
                    assert_never(step)

    def finish(self, *, outcome: RunOutcome, reason: str) -> Finish:
        return Finish(
            run=self._start.run,
            attempt=self._start.attempt,
            lease=self._start.lease,
            outcome=outcome,
            reason=reason,
            step=self._model_calls,
        )

    def _limit_now(self, *, over: bool) -> Stop | None:
        """The bound that makes the coming model call the last one."""
        limits = self._start.limits
        if self._model_calls + 1 >= limits.max_steps:
            return steps.limit("steps", told=self._has_tools)
        if self._has_tools and self._tool_calls >= limits.max_tool_calls:
            return steps.limit("tool_calls")
        if over:
            return steps.limit("context")
        return None

    async def _call_tools(self, calls: tuple[ToolCall, ...]) -> Stop | Wait | None:
        """Ask for the calls and take in their results. None: the loop goes on."""
        # Calls beyond the bound are never asked for; the backend tells the model so.
        wanted = calls[: self._start.limits.max_tool_calls - self._tool_calls]
        everything: list[tuple[ToolCall, ToolReply]] = []
        for batch in steps.batches(calls=wanted, readers=self._readers):
            first = self._tool_calls + 1
            self._tool_calls += len(batch)
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._ask_tool(call, number=first + index))
                    for index, call in enumerate(batch)
                ]
            for call, task in zip(batch, tasks, strict=True):
                reply = task.result()
                if isinstance(reply, Failed):
                    return Stop("failed", reply.code)
                everything.append((call, reply))
                self._items.append(ContextItem(ref=reply.ref, kind="tool", tokens=reply.tokens))
            # A later call may rest on the one that is held, so it isn't made.
            if (waiting := steps.held(done=everything)) is not None:
                return waiting
        if len(wanted) < len(calls):
            return steps.limit("tool_calls")
        return steps.limit("repeated_calls") if self._repeats.add(done=everything) else None

    async def _ask_model(self, refs: tuple[str, ...], ending: Stop | None) -> ModelReply | Failed:
        self._model_calls += 1

        async def send(attempt: int) -> ModelReply | ErrorReply:
            request = ModelRequest(
                run=self._start.run,
                attempt=self._start.attempt,
                lease=self._start.lease,
                request_id=f"{self._id}:m{self._model_calls}.{attempt}",
                step=self._model_calls,
                context=refs,
                allow_tools=ending is None and self._has_tools,
                note=ending.note if ending else None,
            )
            return await self._backend.model(request)

        reply = await recovery.ask(
            send=send,
            policy=self._policy,
            timeout_seconds=self._policy.model_seconds,
            timeout_code="model_timeout",
        )
        # A message with nothing in it has no place in a request: some providers refuse it.
        if isinstance(reply, ModelReply) and (reply.text.strip() or reply.tool_calls):
            tokens = reply.text_tokens + steps.estimate_tokens(reply.tool_calls)
            self._items.append(ContextItem(ref=reply.ref, kind="assistant", tokens=tokens))
        return reply

    async def _ask_tool(self, call: ToolCall, *, number: int) -> ToolReply | Failed:
        async def send(attempt: int) -> ToolReply | ErrorReply:
            request = ToolRequest(
                run=self._start.run,
                attempt=self._start.attempt,
                lease=self._start.lease,
                request_id=f"{self._id}:t{number}.{attempt}",
                step=self._model_calls,
                call_id=call.call_id,
                name=call.name,
                arguments=call.arguments,
            )
            return await self._backend.tool(request)

        async with self._slots:
            return await recovery.ask(
                send=send,
                policy=self._policy,
                timeout_seconds=self._policy.tool_seconds,
                timeout_code="tool_timeout",
            )
