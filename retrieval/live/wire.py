"""How MCP messages look on HTTP: replies taken apart, values made fit for headers. Pure.

Promises: whatever a server sends becomes one JSON object, a `RemoteFault`, or Unavailable; nothing
else escapes. Not for: sending (`retrieval.live.client`).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kaizen.kernel.egress import Reply
from kaizen.kernel.errors import Denied, Unavailable

JSON_TYPE, STREAM_TYPE = "application/json", "text/event-stream"
_LINE_END = re.compile("\r\n|\n|\r")
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_ENCODED = re.compile(r"=\?base64\?.*\?=")
_LONGEST_WAIT = 3600


@dataclass
class RemoteFault(Exception):
    """The server's own "no" to a request: a JSON-RPC error, or a status of 4xx without one."""

    status: int
    code: int | None = None
    message: str = ""
    data: Any = None


def check_status(reply: Reply, *, host: str) -> None:
    """Raise for what no message explains: refused tokens, redirects, overload, failures."""
    status = reply.status
    if status in (401, 403):
        raise Denied(
            f"{host} refuses your account. Connect it again, with a token that may read there.",
            code="token_refused",
        )
    if 300 <= status < 400:
        # Never followed: a token is sent to the address that the member saw, and to no other.
        raise Unavailable(f"{host} sends on to another address.", code="redirected")
    if status in (429, 503):
        raise Unavailable(
            f"{host} asks to be left alone for a while.",
            code="busy",
            retry_after=_wait(reply.headers.get("retry-after", "")),
        )
    if status >= 500:
        raise Unavailable(f"{host} failed with status {status}.", code="server_failed")


def read_result(reply: Reply, *, identity: int, host: str) -> dict[str, Any]:
    """The result of the request `identity`.

    Raises RemoteFault for the server's refusal, Unavailable for what is no answer to it.
    """
    if reply.status >= 400:
        raise _fault(reply, identity=identity)
    try:
        for message in _messages(reply):
            if not _answers(message, identity):
                continue
            if isinstance(message.get("error"), dict):
                raise _as_fault(reply.status, message["error"])
            if isinstance(message.get("result"), dict):
                result: dict[str, Any] = message["result"]
                return result
            break
    except (ValueError, RecursionError):
        pass
    raise not_understood(host)


def not_understood(host: str) -> Unavailable:
    """The error for an answer that isn't one."""
    return Unavailable(
        f"{host} answers with something that isn't the Model Context Protocol.", code="bad_reply"
    )


def header_value(text: str) -> str:
    """`text` as a header carries it: plain where that is safe, else in Base64 and marked so."""
    if text == "" or (_PLAIN.fullmatch(text) and not _ENCODED.fullmatch(text)):
        return text
    packed = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
    return f"=?base64?{packed}?="


def _fault(reply: Reply, *, identity: int) -> RemoteFault:
    """The error in a reply of status 4xx; without a code where the body holds none."""
    try:
        for message in _messages(reply):
            error = message.get("error")
            if isinstance(error, dict) and (
                message.get("id") is None or _answers(message, identity)
            ):
                return _as_fault(reply.status, error)
    except (ValueError, RecursionError):
        pass
    return RemoteFault(reply.status)


def _as_fault(status: int, error: dict[str, Any]) -> RemoteFault:
    code, message = error.get("code"), error.get("message")
    return RemoteFault(
        status,
        code if type(code) is int else 0,
        message if isinstance(message, str) else "",
        error.get("data"),
    )


def _answers(message: dict[str, Any], identity: int) -> bool:
    return type(message.get("id")) is int and message["id"] == identity


def _messages(reply: Reply) -> Iterator[dict[str, Any]]:
    """The JSON-RPC messages of a body, in order. Raises ValueError, RecursionError."""
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == STREAM_TYPE:
        bodies: Iterator[str] = _events(reply.body.decode("utf-8-sig"))
    elif kind == JSON_TYPE:
        bodies = iter([reply.body.decode("utf-8-sig")])
    else:
        raise ValueError(kind)
    for body in bodies:
        value = json.loads(body, parse_constant=_no_constant)
        for message in value if isinstance(value, list) else [value]:
            if isinstance(message, dict):
                yield message


def _events(text: str) -> Iterator[str]:
    """The data of each event of a stream; a last one that isn't closed counts too."""
    kind = ""
    data: list[str] = []
    for line in [*_LINE_END.split(text), ""]:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if line == "":
            if data and kind in ("", "message") and "".join(data):
                yield "\n".join(data)
            kind, data = "", []
        elif name == "data":
            data.append(value)
        elif name == "event":
            kind = value


def _no_constant(name: str) -> Any:
    raise ValueError(name)  # NaN and Infinity are no JSON, and can't be stored as such.


def _wait(header: str) -> int:
    return min(int(header), _LONGEST_WAIT) if re.fullmatch("[0-9]{1,9}", header) else 30
