"""How fast a connector may ask, and how long a failing connection is left alone. Knows no rows."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

FIRST_DELAY = 60.0
LONGEST_DELAY = 6 * 3600.0
LONGEST_ASKED_DELAY = 24 * 3600.0
_JITTER = 0.2
_NAP = 1.0


@dataclass(slots=True)
class Pace:
    """Spaces requests evenly. While it waits it asks `check`, which may raise to end the wait."""

    requests_a_minute: int
    check: Callable[[], None]
    _next: float = 0.0

    def wait(self) -> None:
        """Return when the next request may be made."""
        if not self.requests_a_minute:
            return
        while (left := self._next - time.monotonic()) > 0:
            time.sleep(min(left, _NAP))
            self.check()
        self._next = max(time.monotonic(), self._next) + 60.0 / self.requests_a_minute


def delay_after(
    failures: int, *, retry: bool, retry_after: float | None, spread: Callable[[], float]
) -> float:
    """Seconds until the next try after so many failures in a row: doubling, with jitter, never
    earlier than the other side asked for.

    `spread` gives a number from 0 to 1. What can't succeed by itself waits longest.
    """
    doubled = FIRST_DELAY * 2.0 ** min(max(failures, 1) - 1, 20)
    delay = min(doubled, LONGEST_DELAY) if retry else LONGEST_DELAY
    delay *= 1 + _JITTER * spread()
    if retry_after is not None:
        delay = max(delay, min(retry_after, LONGEST_ASKED_DELAY))
    return delay


def spread() -> float:
    """A random number from 0 to 1, so that what failed together doesn't come back together."""
    return random.random()  # noqa: S311  no secret hangs on it
