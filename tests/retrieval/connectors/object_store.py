"""An S3-compatible object store for tests, true on the wire for what the connector asks: listing
and reading, with signed requests only.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "knowledge"
ACCESS_KEY = "reader"
PAGE = 3


@dataclass
class ObjectStore:
    """The objects, and what was asked for."""

    objects: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serve() -> Iterator[ObjectStore]:
    """Run one."""
    store = ObjectStore()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            store.asked.append(self.path)
            if f"Credential={ACCESS_KEY}/" not in self.headers.get("Authorization", ""):
                self.answer(403, _error("AccessDenied"))
            elif unquote(parts.path).strip("/") == BUCKET:
                self.answer(200, _listing(store, parse_qs(parts.query)))
            else:
                key = unquote(parts.path).removeprefix(f"/{BUCKET}/")
                if key in store.objects:
                    self.answer(200, store.objects[key], "application/octet-stream")
                else:
                    self.answer(404, _error("NoSuchKey"))

        def answer(self, status: int, body: bytes, kind: str = "application/xml") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    store.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _error(code: str) -> bytes:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode()


def _listing(store: ObjectStore, query: dict[str, list[str]]) -> bytes:
    prefix, marker = query.get("prefix", [""])[0], query.get("marker", [""])[0]
    keys = sorted(key for key in store.objects if key.startswith(prefix) and key > marker)
    some = keys[:PAGE]
    encoded = query.get("encoding-type") == ["url"]
    contents = "".join(
        "<Contents>"
        f"<Key>{quote(key, safe='/') if encoded else escape(key)}</Key>"
        "<LastModified>2031-02-03T04:05:06.000Z</LastModified>"
        f'<ETag>"{hashlib.md5(store.objects[key]).hexdigest()}"</ETag>'
        f"<Size>{len(store.objects[key])}</Size></Contents>"
        for key in some
    )
    more = "true" if len(keys) > len(some) else "false"
    after = f"<NextMarker>{quote(some[-1], safe='/')}</NextMarker>" if some else ""
    kind = "<EncodingType>url</EncodingType>" if encoded else ""
    return (
        "<?xml version='1.0'?><ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"
        f"<Name>{BUCKET}</Name><IsTruncated>{more}</IsTruncated>{kind}{after}{contents}"
        "</ListBucketResult>"
    ).encode()
