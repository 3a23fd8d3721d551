"""Which addresses Kaizen may connect to: the public internet, and what the operator allows.

Judges what a name resolves to, so every spelling of an inner address is refused alike: numbers in
any base, IPv4 inside IPv6, names that point inwards. Never connects. Not for: fetching
(`kaizen.kernel.egress`), and not a list of hosts that are thought to be bad.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import ClassVar
from urllib.parse import quote, urlsplit

import idna
from django.core.exceptions import ImproperlyConfigured

from kaizen.kernel.errors import Invalid

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Sequence[str]]

LONGEST_URL = 8_000

PORTS = {"http": 80, "https": 443}
# White space, control characters, and what programs read differently.
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2028\u2029\ud800-\udfff]")
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
_NUMBER = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")

# Refused whatever `ipaddress` of this Python says of them.
_CLOSED = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by carriers, and where some clouds keep their metadata
        "127.0.0.0/8",
        "168.63.129.16/32",  # a public number that Azure answers inside each machine
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",  # relays to 6to4
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
        "2001::/23",  # Teredo among them
        "2001:db8::/32",
        "2002::/16",  # 6to4: an IPv4 address inside
        "3fff::/20",
    )
)
# All other IPv6 is inner, reserved, or an IPv4 address inside (mapped, compatible, NAT64).
_UNICAST = ip_network("2000::/3")


class Refused(Invalid):
    """An address that may not be fetched; why is never told."""

    default_code: ClassVar[str] = "address_refused"
    default_message: ClassVar[str] = (
        "That address can't be fetched. Use a public http or https address, without a name or "
        "password in it."
    )


@dataclass(frozen=True, slots=True)
class Target:
    """A web address, read once. `path` is ready to be sent."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the operator allows beside the public internet."""

    networks: tuple[tuple[IPv4Network | IPv6Network, int | None], ...] = ()
    names: frozenset[tuple[str, int]] = frozenset()

    def has_address(self, address: Address, port: int) -> bool:
        """Whether this address may be reached at this port."""
        return any(
            address.version == network.version and address in network and only in (None, port)
            for network, only in self.networks
        )


class NotAnAddress(ValueError):
    """A host that no name or address can be."""


def canonical_host(host: str) -> str:
    """The one spelling of a host: lower case, ASCII, without a final dot.

    Raises NotAnAddress for what is no name and no plainly written address.
    """
    if ":" in host:
        try:
            return str(IPv6Address(_without_zone(host)))
        except ValueError:
            raise NotAnAddress(host) from None
    name = _ascii(host).removesuffix(".")
    if not _NAME.fullmatch(name):
        raise NotAnAddress(host)
    if _NUMBER.match(name.rpartition(".")[2]):
        try:
            return str(IPv4Address(name))
        except ValueError:
            raise NotAnAddress(host) from None
    return name


def is_public(address: Address) -> bool:
    """Whether an address is one of the public internet, and no other address in disguise."""
    if isinstance(address, IPv6Address) and (address not in _UNICAST or address.scope_id):
        return False
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    return not any(address.version == network.version and address in network for network in _CLOSED)


@lru_cache(maxsize=64)
def read_allowed(entries: tuple[str, ...]) -> Allowed:
    """The operator's list: `host:port`, `address:port`, or a network such as `10.1.0.0/16`.

    Raises ImproperlyConfigured for anything else.
    """
    networks: list[tuple[IPv4Network | IPv6Network, int | None]] = []
    names: set[tuple[str, int]] = set()
    for entry in entries:
        if "/" in entry:
            networks.append((_network(entry, entry), None))
            continue
        host, colon, digits = entry.strip().rpartition(":")
        if not (colon and digits.isascii() and digits.isdigit() and 0 < int(digits) < 65536):
            raise _unreadable(entry)
        try:
            name = canonical_host(host.removeprefix("[").removesuffix("]"))
        except NotAnAddress:
            raise _unreadable(entry) from None
        if _is_literal(name):
            networks.append((_network(name, entry), int(digits)))
        else:
            names.add((name, int(digits)))
    return Allowed(tuple(networks), frozenset(names))


def resolve(host: str, port: int) -> list[str]:
    """Every address of a name, by the system's resolver. Raises socket.gaierror."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def read_url(url: str) -> Target:
    """A web address taken apart, in one spelling, without its fragment. Raises Refused."""
    text = url.strip()
    if len(text) > LONGEST_URL or _UNSAFE.search(text):
        raise Refused
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise Refused from None
    if parts.scheme not in PORTS or not parts.hostname or "@" in parts.netloc or port == 0:
        raise Refused
    try:
        host = canonical_host(parts.hostname)
    except NotAnAddress:
        raise Refused from None
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    if parts.query:
        path += "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~?[]")
    return Target(parts.scheme, host, port or PORTS[parts.scheme], path)


def find_addresses(
    host: str, port: int, *, allow: Iterable[str], resolve: Resolve = resolve
) -> list[str]:
    """The addresses of a canonical host, all of which may be connected to; empty if any may not.

    Raises socket.gaierror when the name can't be resolved.
    """
    allowed = read_allowed(tuple(allow))
    found = [host] if _is_literal(host) else list(resolve(host, port))
    if (host, port) in allowed.names:
        return found
    addresses = [ip_address(text) for text in found]
    if all(is_public(one) or allowed.has_address(one, port) for one in addresses):
        return found
    return []


def _is_literal(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _without_zone(host: str) -> str:
    if "%" in host:
        raise NotAnAddress(host)
    return host


def _ascii(host: str) -> str:
    if host.isascii():
        return host.lower()
    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except idna.IDNAError:
        raise NotAnAddress(host) from None


def _network(text: str, entry: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text.strip())
    except ValueError:
        raise _unreadable(entry) from None


def _unreadable(entry: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(
        f"KAIZEN_EGRESS_ALLOW holds {entry!r}. An entry is host:port, address:port "
        "([address]:port for IPv6), or a network such as 10.1.0.0/16."
    )
