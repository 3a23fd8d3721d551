"""Just enough HTTP/1.1 for the model server: requests with a length, chunked replies, keep-alive.

Writes reach the kernel before the call returns, and a client that goes away is noticed while an
answer is being written or merely waited for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any


class BrokenRequest(Exception):
    """What came in is not a request this server reads."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body as an object; empty if it is none."""
        try:
            value = json.loads(self.body or b"{}")
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {"items": value}


class Connection:
    """One client connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ahead = b""
        writer.transport.set_write_buffer_limits(high=0)

    async def read_request(self) -> Request | None:
        """The next request, or None when the client has closed. Raises BrokenRequest."""
        try:
            head = self._ahead + await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError as error:
            raise BrokenRequest from error
        self._ahead = b""
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        words = first.split(" ")
        if len(words) != 3:
            raise BrokenRequest
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        length = int(headers.get("content-length") or 0)
        body = await self._reader.readexactly(length) if length else b""
        return Request(words[0], words[1].partition("?")[0], headers, body)

    async def watch(self, answer: Coroutine[Any, Any, None]) -> None:
        """Run `answer` until it ends or the client goes away: then raises ConnectionResetError."""
        writing = asyncio.ensure_future(answer)
        watching = asyncio.ensure_future(self._reader.read(1))
        try:
            await asyncio.wait({writing, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not writing.done() and watching.result() == b"":
                raise ConnectionResetError
            await writing
        finally:
            for task in (writing, watching):
                task.cancel()
            await asyncio.gather(writing, watching, return_exceptions=True)
            if not watching.cancelled() and watching.exception() is None:
                self._ahead = watching.result()

    async def send_json(
        self, status: int, body: object, *, headers: Mapping[str, str] | None = None
    ) -> None:
        """A whole reply."""
        data = json.dumps(body).encode()
        lines = {"content-type": "application/json", "content-length": str(len(data))}
        await self._write(_head(status, {**lines, **(headers or {})}) + data)

    async def start_stream(self, *, headers: Mapping[str, str]) -> None:
        """The head of a streamed reply."""
        lines = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
        await self._write(_head(200, {**lines, **headers}))

    async def send_chunk(self, data: bytes) -> None:
        """One chunk of a streamed reply."""
        await self._write(b"%x\r\n%b\r\n" % (len(data), data))

    async def end_stream(self) -> None:
        """The end of a streamed reply."""
        await self._write(b"0\r\n\r\n")

    def abort(self) -> None:
        """Tear the connection."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close in good order."""
        self._writer.close()
        await self._writer.wait_closed()

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Overloaded"
    lines = [
        f"HTTP/1.1 {status} {phrase}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
