"""The client on the real wire: both protocols, both kinds of reply, paging, headers, sessions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from kaizen.kernel.egress import Refused
from kaizen.kernel.errors import Denied, Invalid, KaizenError, TooLarge, Unavailable
from retrieval.live.answers import read_answer
from retrieval.live.client import MODERN, MOST_BYTES, Session, session
from retrieval.live.wire import RemoteFault
from tests.retrieval.live.conftest import ADA
from tests.retrieval.live.server import (
    CLOSE_TICKET,
    SEARCH_TICKETS,
    McpServer,
    as_json,
    endless,
    error,
    stream,
)
from tests.websites import Asked, Served

EARLIER = ("2025-11-25",)


def call(server: McpServer, arguments: dict[str, Any], *, protocol: str = "") -> str:
    """List, call `search_tickets`, and read the answer."""
    with session(server.url, token=ADA, seconds=10, protocol=protocol) as opened:
        (offer, *_) = opened.list_offers()
        return read_answer(opened.call(offer, arguments), host=opened.host).text


@pytest.mark.parametrize("streams", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("versions", [(MODERN,), EARLIER, ("2025-03-26",)], ids=lambda v: v[0])
def test_a_tool_is_called_whatever_the_server_speaks(
    server: McpServer, versions: tuple[str, ...], streams: bool
) -> None:
    server.versions, server.streams = versions, streams
    assert call(server, {"query": "Printer"}) == "Printer on floor 2 is broken"
    assert server.calls == [(ADA, "search_tickets", {"query": "Printer"})]


def test_the_present_protocol_needs_no_handshake(server: McpServer) -> None:
    call(server, {"query": "Ada"})
    assert server.methods() == ["server/discover", "tools/list", "tools/call"]
    server.site.asked.clear()
    call(server, {"query": "Ada"}, protocol=MODERN)
    assert server.methods() == ["tools/list", "tools/call"]


def test_an_earlier_server_gets_a_session_that_is_closed_again(server: McpServer) -> None:
    server.versions = EARLIER
    call(server, {"query": "Ada"}, protocol="2025-11-25")
    assert server.methods() == [
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
    ]
    assert server.ended == ["session-1"]
    opening, *others = server.site.asked
    assert "mcp-protocol-version" not in opening.headers
    assert {one.headers["mcp-protocol-version"] for one in others} == {"2025-11-25"}
    assert {one.headers["mcp-session-id"] for one in others} == {"session-1"}


@pytest.mark.parametrize(("protocol", "versions"), [(MODERN, EARLIER), ("2025-11-25", (MODERN,))])
def test_a_server_that_speaks_another_protocol_than_last_time_is_asked_anew(
    server: McpServer, protocol: str, versions: tuple[str, ...]
) -> None:
    server.versions = versions
    assert call(server, {"query": "chair"}, protocol=protocol) == "Ada asks for a chair"


def test_a_server_of_none_of_our_versions_is_refused(server: McpServer) -> None:
    server.versions = ("2019-01-01",)
    with pytest.raises(Unavailable) as refused:
        call(server, {})
    assert refused.value.code == "no_protocol"
    assert server.calls == []


def test_every_page_of_tools_is_read_and_the_wanted_one_ends_it(server: McpServer) -> None:
    server.tools = [{**CLOSE_TICKET, "name": f"tool_{n}"} for n in range(25)]
    server.page_size = 10
    with session(server.url, token=ADA, seconds=10) as opened:
        assert [offer.name for offer in opened.list_offers()] == [f"tool_{n}" for n in range(25)]
        server.site.asked.clear()
        assert len(opened.list_offers(until="tool_3")) == 10
    assert server.methods() == ["tools/list"]


@pytest.mark.parametrize(
    "region", ["us-west", "Hello, 世界", " padded ", "a\nb: c", "=?base64?eA==?=", ""]
)
def test_an_annotated_argument_is_repeated_in_its_header_safely(
    server: McpServer, region: str
) -> None:
    call(server, {"query": "", "region": region})
    assert server.calls[0][2] == {"query": "", "region": region}


def test_nothing_but_the_token_of_the_call_goes_out_and_only_to_the_address(
    server: McpServer,
) -> None:
    call(server, {"query": ""})
    assert server.tokens() == {f"Bearer {ADA}"}
    with session(server.url, token="", seconds=5) as opened, pytest.raises(Denied):
        opened.list_offers()
    assert "authorization" not in server.site.asked[-1].headers


def test_a_refusal_of_the_tool_is_told_from_one_of_the_server(server: McpServer) -> None:
    server.result = lambda arguments, rows: {
        "content": [{"type": "text", "text": "no such region"}],
        "isError": True,
    }
    with session(server.url, token=ADA, seconds=10) as opened:
        (offer, _) = opened.list_offers()
        answer = read_answer(opened.call(offer, {}), host=opened.host)
        assert (answer.text, answer.is_error) == ("no such region", True)
        server.tools = [CLOSE_TICKET]
        with pytest.raises(RemoteFault) as refused:
            opened.call(offer, {})
    assert (refused.value.code, refused.value.message) == (-32602, "Unknown tool: search_tickets")


# --- servers that mean harm, or are broken

Message = dict[str, Any]


def body(*bodies: object) -> Callable[[Asked, Message], Served]:
    """A stream that holds only `bodies`."""
    return lambda asked, message: stream(message, *bodies)


def raw(text: str, media_type: str = "application/json", status: int = 200) -> Any:
    return lambda asked, message: Served(text.encode(), status, media_type=media_type)


HOSTILE = {
    "no JSON": (raw("{not json"), Unavailable, "bad_reply"),
    "nothing": (raw(""), Unavailable, "bad_reply"),
    "not a number": (raw('{"jsonrpc":"2.0","id":2,"result":NaN}'), Unavailable, "bad_reply"),
    "a page": (raw("<html>", "text/html"), Unavailable, "bad_reply"),
    "too deep": (raw("[" * 100_000), Unavailable, "bad_reply"),
    "bad text": (
        lambda asked, message: Served(b"\xff\xfe{}", media_type="application/json"),
        Unavailable,
        "bad_reply",
    ),
    "another's answer": (
        lambda asked, message: as_json({"jsonrpc": "2.0", "id": 99, "result": {"tools": []}}),
        Unavailable,
        "bad_reply",
    ),
    "no answer in the stream": (body({"jsonrpc": "2.0", "id": 99}), Unavailable, "bad_reply"),
    "a request of its own": (
        body({"jsonrpc": "2.0", "id": 2, "method": "sampling/createMessage", "params": {}}),
        Unavailable,
        "bad_reply",
    ),
    "a list that is none": (
        lambda asked, message: as_json(
            {"jsonrpc": "2.0", "id": message["id"], "result": {"tools": "all"}}
        ),
        Unavailable,
        "bad_reply",
    ),
    "failing": (raw("", status=500), Unavailable, "server_failed"),
    "forbidding": (raw("", status=403), Denied, "token_refused"),
    "declared too large": (
        lambda asked, message: Served(b"x" * (MOST_BYTES + 1)),
        TooLarge,
        "too_large",
    ),
    "endless and fast": (
        lambda asked, message: endless(b"data: x\n\n" * 5000, "text/event-stream", lambda: None),
        TooLarge,
        "too_large",
    ),
    "endless and slow": (
        lambda asked, message: endless(b": wait\n\n", "text/event-stream", lambda: time.sleep(0.1)),
        Unavailable,
        "too_slow",
    ),
}


@pytest.mark.parametrize(("misbehave", "wanted", "code"), HOSTILE.values(), ids=HOSTILE.keys())
def test_whatever_a_server_answers_ends_in_one_of_our_errors(
    server: McpServer, misbehave: Any, wanted: type[KaizenError], code: str
) -> None:
    server.instead["tools/list"] = misbehave
    began = time.monotonic()
    with (
        session(server.url, token=ADA, seconds=1.5, protocol=MODERN) as opened,
        pytest.raises(wanted) as raised,
    ):
        opened.list_offers()
    assert raised.value.code == code
    assert time.monotonic() - began < 5


def test_a_server_that_asks_to_wait_says_for_how_long(server: McpServer) -> None:
    server.instead["tools/list"] = lambda asked, message: Served(
        status=429, headers={"Retry-After": "17"}
    )
    with (
        session(server.url, token=ADA, seconds=5, protocol=MODERN) as opened,
        pytest.raises(Unavailable) as raised,
    ):
        opened.list_offers()
    assert (raised.value.code, raised.value.retry_after) == ("busy", 17)


def test_a_redirect_is_never_followed(server: McpServer) -> None:
    server.instead["tools/list"] = lambda asked, message: Served(
        status=307, headers={"Location": f"{server.site.origin}/elsewhere"}
    )
    with (
        session(server.url, token=ADA, seconds=5, protocol=MODERN) as opened,
        pytest.raises(Unavailable) as raised,
    ):
        opened.list_offers()
    assert raised.value.code == "redirected"
    assert server.site.paths() == ["/mcp"]


def test_pages_without_end_are_left(server: McpServer) -> None:
    def again(asked: Asked, message: Message) -> Served:
        cursor = int(message["params"].get("cursor", 0)) + 1
        tool = {**CLOSE_TICKET, "name": f"tool_{cursor}"}
        return server.reply(message, {"tools": [tool], "nextCursor": str(cursor)})

    server.instead["tools/list"] = again
    with session(server.url, token=ADA, seconds=10, protocol=MODERN) as opened:
        assert len(opened.list_offers()) == 20


def test_an_error_of_the_present_protocol_is_no_reason_to_fall_back(server: McpServer) -> None:
    server.instead["server/discover"] = lambda asked, message: error(message, -32021, "", 400)
    assert call(server, {"query": "chair"}) == "Ada asks for a chair"
    assert "initialize" not in server.methods()


# --- where it may connect to


def test_an_inner_address_is_refused_unless_the_operator_allows_it(
    server: McpServer, settings: Any
) -> None:
    settings.EGRESS_ALLOW = ()
    with pytest.raises(Invalid):
        Session(server.url, token=ADA, seconds=5)
    with (
        session("https://127.0.0.1:9/mcp", token=ADA, seconds=5) as opened,
        pytest.raises(Refused),
    ):
        opened.list_offers()
    assert server.site.asked == []


def test_tokens_travel_in_plain_http_only_to_hosts_the_operator_named(
    settings: Any,
) -> None:
    settings.EGRESS_ALLOW = ("10.0.0.0/8", "tickets.corp:8080")
    Session("http://tickets.corp:8080/mcp", token=ADA, seconds=5)
    for url in ("http://example.org/mcp", "http://tickets.corp/mcp"):
        with pytest.raises(Invalid) as refused:
            Session(url, token=ADA, seconds=5)
        assert refused.value.code == "not_https"


def test_the_server_of_these_tests_is_as_strict_as_the_protocol(server: McpServer) -> None:
    """The positive control of all that passes above: what we leave out, it refuses."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a\u00e4"}}
    fine = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    asked = Asked(
        "POST", "/mcp", {**fine, "authorization": f"Bearer {ADA}"}, json.dumps(message).encode()
    )
    assert server.answer(asked).status == 400
    assert SEARCH_TICKETS["inputSchema"]["properties"]["region"]["x-mcp-header"] == "Region"
