"""The model server beside a test that has no event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.providers.server import ModelServer, Obey


@contextmanager
def serve_in_thread(
    *, keys: frozenset[str] | None = None, obey: Obey | None = None
) -> Iterator[ModelServer]:
    """A running server. Its queue and records may be read and filled from the test's thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="model-server", daemon=True)
    thread.start()

    async def create() -> ModelServer:
        server = ModelServer(keys=keys, obey=obey)
        await server.start()
        return server

    server = asyncio.run_coroutine_threadsafe(create(), loop).result(timeout=10)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(timeout=10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=10)
        loop.close()
