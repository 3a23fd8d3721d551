"""What answers a websocket at an address that isn't one: a refused handshake instead of a
traceback.
"""

from __future__ import annotations

from channels.generic.websocket import AsyncWebsocketConsumer


class RefuseUnknown(AsyncWebsocketConsumer):
    """Closes before accepting, which the client sees as 403."""

    async def connect(self) -> None:
        await self.close()
