"""The one door out: inner addresses stay unreached, and nothing that comes in is without limit."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from kaizen.kernel.addresses import canonical_host, is_public, read_allowed
from kaizen.kernel.egress import (
    Network,
    Refused,
    Reply,
    check_address,
    fetch,
    read_url,
)
from kaizen.kernel.errors import Invalid, Unavailable
from tests.spellings import INSIDE
from tests.websites import Served, Site, listener, website

REFUSAL = (
    "That address can't be fetched. Use a public http or https address, without a name or "
    "password in it."
)


@pytest.fixture
def site(settings: Any) -> Iterator[Site]:
    with website() as running:
        settings.EGRESS_ALLOW = (running.allowed,)
        yield running


def get(url: str, **options: Any) -> Reply:
    return fetch(url, **({"max_bytes": 100_000, "timeout": 5.0} | options))


class Names:
    """A resolver that gives its answers one after the other, the last one for ever."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    def __call__(self, host: str, port: int) -> list[str]:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


# --- what is refused


@pytest.mark.parametrize("spelling", INSIDE)
def test_every_spelling_of_an_inner_address_is_refused_before_any_connection(
    spelling: str,
) -> None:
    with listener() as inner:
        with pytest.raises(Refused) as refused:
            get(spelling.replace("{port}", str(inner.port)))
        assert refused.value.message == REFUSAL
        assert refused.value.code == "address_refused"
    assert inner.connections == 0


def test_a_name_with_one_inner_address_among_public_ones_is_refused() -> None:
    with listener() as inner:
        names = Names(["93.184.216.34", "127.0.0.1"])
        with pytest.raises(Refused):
            get(f"http://mixed.example:{inner.port}/", network=Network(resolve=names))
    assert inner.connections == 0


def test_a_name_that_changes_its_mind_after_the_check_gains_nothing(settings: Any) -> None:
    names = Names(["127.0.0.2"], ["127.0.0.1"])
    with website(address="127.0.0.2") as outer, listener(port=outer.port) as inner:
        settings.EGRESS_ALLOW = (outer.allowed,)
        outer.serve("/", "outer")
        address = f"http://rebinding.example:{outer.port}/"
        assert get(address, network=Network(resolve=names)).body == b"outer"
        assert names.asked == 1
        with pytest.raises(Refused):
            get(address, network=Network(resolve=names))
    assert inner.connections == 0


def test_a_redirect_is_resolved_and_checked_again(settings: Any) -> None:
    names = Names(["127.0.0.2"], ["127.0.0.1"])
    with website(address="127.0.0.2") as outer, listener(port=outer.port) as inner:
        settings.EGRESS_ALLOW = (outer.allowed,)
        outer.redirect("/", "/again")
        with pytest.raises(Refused):
            get(f"http://rebinding.example:{outer.port}/", network=Network(resolve=names))
        assert outer.paths() == ["/"]
    assert inner.connections == 0


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:{port}/",
        "//localhost:{port}/",
        "http://2130706433:{port}/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:{port}/_PING",
        "http://user:secret@127.0.0.1:{port}/",
        "http://[::1/",
    ],
)
def test_a_redirect_to_the_inside_is_refused(site: Site, location: str) -> None:
    with listener() as inner:
        site.redirect("/", location.replace("{port}", str(inner.port)))
        with pytest.raises(Refused) as refused:
            get(f"{site.origin}/")
        assert refused.value.message == REFUSAL
    assert inner.connections == 0


def test_an_unknown_name_is_refused_in_the_same_words() -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    with pytest.raises(Refused) as refused:
        get("http://intranet/", network=Network(resolve=unknown))
    assert refused.value.message == REFUSAL


def test_a_resolver_that_fails_for_now_says_try_again() -> None:
    def failing(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    with pytest.raises(Unavailable):
        get("http://example.org/", network=Network(resolve=failing))


def test_a_refusal_takes_as_long_for_an_open_as_for_a_closed_port() -> None:
    with listener() as inner:
        closed = socket.create_server(("127.0.0.1", 0))
        closed_port = closed.getsockname()[1]
        closed.close()

        def seconds(port: int) -> float:
            started = time.perf_counter()
            for _ in range(50):
                with pytest.raises(Refused):
                    get(f"http://127.0.0.1:{port}/")
            return time.perf_counter() - started

        seconds(inner.port)
        assert abs(seconds(inner.port) - seconds(closed_port)) < 0.05
    assert inner.connections == 0


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001:80b::200e"],
)
def test_public_addresses_are_public(address: str) -> None:
    assert check_address(address, 443) == address


# --- what the operator allows


def test_only_the_allowed_port_of_an_allowed_address_is_reached(site: Site) -> None:
    site.serve("/", "in")
    assert get(f"{site.origin}/").body == b"in"
    with listener() as other, pytest.raises(Refused):
        get(f"http://127.0.0.1:{other.port}/")
    assert other.connections == 0


def test_an_allowed_name_is_reached_and_its_address_under_another_name_is_not(
    settings: Any, site: Site
) -> None:
    settings.EGRESS_ALLOW = (f"wiki.corp:{site.port}",)
    site.serve("/", "in")
    inside = Network(resolve=Names(["127.0.0.1"]))
    assert get(f"http://WIKI.corp.:{site.port}/", network=inside).body == b"in"
    with pytest.raises(Refused):
        get(f"http://other.corp:{site.port}/", network=inside)


