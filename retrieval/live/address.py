"""Which addresses a live source may have: https, or plain http where the operator named the host.

A member's token travels to it, so plain http is for inner servers only, each allowed by name in
KAIZEN_EGRESS_ALLOW. That the address may be connected to at all is `kaizen.kernel.egress`'s.
"""

from __future__ import annotations

from ipaddress import ip_address

from django.conf import settings

from kaizen.kernel.addresses import read_allowed
from kaizen.kernel.egress import Target, check_address, read_url
from kaizen.kernel.errors import Invalid


def read_address(url: str) -> Target:
    """The address taken apart. Raises Refused, and Invalid for plain http to a host that isn't
    allowed by name.
    """
    target = read_url(url)
    if target.scheme != "https" and not _is_named(target):
        raise Invalid(
            "The address must begin with https://, since members' tokens are sent there. An inner "
            "server without it needs its host:port in KAIZEN_EGRESS_ALLOW.",
            code="not_https",
        )
    return target


def check_live_address(url: str) -> Target:
    """Like `read_address`, and that it may be connected to now. Raises Unavailable too."""
    target = read_address(url)
    check_address(target.host, target.port)
    return target


def _is_named(target: Target) -> bool:
    allowed = read_allowed(tuple(settings.EGRESS_ALLOW))
    if (target.host, target.port) in allowed.names:
        return True
    try:
        return allowed.has_address(ip_address(target.host), target.port)
    except ValueError:
        return False
