"""The wire under `egress`: a deadline over a whole exchange, and reading no more than allowed.

Knows nothing of which addresses are allowed; `kaizen.kernel.egress` and the
connectors' own connections use it.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
import zlib
from dataclasses import dataclass

from kaizen.kernel.errors import Invalid, TooLarge

READ_SECONDS = 20.0
_PIECE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Deadline:
    at: float

    def left(self, *, most: float) -> float:
        """Seconds until then, at most `most`. Raises TimeoutError afterwards."""
        seconds = self.at - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return min(seconds, most)


class Wire:
    """A socket to `http.client` that lets nothing outlast the deadline."""

    def __init__(self, opened: socket.socket, deadline: Deadline) -> None:
        self._opened = opened
        self._deadline = deadline

    def sendall(self, data: bytes) -> None:
        self._opened.settimeout(self._deadline.left(most=READ_SECONDS))
        self._opened.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Incoming(self._opened, self._deadline))

    def close(self) -> None:
        """Whoever opened the socket closes it: the reply is read after this."""


class _Incoming(io.RawIOBase):
    def __init__(self, opened: socket.socket, deadline: Deadline) -> None:
        super().__init__()
        self._opened = opened
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        self._opened.settimeout(self._deadline.left(most=READ_SECONDS))
        return self._opened.recv_into(buffer)


def read_body(response: http.client.HTTPResponse, max_bytes: int) -> bytes:
    if response.length is not None and response.length > max_bytes:
        raise too_large(max_bytes)
    found = bytearray()
    while piece := response.read(min(_PIECE, max_bytes + 1 - len(found))):
        found += piece
        if len(found) > max_bytes:
            raise too_large(max_bytes)
    if response.length:
        raise http.client.IncompleteRead(bytes(found), response.length)
    return bytes(found)


def plain_body(response: http.client.HTTPResponse, data: bytes, max_bytes: int) -> bytes:
    """The body without a compression that nobody asked for."""
    encoding = (response.headers.get("Content-Encoding") or "identity").strip().lower()
    if encoding == "identity" or not data:
        return data
    if encoding in ("gzip", "x-gzip", "deflate"):
        return decompress(data, max_bytes=max_bytes)
    raise Invalid("The site answers in a compression that isn't known.", code="broken_data")


def decompress(data: bytes, *, max_bytes: int) -> bytes:
    """What gzip or zlib packed. Raises TooLarge above the limit, Invalid when it is broken."""
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        plain = unpacker.decompress(data, max_bytes + 1)
    except zlib.error:
        raise Invalid("The compressed data is broken.", code="broken_data") from None
    if len(plain) > max_bytes:
        raise too_large(max_bytes)
    if not unpacker.eof:
        raise Invalid("The compressed data breaks off.", code="broken_data")
    return plain


def read_headers(response: http.client.HTTPResponse) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, folded in response.headers.items():
        key, value = name.lower(), " ".join(folded.split())
        found[key] = f"{found[key]}, {value}" if key in found else value
    return found


def too_large(max_bytes: int) -> TooLarge:
    shown = f"{max_bytes // 1024**2} MB" if max_bytes >= 1024**2 else f"{max_bytes:,} bytes"
    return TooLarge(f"What the site sends is larger than the limit of {shown}.")
