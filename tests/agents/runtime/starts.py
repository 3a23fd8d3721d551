"""Start frames for the runtime's tests."""

from __future__ import annotations

from collections.abc import Sequence

from agents.runtime.protocol import ContextItem, Effect, Limits, Start, ToolOffer
from agents.runtime.recovery import Backoff, Policy

QUICK = Backoff(first_seconds=0.001, most_seconds=0.002)
POLICY = Policy(backoff=QUICK)
IMPATIENT = Policy(model_seconds=0.05, tool_seconds=0.05, backoff=QUICK)
SEARCH = '{"q":"x"}'


def offer(name: str, effect: Effect = "read") -> ToolOffer:
    return ToolOffer(name=name, description=name, parameters={"type": "object"}, effect=effect)


def limits(
    *,
    max_steps: int = 12,
    max_tool_calls: int = 40,
    context_tokens: int = 10_000,
    wall_seconds: float = 30.0,
    max_parallel_tools: int = 4,
    max_repeats: int = 3,
) -> Limits:
    return Limits(
        max_steps=max_steps,
        max_tool_calls=max_tool_calls,
        context_tokens=context_tokens,
        wall_seconds=wall_seconds,
        max_parallel_tools=max_parallel_tools,
        max_repeats=max_repeats,
    )


def start(
    *,
    run: str = "run-1",
    attempt: int = 1,
    tools: Sequence[ToolOffer] = (offer("search"), offer("read_document")),
    bounds: Limits | None = None,
    context: Sequence[ContextItem] = (ContextItem(ref="u1", kind="user", tokens=10),),
    lease_seconds: float = 30.0,
) -> Start:
    return Start(
        run=run,
        attempt=attempt,
        lease=f"lease-{run}",
        lease_seconds=lease_seconds,
        context=tuple(context),
        tools=tuple(tools),
        limits=bounds or limits(),
        persona_tokens=100,
    )
