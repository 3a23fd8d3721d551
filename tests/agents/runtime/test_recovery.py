"""When the runtime asks again, and how long it waits."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.runtime.protocol import ErrorReply
from agents.runtime.recovery import Backoff, Failed, Policy, ask, jitter

EVEN = Policy(backoff=Backoff(first_seconds=0.5, most_seconds=15.0, jitter=lambda: 1.0))


def error(*, retry: bool = True, retry_after: float | None = None) -> ErrorReply:
    return ErrorReply(request_id="m1", code="overloaded", retry=retry, retry_after=retry_after)


@pytest.mark.parametrize(
    ("reply", "attempt", "wait"),
    [
        (error(), 1, 0.5),
        (error(), 3, 2.0),
        (error(), 4, None),
        (error(retry=False), 1, None),
        (error(retry_after=7.0), 1, 7.5),
        (error(retry_after=60.0), 2, 61.0),
        (error(retry_after=60.1), 1, None),
        (error(retry_after=0.0), 1, 0.5),
    ],
)
def test_wait_before_retry(reply: ErrorReply, attempt: int, wait: float | None) -> None:
    assert EVEN.wait_before_retry(error=reply, attempt=attempt) == wait


@settings(deadline=None)
@given(failures=st.integers(min_value=1, max_value=10**9), share=st.floats(0, 1))
def test_backoff_stays_between_half_and_all_of_its_ceiling(failures: int, share: float) -> None:
    wait = Backoff(jitter=lambda: share).seconds(failures=failures)
    ceiling = (
        0.5 * 2 ** (failures - 1) if failures < 5 else min(15.0, 8.0 * 2 ** (min(failures, 9) - 5))
    )
    assert ceiling / 2 <= wait <= ceiling


def test_jitter_is_a_share() -> None:
    assert all(0 <= jitter() < 1 for _ in range(100))


async def test_ask_honours_retry_after_before_the_next_attempt() -> None:
    times: list[float] = []

    async def send(attempt: int) -> str | ErrorReply:
        times.append(asyncio.get_running_loop().time())
        return error(retry_after=0.05) if attempt == 1 else "done"

    policy = Policy(backoff=Backoff(first_seconds=0.001))
    got = await ask(send=send, policy=policy, timeout_seconds=1, timeout_code="late")
    assert got == "done"
    assert times[1] - times[0] >= 0.05


async def test_ask_gives_up_with_the_last_code() -> None:
    attempts: list[int] = []

    async def send(attempt: int) -> str | ErrorReply:
        attempts.append(attempt)
        return error()

    policy = Policy(attempts=3, backoff=Backoff(first_seconds=0.001))
    got = await ask(send=send, policy=policy, timeout_seconds=1, timeout_code="late")
    assert (got, attempts) == (Failed("overloaded"), [1, 2, 3])


async def test_a_time_out_is_not_asked_again() -> None:
    attempts: list[int] = []

    async def send(attempt: int) -> str | ErrorReply:
        attempts.append(attempt)
        await asyncio.sleep(10)
        return "too late"

    got = await ask(send=send, policy=Policy(), timeout_seconds=0.01, timeout_code="late")
    assert (got, attempts) == (Failed("late"), [1])
