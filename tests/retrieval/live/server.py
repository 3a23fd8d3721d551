"""A real server of the Model Context Protocol over HTTP, strict about the wire, for tests.

Speaks the present protocol or an earlier one, as JSON or as a stream. Each bearer token is an
account with rows of its own; what it was asked is kept, and any method can be made to misbehave.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.websites import Asked, Served, Site, website

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
PATH = "/mcp"

SEARCH_TICKETS: dict[str, Any] = {
    "name": "search_tickets",
    "title": "Search tickets",
    "description": "Find tickets by words.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "region": {"type": "string", "x-mcp-header": "Region"},
        },
        "required": ["query"],
    },
    "annotations": {"readOnlyHint": True},
}
CLOSE_TICKET: dict[str, Any] = {
    "name": "close_ticket",
    "description": "Close a ticket.",
    "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}}},
}

Result = dict[str, Any]
Misbehave = Callable[[Asked, dict[str, Any]], Served]


@dataclass
class McpServer:
    """A running server. `rows` are the tickets by token; all of it may be changed meanwhile."""

    site: Site
    rows: dict[str, list[str]] = field(default_factory=dict)
    tools: list[dict[str, Any]] = field(default_factory=lambda: [SEARCH_TICKETS, CLOSE_TICKET])
    versions: tuple[str, ...] = (MODERN,)
    streams: bool = False
    page_size: int = 50
    result: Callable[[dict[str, Any], list[str]], Result] | None = None
    # By method: answers in place of the proper one.
    instead: dict[str, Misbehave] = field(default_factory=dict)
    calls: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    sessions: dict[str, str] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.site.origin}{PATH}"

    @property
    def is_modern(self) -> bool:
        return MODERN in self.versions

    def methods(self) -> list[str]:
        """The methods it was asked for, in order."""
        return [json.loads(one.body)["method"] for one in self.site.asked if one.body]

    def tokens(self) -> set[str]:
        """Every credential it was ever sent."""
        return {one.headers.get("authorization", "") for one in self.site.asked}

    # --- one request

    def answer(self, asked: Asked) -> Served:
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.rows:
            return Served(status=401, headers={"WWW-Authenticate": "Bearer"})
        if asked.method == "DELETE":
            self.ended.append(asked.headers["mcp-session-id"])
            return Served(status=204)
        assert asked.method == "POST"
        assert asked.headers["content-type"] == "application/json"
        assert asked.headers["accept"] == "application/json, text/event-stream"
        message = json.loads(asked.body)
        assert message["jsonrpc"] == "2.0"
        misbehave = self.instead.get(message["method"])
        if misbehave is not None:
            return misbehave(asked, message)
        fault = self._check_modern(asked, message) if self.is_modern else None
        if not self.is_modern:
            fault = self._check_session(asked, message, token)
        if fault is not None:
            return fault
        if "id" not in message:
            return Served(status=202)
        handle = {
            "server/discover": self._discover,
            "initialize": self._initialize,
            "tools/list": self._list,
            "tools/call": self._call,
        }[message["method"]]
        return handle(message, token)

    def _check_modern(self, asked: Asked, message: dict[str, Any]) -> Served | None:
        """Version, method and name stand in body and headers, alike."""
        params = message.get("params", {})
        meta = params.get("_meta", {})
        if message["method"] == "initialize":
            return error(message, -32022, "no handshakes", 400, {"supported": list(self.versions)})
        declared = asked.headers.get("mcp-protocol-version")
        wanted = {declared, meta.get(f"{META}protocolVersion")}
        if wanted != {MODERN} or f"{META}clientCapabilities" not in meta:
            return error(message, -32020, f"version {wanted}", 400)
        if asked.headers.get("mcp-method") != message["method"]:
            return error(message, -32020, "Mcp-Method", 400)
        if message["method"] != "tools/call":
            return None
        if plain(asked.headers.get("mcp-name", "")) != params["name"]:
            return error(message, -32020, "Mcp-Name", 400)
        region = params["arguments"].get("region")
        sent = asked.headers.get("mcp-param-region")
        if (None if sent is None else plain(sent)) != region:
            return error(message, -32020, "Mcp-Param-Region", 400)
        return None

    def _check_session(self, asked: Asked, message: dict[str, Any], token: str) -> Served | None:
        if message["method"] == "initialize":
            return None
        session = asked.headers.get("mcp-session-id", "")
        if session not in self.sessions:
            return error(message, -32600, "Bad Request: Missing session ID", 400)
        if self.sessions[session] != token:
            return error(message, -32600, "not your session", 404)
        if asked.headers.get("mcp-protocol-version") not in self.versions:
            return error(message, -32600, "Bad Request: Unsupported protocol version", 400)
        return None

    # --- the methods

    def _discover(self, message: dict[str, Any], token: str) -> Served:
        return self.reply(
            message, {"supportedVersions": list(self.versions), "capabilities": {"tools": {}}}
        )

    def _initialize(self, message: dict[str, Any], token: str) -> Served:
        session = f"session-{len(self.sessions) + 1}"
        self.sessions[session] = token
        wanted = message["params"]["protocolVersion"]
        version = wanted if wanted in self.versions else self.versions[0]
        served = self.reply(
            message,
            {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "tickets", "version": "1"},
            },
        )
        served.headers["Mcp-Session-Id"] = session
        return served

    def _list(self, message: dict[str, Any], token: str) -> Served:
        start = int(message["params"].get("cursor", 0))
        end = start + self.page_size
        result: Result = {"tools": self.tools[start:end]}
        if end < len(self.tools):
            result["nextCursor"] = str(end)
        return self.reply(message, result)

    def _call(self, message: dict[str, Any], token: str) -> Served:
        name, arguments = message["params"]["name"], message["params"]["arguments"]
        if name not in [tool["name"] for tool in self.tools]:
            return error(message, -32602, f"Unknown tool: {name}")
        self.calls.append((token, name, arguments))
        rows = [row for row in self.rows[token] if arguments.get("query", "") in row]
        if self.result is not None:
            return self.reply(message, self.result(arguments, rows))
        return self.reply(message, {"content": [{"type": "text", "text": row} for row in rows]})

    def reply(self, message: dict[str, Any], result: Result) -> Served:
        """A result, as JSON or as a stream with something else before it."""
        if self.is_modern:
            result = {"resultType": "complete", **result}
        body = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        return stream(message, body) if self.streams else as_json(body)


def as_json(body: object, status: int = 200) -> Served:
    return Served(json.dumps(body).encode(), status, media_type="application/json; charset=utf-8")


def error(
    message: dict[str, Any], code: int, text: str, status: int = 200, data: object = None
) -> Served:
    """A JSON-RPC error."""
    fault = {"code": code, "message": text, "data": data}
    return as_json({"jsonrpc": "2.0", "id": message.get("id"), "error": fault}, status)


def stream(message: dict[str, Any], *bodies: object) -> Served:
    """Events: a comment, an empty one, one of another kind, a notification, then `bodies`."""
    notification = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}
    events = [": hello\r\n\r\n", "id: 1\r\ndata:\r\n\r\n", "event: other\r\ndata: {}\r\n\r\n"]
    for body in (notification, *bodies):
        # Pretty, so that one message spans several data lines.
        lines = json.dumps(body, indent=1).splitlines()
        events.append("".join(f"data: {line}\n" for line in lines) + "\n")
    return Served("".join(events).encode(), media_type="text/event-stream")


def endless(piece: bytes, media_type: str, gap: Callable[[], None]) -> Served:
    """An answer that never ends."""

    def drip() -> Iterator[bytes]:
        while True:
            yield piece
            gap()

    return Served(media_type=media_type, drip=drip)


def plain(value: str) -> str:
    """A header's value, unpacked from its Base64 form."""
    packed = re.fullmatch(r"=\?base64\?(.*)\?=", value)
    return base64.b64decode(packed[1]).decode() if packed else value


@contextmanager
def mcp_server(**settings: Any) -> Iterator[McpServer]:
    """A server on a thread of its own."""
    with website() as site:
        server = McpServer(site, **settings)
        site.pages[PATH] = server.answer
        yield server
