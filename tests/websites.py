"""Real web servers for tests: a site whose pages a test sets, and a listener that only counts."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar


@dataclass
class Served:
    """An answer. `drip` gives the body in pieces, each sent as it comes and without a size."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    media_type: str = "text/html; charset=utf-8"
    drip: Callable[[], Iterator[bytes]] | None = None


@dataclass(frozen=True)
class Asked:
    """A request as it arrived; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Site:
    """A running site. Pages may be changed while it runs; an unknown path is a 404."""

    address: str
    port: int
    scheme: str = "http"
    pages: dict[str, Served | Callable[[Asked], Served]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.address}:{self.port}"

    @property
    def allowed(self) -> str:
        """Its entry for EGRESS_ALLOW."""
        return f"{self.address}:{self.port}"

    def serve(self, path: str, body: str | bytes, **served: object) -> None:
        """Set a page."""
        data = body.encode() if isinstance(body, str) else body
        self.pages[path] = Served(data, **served)  # type: ignore[arg-type]

    def redirect(self, path: str, location: str, status: int = 302) -> None:
        self.pages[path] = Served(status=status, headers={"Location": location})

    def paths(self) -> list[str]:
        """The paths asked for, in order."""
        return [asked.path for asked in self.asked]

    def answer(self, asked: Asked) -> Served:
        self.asked.append(asked)
        page = self.pages.get(asked.path, Served(b"nothing here", 404))
        return page(asked) if callable(page) else page


@contextmanager
def website(
    *, address: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> Iterator[Site]:
    """A site on a thread of its own."""
    server = _Server((address, port), _Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.site = Site(address, server.server_address[1], "https" if tls else "http")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.site
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


@dataclass
class Listener:
    """Counts who connects and says nothing."""

    port: int
    connections: int = 0


@contextmanager
def listener(*, address: str = "127.0.0.1", port: int = 0) -> Iterator[Listener]:
    """A port that accepts."""
    with socket.create_server((address, port), backlog=64) as server:
        counting = Listener(server.getsockname()[1])
        stopped = threading.Event()

        def accept() -> None:
            server.settimeout(0.05)
            while not stopped.is_set():
                try:
                    server.accept()[0].close()
                except TimeoutError:
                    continue
                counting.connections += 1

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield counting
        finally:
            stopped.set()
            thread.join(timeout=10)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    site: Site

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that go away early are what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version: ClassVar[str] = "HTTP/1.1"

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        asked = Asked(
            self.command,
            self.path,
            {name.lower(): value for name, value in self.headers.items()},
            self.rfile.read(length),
        )
        served = self.server.site.answer(asked)
        self.send_response(served.status)
        headers = {"Content-Type": served.media_type} | served.headers
        if served.drip is None:
            headers = {"Content-Length": str(len(served.body))} | headers
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        for piece in served.drip() if served.drip else [served.body]:
            self.wfile.write(piece)
            self.wfile.flush()
        self.close_connection = True

    do_POST = do_HEAD = do_DELETE = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""
