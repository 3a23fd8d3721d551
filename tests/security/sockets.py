"""What the websocket tests share: a guard against hanging, waiting for a close, an ended run."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from conversations.models import Run

# Five times what the cases allow.
GUARD = 25.0
QUESTION = "How many days of leave for moving house?"


async def until_closed(socket: ClientConnection) -> tuple[int, list[dict[str, Any]]]:
    """The close code and what came before it. Raises TimeoutError when it stays open."""
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(GUARD):
        while True:
            try:
                found.append(json.loads(await socket.recv()))
            except ConnectionClosed:
                return socket.close_code or 0, found


def has_ended(run: Run) -> bool:
    """Whether a run is over by now."""
    run.refresh_from_db()
    return run.state in Run.ENDED
