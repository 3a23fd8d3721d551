"""When to ask again and when to give up: time-outs, retries, back-off.

Promises: a request is asked again only when the backend said so, a bounded number of times, no
sooner than it asked for. A time-out is never asked again: the first request may still be running.
Not for: what a failure means for the run (loop.py) or reaching the backend (link.py).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from agents.runtime.protocol import ErrorReply

Reply = TypeVar("Reply")


def jitter() -> float:
    """Evenly between 0 and 1."""
    return secrets.randbelow(1_000_000) / 1_000_000


@dataclass(frozen=True, slots=True)
class Backoff:
    """Growing waits with full jitter above half, so that many clients don't come back together."""

    first_seconds: float = 0.5
    most_seconds: float = 15.0
    jitter: Callable[[], float] = jitter

    def seconds(self, *, failures: int) -> float:
        """How long to wait after so many failures in a row (1 or more)."""
        # The exponent is bounded: an outage may last for thousands of attempts.
        ceiling = min(self.most_seconds, self.first_seconds * 2.0 ** min(failures - 1, 16))
        return ceiling * (0.5 + self.jitter() / 2)


@dataclass(frozen=True, slots=True)
class Policy:
    """How patient a run is with the backend."""

    attempts: int = 4
    patience_seconds: float = 60.0
    """The longest single wait: asked to wait longer, the run gives up at once and says why."""
    model_seconds: float = 600.0
    tool_seconds: float = 180.0
    backoff: Backoff = field(default_factory=Backoff)

    def wait_before_retry(self, *, error: ErrorReply, attempt: int) -> float | None:
        """Seconds to wait before asking again, None to give up."""
        if not error.retry or attempt >= self.attempts:
            return None
        asked = error.retry_after or 0.0
        if asked > self.patience_seconds:
            return None
        # On top of what was asked for: everybody was told the same time.
        return asked + self.backoff.seconds(failures=attempt)


@dataclass(frozen=True, slots=True)
class Failed:
    """A request that has no result and won't get one."""

    code: str


async def ask(
    *,
    send: Callable[[int], Awaitable[Reply | ErrorReply]],
    policy: Policy,
    timeout_seconds: float,
    timeout_code: str,
) -> Reply | Failed:
    """Send (`send` is given the attempt, from 1) until there is a reply or no more patience."""
    attempt = 1
    while True:
        try:
            async with asyncio.timeout(timeout_seconds):
                reply = await send(attempt)
        except TimeoutError:
            return Failed(timeout_code)
        if not isinstance(reply, ErrorReply):
            return reply
        wait = policy.wait_before_retry(error=reply, attempt=attempt)
        if wait is None:
            return Failed(reply.code)
        await asyncio.sleep(wait)
        attempt += 1
