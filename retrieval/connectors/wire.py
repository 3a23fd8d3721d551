"""Connections of the bundled connectors that aren't a plain web request.

Promises: a socket leads to the very address that the egress rules checked, with TLS verified for
the name that was configured; trouble becomes a `ConnectorError` with a sentence for an admin.
"""

from __future__ import annotations

import io
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address

from kaizen.kernel import egress
from kaizen.kernel.errors import Unavailable
from kaizen.kernel.wire import Deadline
from retrieval.connectors.contract import ConnectorError

CONNECT_SECONDS = 15.0
SILENCE_SECONDS = 30.0


def connect(host: str, port: int, *, tls: bool) -> socket.socket:
    """A connection to a checked address of `host`. Raises ConnectorError."""
    try:
        sock = egress.connect(host, port, timeout=CONNECT_SECONDS, tls=tls)
    except egress.Refused as error:
        raise ConnectorError(
            "That address may not be reached from here. Use a public one, or ask the operator to "
            "allow it.",
            retry=False,
        ) from error
    except Unavailable as error:
        raise ConnectorError(error.message, retry=error.code != "certificate") from error
    sock.settimeout(SILENCE_SECONDS)
    return sock


def may_be_plain(sock: socket.socket) -> bool:
    """Whether a connection may go without TLS.

    An inner address passes the egress rules only where the operator named it, and that is the only
    place where nothing needs to be hidden on the way.
    """
    return not ip_address(str(sock.getpeername()[0]).partition("%")[0]).is_global


class Incoming(io.RawIOBase):
    """What a socket receives, within a time and a number of bytes that can be set anew."""

    def __init__(self, sock: socket.socket, *, host: str) -> None:
        super().__init__()
        self._sock = sock
        self._host = host
        self._deadline = Deadline(0.0)
        self._bytes = 0

    def allow(self, *, until: float, most_bytes: int) -> None:
        """Let so much more arrive, until this moment of the monotonic clock."""
        self._deadline = Deadline(until)
        self._bytes = most_bytes

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Raises TimeoutError and OSError as a socket does, ConnectorError for too many bytes."""
        self._sock.settimeout(self._deadline.left(most=SILENCE_SECONDS))
        received = self._sock.recv_into(buffer)
        self._bytes -= received
        self.check_room(0)
        return received

    def check_room(self, size: int) -> None:
        """Raises ConnectorError when so many bytes more may not arrive."""
        if size > self._bytes:
            raise ConnectorError(f"{self._host} sends more than was asked for.", retry=False)


@contextmanager
def explained(host: str) -> Iterator[None]:
    """Turn trouble with a socket into a ConnectorError."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise ConnectorError(f"The certificate of {host} isn't valid.", retry=False) from error
    except TimeoutError as error:
        raise ConnectorError(f"{host} takes too long to answer.") from error
    except OSError as error:
        raise ConnectorError(f"The connection to {host} failed.") from error
