"""How the Git connector talks to a server: the smart protocol over HTTPS, through the egress rules.

Promises: every connection, redirects included, goes to a checked address; the token is sent to the
configured origin alone; bytes and seconds are limited as a whole; no message holds a secret.
"""

from __future__ import annotations

import http.client
import socket
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urljoin

from dulwich.client import AbstractHttpGitClient
from dulwich.refs import Ref

from kaizen.kernel.egress import Refused, Target, read_url
from kaizen.kernel.wire import Deadline, Wire
from retrieval.connectors.contract import ConnectorError
from retrieval.connectors.wire import connect, explained, may_be_plain

_REDIRECTS = 5
_REDIRECT_STATUSES = {301, 302, 303, 307, 308}
_AGENT = "git/2.40 (Kaizen)"


class Reply:
    """An open answer, in the shape that the Git library expects."""

    def __init__(
        self, answer: http.client.HTTPResponse, sock: socket.socket, *, host: str, url: str
    ) -> None:
        self._answer = answer
        self._sock = sock
        self.host = host
        self.url = url
        self.status = answer.status
        self.headers = answer.headers
        self.content_type = answer.headers.get("Content-Type", "")
        self.redirect_location = ""

    def read_some(self, amount: int) -> bytes:
        """What has arrived, at least one byte before the end. Raises ConnectorError."""
        with explained(self.host):
            try:
                return self._answer.read1(amount)
            except http.client.HTTPException as error:
                raise _unclear(self.host) from error

    def close(self) -> None:
        """Let go of the connection."""
        self._answer.close()
        self._sock.close()


class GitTransport(AbstractHttpGitClient):
    """The Git library's client over this house's own connections."""

    def __init__(
        self, url: str, *, user: str, token: str, max_bytes: int, max_seconds: float
    ) -> None:
        super().__init__(url, quiet=True)
        self._fetch_capabilities.discard(b"packfile-uris")
        self._origin = _read_target(url).origin
        self._credentials = ""
        if token:
            self._credentials = "Basic " + b64encode(f"{user}:{token}".encode()).decode()
        self._max_bytes = max_bytes
        self._left = max_bytes
        self._deadline = Deadline(time.monotonic() + max_seconds)

    @staticmethod
    def _warn_filter_objects() -> None:
        """Servers that can't leave out large files send them; nothing needs to be said."""

    def _negotiate_upload_pack_capabilities(
        self, server_capabilities: set[bytes]
    ) -> tuple[set[bytes], dict[Ref, Ref], bytes | None]:
        if self.protocol_version == 2:
            # A thin pack leans on objects that a filtered copy may not have.
            self._fetch_capabilities.discard(b"thin-pack")
        return super()._negotiate_upload_pack_capabilities(server_capabilities)

    def _get_url(self, path: str | bytes) -> str:
        return self._base_url

    def _http_request(  # type: ignore[override]  # The library names urllib3's own class.
        self,
        url: str,
        headers: dict[str, str] | None = None,
        data: bytes | Iterator[bytes] | None = None,
        raise_for_status: bool = True,
    ) -> tuple[Reply, Callable[[int], bytes]]:
        body = data if data is None or isinstance(data, bytes) else b"".join(data)
        reply = self._follow(url, headers or {}, body)
        try:
            _check_reply(reply)
        except ConnectorError:
            reply.close()
            raise
        reply.redirect_location = reply.url if reply.url != url else ""
        return reply, self._reader(reply)

    def _follow(self, url: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        for _hop in range(_REDIRECTS + 1):
            reply = self._ask(url, headers, body)
            target = reply.headers.get("Location")
            if body is not None or reply.status not in _REDIRECT_STATUSES or not target:
                return reply
            reply.close()
            url = urljoin(url, target)
        raise ConnectorError("The address redirects too often.", retry=False)

    def _ask(self, url: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        target = _read_target(url)
        host = target.host
        sent = {
            **headers,
            "Host": target.authority,
            "User-Agent": _AGENT,
            "Accept-Encoding": "identity",
            "Connection": "close",
        }
        if self._credentials and target.origin == self._origin:
            sent["Authorization"] = self._credentials
        sock = connect(host, target.port, tls=target.scheme == "https")
        try:
            if target.scheme != "https" and not may_be_plain(sock):
                raise not_https()
            line = http.client.HTTPConnection(host, target.port)
            line.sock = Wire(sock, self._deadline)
            with explained(host):
                line.request("GET" if body is None else "POST", target.path, body, sent)
                return Reply(line.getresponse(), sock, host=host, url=url)
        except (http.client.HTTPException, ValueError) as error:
            sock.close()
            raise _unclear(host) from error
        except ConnectorError:
            sock.close()
            raise

    def _reader(self, reply: Reply) -> Callable[[int], bytes]:
        def read(amount: int) -> bytes:
            pieces: list[bytes] = []
            while amount > 0 and (piece := reply.read_some(amount)):
                amount -= len(piece)
                self._left -= len(piece)
                if self._left < 0:
                    raise ConnectorError(
                        f"The repository is larger than {self._max_bytes // 1024**2} MB, the most "
                        "that this connection may load.",
                        retry=False,
                    )
                pieces.append(piece)
            return b"".join(pieces)

        return read


def not_https() -> ConnectorError:
    """What an admin reads of an address of another kind."""
    return ConnectorError(
        "Only repositories with an https:// address can be read. For one that is reached by SSH, "
        "use its https:// address and an access token.",
        retry=False,
    )


def _unclear(host: str) -> ConnectorError:
    return ConnectorError(f"{host} gives an answer that can't be understood.")


def _check_reply(reply: Reply) -> None:
    """Raises ConnectorError for everything that isn't the answer of a Git server."""
    status = reply.status
    if status in (401, 403):
        raise ConnectorError(
            f"{reply.host} refused the user name or the token for this repository.", retry=False
        )
    if status in (404, 410):
        raise ConnectorError(
            "There is no repository at this address, or the token may not read it.", retry=False
        )
    if status != 200:
        raise ConnectorError(
            f"{reply.host} answers with the error {status}.",
            retry=status == 429 or status >= 500,
            retry_after=_seconds(reply.headers.get("Retry-After")),
        )
    if not reply.content_type.startswith("application/x-git-"):
        # Without this the library would take any page for a repository of plain files.
        raise ConnectorError("This address doesn't answer as a Git server.", retry=False)


def _seconds(value: str | None) -> float | None:
    return float(value) if value is not None and value.isascii() and value.isdigit() else None


def _read_target(url: str) -> Target:
    try:
        return read_url(url)
    except Refused as error:
        raise not_https() from error
