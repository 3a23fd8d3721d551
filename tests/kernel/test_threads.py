"""Database threads: results and errors come back, and a cancelled call is awaited to its end."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time

import pytest
from django.conf import settings
from django.db import connection

from accounts.models import Organization
from kaizen.kernel.threads import in_database

WHERE: contextvars.ContextVar[str] = contextvars.ContextVar("where", default="nowhere")


async def test_results_errors_and_context_go_through() -> None:
    WHERE.set("here")
    assert await in_database(lambda a, *, b: (a, b, WHERE.get()), 1, b=2) == (1, 2, "here")
    with pytest.raises(ZeroDivisionError):
        await in_database(lambda: 1 / 0)
    await in_database(WHERE.set, "there")
    assert WHERE.get() == "here"


async def test_as_many_run_at_once_as_there_are_threads() -> None:
    together = threading.Barrier(settings.KAIZEN_DATABASE_THREADS, timeout=10)
    await asyncio.gather(
        *(in_database(together.wait) for _ in range(settings.KAIZEN_DATABASE_THREADS))
    )


async def test_a_connection_is_given_back(committed_db: str) -> None:
    def work() -> object:
        Organization.objects.count()
        return connection.connection

    assert await in_database(work) is not None
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("db")]
    assert names

    def is_open() -> bool:
        return connection.connection is not None

    assert await in_database(is_open) is False


async def test_a_cancelled_call_that_had_begun_is_over_when_the_cancellation_is() -> None:
    begun, done = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        time.sleep(0.3)
        done.set()

    task = asyncio.create_task(in_database(work))
    await asyncio.to_thread(begun.wait, 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done.is_set()


async def test_a_cancelled_call_that_had_not_begun_never_does() -> None:
    release = threading.Event()
    busy = [
        asyncio.create_task(in_database(release.wait, 10))
        for _ in range(settings.KAIZEN_DATABASE_THREADS)
    ]
    await asyncio.sleep(0.05)
    ran: list[int] = []
    task = asyncio.create_task(in_database(ran.append, 1))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
    await asyncio.gather(*busy)
    await in_database(int)
    assert ran == []


async def test_the_error_of_a_cancelled_call_is_not_reported_as_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun = threading.Event()

    def work() -> None:
        begun.set()
        time.sleep(0.1)
        raise ZeroDivisionError

    task = asyncio.create_task(in_database(work))
    await asyncio.to_thread(begun.wait, 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "never retrieved" not in caplog.text