def test_an_allowed_network_opens_all_its_ports(settings: Any, site: Site) -> None:
    settings.EGRESS_ALLOW = ("127.0.0.0/8",)
    site.serve("/", "in")
    assert get(f"{site.origin}/").status == 200


@pytest.mark.parametrize(
    "entry", ["wiki.corp", "10.0.0.1", "10.0.0.1/8", "wiki.corp:0", "a b:80", "*:80", ""]
)
def test_an_unreadable_entry_of_the_list_says_what_to_write(entry: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="KAIZEN_EGRESS_ALLOW"):
        read_allowed((entry,))


# --- how an address is read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("  HTTPS://Example.ORG.:443/a b", None),
        ("HTTPS://Example.ORG.:443", "https://example.org/"),
        ("http://Bücher.example/ä?q=ö#part", "http://xn--bcher-kva.example/%C3%A4?q=%C3%B6"),
        ("http://faß.example/%41", "http://xn--fa-hia.example/%41"),
        ("http://[2606:4700:0::1111]:8080/", "http://[2606:4700::1111]:8080/"),
        ("http://example.org:80/?", "http://example.org/"),
        ("http://example.org\\@127.0.0.1/", None),
        ("http://exa\nmple.org/", None),
        ("http:///nowhere", None),
        ("//example.org/", None),
        ("example.org", None),
        ("http://example.org:65536/", None),
        ("javascript:alert(1)", None),
        ("", None),
    ],
)
def test_an_address_is_read_in_one_spelling(written: str, read: str | None) -> None:
    if read is None:
        with pytest.raises(Refused):
            read_url(written)
    else:
        assert read_url(written).url == read


def test_hosts_have_one_spelling() -> None:
    assert canonical_host("ExAmple.ORG.") == "example.org"
    assert canonical_host("１２７。0。0。1") == "127.0.0.1"
    assert not is_public(ip_address("192.0.0.8"))


# --- requests and redirects


def test_a_reply_has_status_lower_case_headers_body_and_address(site: Site) -> None:
    site.pages["/x"] = Served(b"gone", 410, {"X-Why": "moved  on"}, "text/plain")
    reply = get(f"{site.origin}/x#part")
    assert (reply.status, reply.body, reply.url) == (410, b"gone", f"{site.origin}/x")
    assert reply.headers["x-why"] == "moved on"
    assert reply.headers["content-type"] == "text/plain"


def test_our_headers_win_over_the_callers(site: Site) -> None:
    site.serve("/", "x")
    get(f"{site.origin}/", headers={"Host": "evil", "Accept-Encoding": "br", "X-Own": "1"})
    sent = site.asked[0].headers
    assert sent["host"] == site.allowed
    assert sent["accept-encoding"] == "identity"
    assert sent["x-own"] == "1"
    assert sent["user-agent"] == "Kaizen"


def test_secrets_follow_a_redirect_within_the_origin_only(settings: Any, site: Site) -> None:
    secrets = {"Authorization": "Bearer s", "Cookie": "s=1", "X-Api-Key": "s", "Accept": "a/b"}
    with website() as other:
        settings.EGRESS_ALLOW = (site.allowed, other.allowed)
        site.redirect("/", "/same")
        site.redirect("/same", f"{other.origin}/other")
        other.serve("/other", "there")
        assert get(f"{site.origin}/", headers=secrets).url == f"{other.origin}/other"
        kept = {name.lower(): value for name, value in secrets.items()}
        assert kept.items() <= site.asked[1].headers.items()
        received = other.asked[0].headers
    assert received["accept"] == "a/b"
    assert {"authorization", "cookie", "x-api-key"}.isdisjoint(received)


@pytest.mark.parametrize(
    ("status", "method", "body"),
    [
        (301, "GET", b""),
        (302, "GET", b""),
        (303, "GET", b""),
        (307, "POST", b"x"),
        (308, "POST", b"x"),
    ],
)
def test_a_redirected_post_keeps_its_body_only_where_http_says_so(
    site: Site, status: int, method: str, body: bytes
) -> None:
    site.redirect("/", "/on", status)
    site.serve("/on", "done")
    get(f"{site.origin}/", method="POST", body=b"x", headers={"Content-Type": "text/plain"})
    assert (site.asked[1].method, site.asked[1].body) == (method, body)


def test_a_body_is_not_sent_on_to_another_origin(settings: Any, site: Site) -> None:
    with website() as other:
        settings.EGRESS_ALLOW = (site.allowed, other.allowed)
        site.redirect("/", f"{other.origin}/", 307)
        with pytest.raises(Refused):
            get(f"{site.origin}/", method="POST", body=b"secret")
        assert other.asked == []


def test_redirects_end(site: Site) -> None:
    site.redirect("/", "/")
    with pytest.raises(Invalid, match="redirects too often") as error:
        get(f"{site.origin}/", redirects=3)
    assert error.value.code == "too_many_redirects"
    assert len(site.asked) == 4


def test_a_redirect_is_the_reply_when_none_is_followed(site: Site) -> None:
    site.redirect("/", "/on", 301)
    reply = get(f"{site.origin}/", redirects=0)
    assert (reply.status, reply.headers["location"]) == (301, "/on")


def test_a_location_in_bytes_of_utf8_is_followed(site: Site) -> None:
    site.redirect("/", "/gr\u00fc\u00dfe".encode().decode("latin-1"))
    site.serve("/gr%C3%BC%C3%9Fe", "hello")
    assert get(f"{site.origin}/").body == b"hello"
