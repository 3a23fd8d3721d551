"""The standard library's IMAP client on a socket that is already connected, with limits.

Promises: nothing of a password is kept in the library's own record of commands; room is made only
for what may arrive.
"""

from __future__ import annotations

import imaplib
import io
import socket
import time

from kaizen.kernel.egress import INTERNET
from retrieval.connectors.contract import ConnectorError
from retrieval.connectors.wire import Incoming


class ImapClient(imaplib.IMAP4):
    """A client that reads no more, and no longer, than it may."""

    incoming: Incoming
    _reader: io.BufferedReader

    def __init__(self, sock: socket.socket, host: str, *, seconds: float, most_bytes: int) -> None:
        self._connected = sock
        self._limits = (seconds, most_bytes)
        super().__init__(host)

    def limit(self, *, seconds: float, most_bytes: int) -> None:
        """What the answer to the next command may take."""
        self.incoming.allow(until=time.monotonic() + seconds, most_bytes=most_bytes)

    def open(self, host: str = "", port: int = 143, timeout: float | None = None) -> None:
        self.host, self.port = host, port
        self._use(self._connected)

    def read(self, size: int) -> bytes:
        # Before room is made for what a server only announces.
        self.incoming.check_room(max(0, size - io.DEFAULT_BUFFER_SIZE))
        return self._reader.read(size)

    def start_tls(self) -> None:
        """Encrypt the connection. What came before it in plain is forgotten."""
        status, _data = self.xatom("STARTTLS")
        if status != "OK":
            raise ConnectorError(f"{self.host} refused to encrypt the connection.")
        secured = INTERNET.tls().wrap_socket(self.sock, server_hostname=self.host)
        self._use(secured)
        _status, data = self.capability()
        words = data[-1] if data and isinstance(data[-1], bytes) else b""
        self.capabilities = tuple(words.decode("ascii", "replace").upper().split())

    def sign_in(self, user: str, password: str) -> tuple[str, list[bytes | None]]:
        """LOGIN, with a password of any characters."""
        name = user.encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"')
        # As a literal, which the library keeps out of its own log of commands.
        self.literal = password.encode()  # type: ignore[assignment]
        status, data = self.xatom("LOGIN", b'"' + name + b'"')  # type: ignore[arg-type]
        if status == "OK":
            self.state = "AUTH"
        return status, data

    def _use(self, sock: socket.socket) -> None:
        self.sock = sock
        self.incoming = Incoming(sock, host=self.host)
        seconds, most_bytes = self._limits
        self.limit(seconds=seconds, most_bytes=most_bytes)
        self.file = self._reader = io.BufferedReader(self.incoming)
