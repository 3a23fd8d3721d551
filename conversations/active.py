"""A run that a connected runtime is working on: what is in flight for it, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from django.db import transaction

from agents.guard.contract import LeaseLost
from conversations import leases, turns
from conversations.gate import Gate
from conversations.leases import Lease
from conversations.models import Run
from conversations.sink import Sink
from kaizen.kernel.threads import in_database

T = TypeVar("T")

LIMITS = {
    "steps": "The agent reached the number of steps it may take. What it had is kept.",
    "tool_calls": "The agent reached the number of tool calls it may make. What it had is kept.",
    "time": "The agent ran out of time. What it had is kept.",
    "context": "There was no more room for what the agent had found. What it had is kept.",
    "repeated_calls": "The agent went round in circles and was ended. What it had is kept.",
}
FAILURES = {
    "empty_reply": "The model gave no answer. Try again, or ask in other words.",
    "refusal": "The model declined to answer this.",
    "model_timeout": "The model did not answer in time. What it had is kept.",
    "tool_timeout": "A tool did not answer in time. What the agent had is kept.",
    "missing": "The access this answer needed is gone.",
}
FAILED = "The answer broke off. What it had is kept; try again for the rest."


class ActiveRun:
    """One run in this process: its gate, the sink of its text, and the calls in flight."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.sink = Sink(gate)
        self.ended = asyncio.Event()
        self.problem: tuple[str, str] | None = None
        self._calls: set[asyncio.Task[Any]] = set()
        self._opened = False

    async def open(self) -> None:
        """Begin to take text."""
        await self.sink.__aenter__()
        self._opened = True

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work` as something that ends when the run does."""
        task = asyncio.ensure_future(work)
        self._calls.add(task)
        try:
            return await task
        finally:
            self._calls.discard(task)
            if not task.done():
                task.cancel()

    async def close(self) -> None:
        """End what is in flight (the provider's stream included) and flush the text."""
        for task in tuple(self._calls):
            task.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        if self._opened:
            self._opened = False
            await self.sink.__aexit__(None, None, None)

    async def abandon(self) -> None:
        """End the run without a word from its runtime: stopped if that was asked, else lost."""
        if self.ended.is_set():
            return
        await self.close()
        await in_database(turns.lose, self.gate.facts.run_id, attempt=self.gate.facts.attempt)
        self.ended.set()

    def is_stop_requested(self) -> bool:
        """Whether somebody asked to stop this run, or it is no longer this attempt's."""
        row = (
            Run.objects.filter(pk=self.gate.facts.run_id, attempt=self.gate.facts.attempt)
            .values_list("state", "stop_requested_at")
            .first()
        )
        return row is None or row[0] != Run.State.RUNNING or row[1] is not None


def load_gate(lease: Lease) -> Gate:
    """The gate of a run that was just claimed."""
    return Gate(lease, Run.objects.select_related("agent_version").get(pk=lease.run_id))


@transaction.atomic
def end_run(lease: Lease, outcome: str, reason: str, problem: tuple[str, str] | None) -> None:
    """End a run as its runtime says, if its lease still stands; otherwise it was ended already."""
    try:
        run = leases.lock(lease)
    except LeaseLost:
        return
    if run.stop_requested_at is not None:
        turns.finish_locked(
            run, state=Run.State.CANCELLED, code=run.error_code, message=run.error_message
        )
    elif outcome == "answered":
        turns.finish_locked(run, state=Run.State.SUCCEEDED)
    elif outcome == "limit":
        turns.finish_locked(
            run,
            state=Run.State.FAILED,
            salvaged=True,
            code=f"limit_{reason}",
            message=LIMITS.get(reason, FAILED),
        )
    else:
        code, message = problem or (reason, FAILURES.get(reason, FAILED))
        turns.finish_locked(run, state=Run.State.FAILED, salvaged=True, code=code, message=message)
