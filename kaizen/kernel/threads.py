"""How asynchronous code reaches the database: a bounded pool of threads, one connection each.

Channels' own helper runs everything on one thread per process. Here as many calls run at once as
the connection pool allows, and each gives its connection back when it ends.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.conf import settings
from django.db import close_old_connections, connections

P = ParamSpec("P")
R = TypeVar("R")

_executor = ThreadPoolExecutor(
    max_workers=settings.KAIZEN_DATABASE_THREADS, thread_name_prefix="db"
)


async def in_database(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a synchronous function that uses the ORM on a database thread and await its result.

    A call that has begun is awaited to its end even when the awaiting task is cancelled: a thread
    can't be interrupted, and what follows the cancellation must not overtake what it writes.
    """

    def call() -> R:
        close_old_connections()
        try:
            return function(*args, **kwargs)
        finally:
            connections.close_all()

    job = _executor.submit(contextvars.copy_context().run, call)
    future = asyncio.wrap_future(job)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if not job.cancel():
            await asyncio.wait({future})
        raise
