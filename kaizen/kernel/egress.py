"""The one door out: every connection to an address that somebody typed goes through here.

Promises: the address that was checked is the one connected to (a name that changes its mind gains
nothing); redirects are checked as the first address was; secrets don't follow to another origin;
nothing above `max_bytes` is kept and nothing outlasts `timeout`. A refusal is one sentence for all
reasons and comes before any connection, so it tells nothing of what listens inside. Proxies named
in the environment are ignored. Not for: providers of models, which the guard reaches.
"""

from __future__ import annotations

import http.client
import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote, urljoin

from django.conf import settings

from kaizen.kernel.addresses import (
    NotAnAddress,
    Refused,
    Resolve,
    Target,
    canonical_host,
    find_addresses,
    read_url,
    resolve,
)
from kaizen.kernel.errors import Invalid, Unavailable
from kaizen.kernel.wire import (
    READ_SECONDS,
    Deadline,
    Wire,
    decompress,
    plain_body,
    read_body,
    read_headers,
)

__all__ = [
    "INTERNET",
    "Network",
    "Refused",
    "Reply",
    "Target",
    "check_address",
    "connect",
    "decompress",
    "fetch",
    "read_url",
]

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
USER_AGENT = "Kaizen"

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_ADDRESSES = 4
# Ours to set: a caller's would change what is sent where.
_OURS = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "te"}
)
# What may follow to another origin: nothing that could prove who asks.
_HARMLESS = frozenset({"accept", "accept-language", "user-agent"})


@dataclass(frozen=True, slots=True)
class Network:
    """How names are resolved and certificates checked; tests bring their own."""

    resolve: Resolve = resolve
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context


INTERNET = Network()


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: any status, header names in lower case, and the address it came from."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str


def fetch(
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    max_bytes: int,
    timeout: float,
    redirects: int = 5,
    network: Network = INTERNET,
) -> Reply:
    """Ask a web address and give back what it said, whatever the status.

    With `redirects=0` a redirect is the reply. A body isn't sent on to another origin. Resolving a
    name takes as long as the system lets it. Raises Refused, Invalid (too many redirects),
    TooLarge, Unavailable (not reached, broken off, too slow).
    """
    target = read_url(url)
    deadline = Deadline(time.monotonic() + timeout)
    sent = {name.lower(): value for name, value in (headers or {}).items()}
    sent = {"user-agent": USER_AGENT} | {k: v for k, v in sent.items() if k not in _OURS}
    for _ in range(redirects + 1):
        reply = _ask(target, method, sent, body, max_bytes, deadline, network)
        location = _location(reply)
        if not location or not redirects:
            return reply
        onward = _onward(target, location)
        if reply.status == 303 or (reply.status in (301, 302) and method == "POST"):
            method, body = ("HEAD" if method == "HEAD" else "GET"), None
            sent = {name: value for name, value in sent.items() if name != "content-type"}
        if onward.origin != target.origin:
            if body is not None:
                raise _refused(onward.host)
            sent = {name: value for name, value in sent.items() if name in _HARMLESS}
        target = onward
    raise Invalid("The address redirects too often.", code="too_many_redirects")


def check_address(host: str, port: int, *, network: Network = INTERNET) -> str:
    """The IP address to connect to for `host`, checked; connect to it, not to the name.

    Raises Refused, and Unavailable when the name can't be resolved just now.
    """
    return _addresses(host, port, network)[0]


def connect(
    host: str, port: int, *, timeout: float, tls: bool = False, network: Network = INTERNET
) -> socket.socket:
    """A connected socket to a checked address of `host`, in TLS by its name if asked.

    `timeout` counts for the whole of connecting and stays the socket's. Raises Refused,
    Unavailable.
    """
    addresses = _addresses(host, port, network)
    with _trouble(host):
        made = _connect(addresses, host, port, Deadline(time.monotonic() + timeout), tls, network)
    made.settimeout(timeout)
    return made


def _addresses(host: str, port: int, network: Network) -> list[str]:
    try:
        name = canonical_host(host)
        found = find_addresses(name, port, allow=settings.EGRESS_ALLOW, resolve=network.resolve)
    except NotAnAddress:
        found = []
    except socket.gaierror as error:
        if error.errno == socket.EAI_AGAIN:
            raise Unavailable(
                "The name of that site can't be resolved just now.", code="unresolved"
            ) from None
        # As for an inner address: which inner names exist is nobody's business.
        found = []
    except (OSError, UnicodeError):
        found = []
    if not found:
        raise _refused(host)
    return found


def _ask(
    target: Target,
    method: str,
    headers: Mapping[str, str],
    body: bytes | None,
    max_bytes: int,
    deadline: Deadline,
    network: Network,
) -> Reply:
    addresses = _addresses(target.host, target.port, network)
    with _trouble(target.host):
        tls = target.scheme == "https"
        opened = _connect(addresses, target.host, target.port, deadline, tls, network)
        with opened:
            connection = http.client.HTTPConnection(target.host, target.port)
            connection.sock = Wire(opened, deadline)
            ours = {
                "host": target.authority,
                "accept-encoding": "identity",
                "connection": "close",
            }
            connection.request(method, target.path, body=body, headers={**headers, **ours})
            response = connection.getresponse()
            data = b"" if method == "HEAD" else read_body(response, max_bytes)
    return Reply(
        response.status,
        read_headers(response),
        plain_body(response, data, max_bytes),
        target.url,
    )


def _connect(
    addresses: list[str],
    host: str,
    port: int,
    deadline: Deadline,
    tls: bool,
    network: Network,
) -> socket.socket:
    """Connect to the first of these addresses that answers. Raises OSError."""
    failure: OSError = OSError("no address")
    for address in addresses[:_MOST_ADDRESSES]:
        try:
            made = socket.create_connection(
                (address, port), timeout=deadline.left(most=CONNECT_SECONDS)
            )
            break
        except OSError as error:
            failure = error
    else:
        raise failure
    if not tls:
        return made
    try:
        made.settimeout(deadline.left(most=READ_SECONDS))
        return network.tls().wrap_socket(made, server_hostname=host)
    except OSError:
        made.close()
        raise


def _location(reply: Reply) -> str:
    """Where a redirect leads, "" for any other reply. Servers send it as bytes of UTF-8."""
    if reply.status not in _REDIRECTS:
        return ""
    text = reply.headers.get("location", "").strip()
    return quote(text.encode("latin-1", "replace"), safe="/%:@!$&'()*+,;=~?#[]")


def _onward(target: Target, location: str) -> Target:
    try:
        return read_url(urljoin(target.url, location))
    except ValueError:
        raise _refused(location) from None


@contextmanager
def _trouble(host: str) -> Iterator[None]:
    """What the network does wrong, as one error of ours."""
    try:
        yield
    except ssl.SSLCertVerificationError:
        raise Unavailable(f"The certificate of {host} isn't valid.", code="certificate") from None
    except TimeoutError:
        raise Unavailable(f"{host} takes too long to answer.", code="too_slow") from None
    except (OSError, http.client.HTTPException):
        raise Unavailable(f"{host} can't be reached just now.", code="unreachable") from None


def _refused(host: str) -> Refused:
    logger.info("refused to connect to %r", host)
    return Refused()
