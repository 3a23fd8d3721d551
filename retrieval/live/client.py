"""A client of the Model Context Protocol over Streamable HTTP, as far as reading needs it.

Speaks 2026-07-28 (every request stands alone) and the versions before it (a session opened by
`initialize`). Promises: one token to one address; every connection passes the egress guard; no
redirect is followed; one deadline, one size and one number bound whatever the server does. It
offers the server nothing: no sampling, no elicitation, no files. Not for: who may read what.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kaizen.kernel.egress import Reply, fetch
from kaizen.kernel.errors import KaizenError, Unavailable
from kaizen.kernel.models import exact_json
from retrieval.live.address import read_address
from retrieval.live.offers import Offer, read_offer
from retrieval.live.wire import (
    JSON_TYPE,
    STREAM_TYPE,
    RemoteFault,
    check_status,
    header_value,
    not_understood,
    read_result,
)

MODERN = "2026-07-28"
EARLIER = ("2025-11-25", "2025-06-18", "2025-03-26")
MOST_BYTES = 1024 * 1024
MOST_TOOLS = 500

_MOST_PAGES = 20
_CLOSING_SECONDS = 2.0
_CLIENT = {"name": "Kaizen", "version": "1"}
_UNSUPPORTED_VERSION = -32022
# Errors that only a server of the present protocol gives.
_OF_MODERN_SERVERS = frozenset({-32020, -32021, _UNSUPPORTED_VERSION})
_META = "io.modelcontextprotocol/"
_LONGEST_SESSION = 1_024


@contextmanager
def session(url: str, *, token: str, seconds: float, protocol: str = "") -> Iterator[Session]:
    """An exchange with the server at `url` under `token` ("" for none), over within `seconds`.

    `protocol` is the version it spoke last; a wrong guess costs a request. Raises Refused and
    Invalid for the address.
    """
    opened = Session(url, token=token, seconds=seconds, protocol=protocol)
    try:
        yield opened
    finally:
        opened.close()


class Session:
    """See `session`. `protocol` is the version in use, "" before the first answer."""

    def __init__(self, url: str, *, token: str, seconds: float, protocol: str = "") -> None:
        self.host = read_address(url).host
        self.protocol = ""
        self._url = url
        self._token = token
        self._guess = protocol
        self._deadline = time.monotonic() + seconds
        self._session = ""
        self._count = 0

    def list_offers(self, *, until: str | None = None) -> list[Offer]:
        """The tools that the server offers to this token, in its order, the first of each name.

        Ends at the tool named `until`. Ill-formed ones are left out. Raises Denied when the token
        is refused, Unavailable, TooLarge, RemoteFault.
        """
        found: dict[str, Offer] = {}
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            result = self._request("tools/list", {} if cursor is None else {"cursor": cursor})
            listed = result.get("tools")
            if not isinstance(listed, list):
                raise not_understood(self.host)
            for offer in map(read_offer, listed):
                if offer is not None:
                    found.setdefault(offer.name, offer)
            following = result.get("nextCursor")
            if until in found or len(found) >= MOST_TOOLS or following in (None, "", cursor):
                break
            if not isinstance(following, str):
                raise not_understood(self.host)
            cursor = following
        return list(found.values())[:MOST_TOOLS]

    def call(self, offer: Offer, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result of calling a tool. Raises as `list_offers` does."""
        return self._request(
            "tools/call",
            {"name": offer.name, "arguments": dict(arguments)},
            headers={"mcp-name": header_value(offer.name), **offer.argument_headers(arguments)},
        )

    def close(self) -> None:
        """End the session at the server, if there is one; that it can't be reached is no matter."""
        if not self._session:
            return
        with contextlib.suppress(KaizenError):
            fetch(
                self._url,
                method="DELETE",
                headers=self._headers(),
                max_bytes=MOST_BYTES,
                timeout=_CLOSING_SECONDS,
                redirects=0,
            )
        self._session = ""

    # --- which of the two ways the server speaks

    def _request(
        self, method: str, params: dict[str, Any], *, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        if not self.protocol and self._guess == MODERN:
            self.protocol = MODERN
            try:
                return self._exchange(method, params, headers or {})[0]
            except RemoteFault:
                self.protocol = ""  # It may have changed since; ask what it speaks now.
        if not self.protocol:
            self._settle_protocol()
        return self._exchange(method, params, headers or {})[0]

    def _settle_protocol(self) -> None:
        """Find out what the server speaks, with the likelier way first."""
        ways = [self._discover, self._initialize]
        if self._guess in EARLIER:
            ways.reverse()
        for way in ways:
            self.protocol = way()
            if self.protocol:
                return
        raise Unavailable(
            f"{self.host} is no server of the Model Context Protocol that can be read from here.",
            code="no_protocol",
        )

    def _discover(self) -> str:
        """The present version if the server knows it, else ""."""
        self.protocol = MODERN
        try:
            result, _ = self._exchange("server/discover", {}, {})
        except RemoteFault as fault:
            # Any other error of the present protocol means that it is understood.
            known = fault.code in _OF_MODERN_SERVERS and fault.code != _UNSUPPORTED_VERSION
            return MODERN if known else ""
        finally:
            self.protocol = ""
        versions = result.get("supportedVersions")
        return MODERN if isinstance(versions, list) and MODERN in versions else ""

    def _initialize(self) -> str:
        """The earlier version agreed on with the server, else ""."""
        wanted = {"protocolVersion": EARLIER[0], "capabilities": {}, "clientInfo": _CLIENT}
        try:
            result, reply = self._exchange("initialize", wanted, {})
        except RemoteFault:
            return ""
        version = result.get("protocolVersion")
        if version not in EARLIER:
            return ""
        session_id = reply.headers.get("mcp-session-id", "")
        if len(session_id) > _LONGEST_SESSION or not all("!" <= c <= "~" for c in session_id):
            raise not_understood(self.host)
        self._session, self.protocol = session_id, version
        accepted = self._send({"jsonrpc": "2.0", "method": "notifications/initialized"}, {})
        if accepted.status >= 400:
            raise not_understood(self.host)
        return str(version)

    # --- one message

    def _exchange(
        self, method: str, params: dict[str, Any], headers: Mapping[str, str]
    ) -> tuple[dict[str, Any], Reply]:
        """Send a request and read its result. Raises RemoteFault, Denied, Unavailable, TooLarge."""
        self._count += 1
        message = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        if self.protocol == MODERN:
            meta = {
                f"{_META}protocolVersion": MODERN,
                f"{_META}clientInfo": _CLIENT,
                f"{_META}clientCapabilities": {},
            }
            message["params"] = {**params, "_meta": meta}
            headers = {"mcp-method": method, **headers}
        reply = self._send(message, headers)
        return read_result(reply, identity=self._count, host=self.host), reply

    def _send(self, message: dict[str, Any], headers: Mapping[str, str]) -> Reply:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise Unavailable(f"{self.host} takes too long to answer.", code="too_slow")
        reply = fetch(
            self._url,
            method="POST",
            headers={**self._headers(), **headers},
            body=exact_json(message).encode(),
            max_bytes=MOST_BYTES,
            timeout=left,
            redirects=0,
        )
        check_status(reply, host=self.host)
        return reply

    def _headers(self) -> dict[str, str]:
        headers = {"content-type": JSON_TYPE, "accept": f"{JSON_TYPE}, {STREAM_TYPE}"}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        if self.protocol:
            headers["mcp-protocol-version"] = self.protocol
        if self._session:
            headers["mcp-session-id"] = self._session
        return headers
