"""A real websocket server on loopback, played by hand in the tests of the link."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TypeVar

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers

from agents.runtime.protocol import (
    MAX_FRAME_BYTES,
    BackendFrame,
    Hello,
    ModelReply,
    ModelRequest,
    RuntimeFrame,
    Welcome,
    encode,
    parse_runtime_frame,
)

Frame = TypeVar("Frame", bound=RuntimeFrame)
PATIENCE = 10.0


class Line:
    """One connection of a runtime, seen from the backend."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket
        self.done = asyncio.Event()

    @property
    def headers(self) -> Headers:
        assert self.socket.request is not None
        return self.socket.request.headers

    async def next(self, kind: type[Frame]) -> Frame:
        """The next frame, which must be of this kind."""
        data = await asyncio.wait_for(self.socket.recv(), PATIENCE)
        frame = parse_runtime_frame(data)
        assert isinstance(frame, kind), frame
        return frame

    async def is_silent(self, *, seconds: float = 0.1) -> bool:
        try:
            await asyncio.wait_for(self.socket.recv(), seconds)
        except TimeoutError:
            return True
        return False

    async def send(self, *frames: BackendFrame) -> None:
        for frame in frames:
            await self.socket.send(encode(frame))

    async def welcome(self, *, heartbeat_seconds: float = 60.0) -> Hello:
        hello = await self.next(Hello)
        await self.send(Welcome(protocol=1, heartbeat_seconds=heartbeat_seconds))
        return hello

    async def closed(self) -> int | None:
        """Wait for the runtime to close; its close code."""
        await asyncio.wait_for(self.socket.wait_closed(), PATIENCE)
        return self.socket.close_code

    async def close(self) -> None:
        await self.socket.close()
        self.done.set()


class Bridge:
    """The server: `async with Bridge() as bridge`, then `bridge.line()` for each connection."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[Line] = asyncio.Queue()
        self._open: list[Line] = []
        self._server: Server | None = None
        self.url = ""

    async def __aenter__(self) -> Bridge:
        self._server = await serve(
            self._accept, "127.0.0.1", 0, max_size=MAX_FRAME_BYTES, max_queue=1, close_timeout=1
        )
        self.url = f"ws://127.0.0.1:{next(iter(self._server.sockets)).getsockname()[1]}/bridge/"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        for line in self._open:
            line.done.set()
        self._server.close()
        await self._server.wait_closed()

    async def line(self) -> Line:
        return await asyncio.wait_for(self._lines.get(), PATIENCE)

    async def _accept(self, socket: ServerConnection) -> None:
        line = Line(socket)
        self._open.append(line)
        await self._lines.put(line)
        await line.done.wait()


def says(request: ModelRequest, text: str) -> ModelReply:
    return ModelReply(
        request_id=request.request_id,
        ref=f"a:{request.run}",
        text_tokens=1,
        text=text,
        stop="end",
    )
