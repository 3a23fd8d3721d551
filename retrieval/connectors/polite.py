"""Web requests of connectors: through the one door out, with our name on, and never in a hurry.

Promises: two requests of one worker to one host are `delay` seconds apart, whichever source asks;
robots.txt is read once a sync and keeps its word. Not for: what a status means to a crawl.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

from kaizen.kernel.clock import now
from kaizen.kernel.egress import (
    INTERNET,
    Network,
    Refused,
    Reply,
    Target,
    fetch,
    read_url,
)
from kaizen.kernel.errors import KaizenError, Unavailable
from retrieval.connectors.contract import ConnectorError
from retrieval.connectors.robots import LARGEST, Robots, read_robots

SECONDS = 60.0
LONGEST_DELAY = 60.0
"""What a site may ask for between two requests; a longer wish is cut to this."""

_MOST_HOSTS = 1_000
_CONTACT = re.compile(r"[\x21-\x27\x2a-\x7e]*")


def is_contact(text: str) -> bool:
    """Whether a text can stand in our name: an e-mail or web address."""
    return _CONTACT.fullmatch(text) is not None


class Polite:
    """Asks web servers for a connector."""

    def __init__(
        self, *, contact: str = "", delay: float = 0.0, network: Network = INTERNET
    ) -> None:
        self._agent = f"Kaizen/1.0 (+{contact})" if contact else "Kaizen/1.0"
        self._delay = delay
        self._network = network
        self._robots: dict[str, Robots] = {}

    def get(
        self,
        url: str,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        redirects: int = 0,
        delay: float = 0.0,
    ) -> Reply:
        """Wait for our turn at the host, then ask. Raises what `egress.fetch` raises."""
        target = read_url(url)
        _TURNS.wait(target.host, max(self._delay, delay))
        return fetch(
            url,
            headers={"Accept": "*/*", **(headers or {}), "User-Agent": self._agent},
            max_bytes=max_bytes,
            timeout=SECONDS,
            redirects=redirects,
            network=self._network,
        )

    def robots_of(self, url: str) -> Robots:
        """The rules of the host of `url`; none where it has no robots.txt.

        Raises ConnectorError while they can't be read: then nothing may be asked for.
        """
        target = read_url(url)
        address = f"{target.scheme}://{target.authority}/robots.txt"
        if address not in self._robots:
            self._robots[address] = self._read_robots(address, target)
        return self._robots[address]

    def _read_robots(self, address: str, target: Target) -> Robots:
        try:
            reply = self.get(address, max_bytes=LARGEST * 4, redirects=5)
        except Refused as error:
            raise as_connector_error(error) from error
        except KaizenError as error:
            raise ConnectorError(f"The robots.txt of {target.host} can't be read.") from error
        if reply.status >= 500 or reply.status == 429:
            raise ConnectorError(
                f"The robots.txt of {target.host} can't be read: status {reply.status}.",
                retry_after=retry_after(reply),
            )
        return read_robots(reply.body) if 200 <= reply.status < 300 else Robots()


def as_connector_error(error: KaizenError) -> ConnectorError:
    """Trouble with a request, as the engine wants it."""
    may_pass = isinstance(error, Unavailable) and error.code != "certificate"
    return ConnectorError(error.message, retry=may_pass)


def retry_after(reply: Reply) -> float | None:
    """How many seconds a server asks us to stay away, at most a day; None if it doesn't say."""
    text = reply.headers.get("retry-after", "")
    if text.isascii() and text.isdigit() and len(text) < 9:
        return min(float(text), 86_400.0)
    at = read_http_date(text)
    return min(max((at - now()).total_seconds(), 0.0), 86_400.0) if at else None


def read_http_date(text: str) -> datetime | None:
    """A date as HTTP and mail write it; None for anything else."""
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return found if found.tzinfo is not None else None


class _Turns:
    """When the next request to a host may begin."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: dict[str, float] = {}

    def wait(self, host: str, delay: float) -> None:
        with self._lock:
            time_now = time.monotonic()
            if len(self._next) > _MOST_HOSTS:
                self._next = {name: at for name, at in self._next.items() if at > time_now}
            at = max(time_now, self._next.get(host, 0.0))
            self._next[host] = at + min(delay, LONGEST_DELAY)
        time.sleep(max(0.0, at - time_now))


_TURNS = _Turns()
