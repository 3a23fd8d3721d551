"""SDK clients, kept open and shared within an event loop.

One client per (kind, address, key) and loop, so connections are reused; a client of one loop is
never used from another. Keys are hashed before they serve as names. The least
recently used idle client is closed when there are more than `MAX_CLIENTS`; `close_clients` closes
those of the running loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

MAX_CLIENTS = 32


class Client(Protocol):
    """What both SDKs offer."""

    async def close(self) -> None:
        """Close all connections."""
        ...


C = TypeVar("C", bound=Client)


@dataclass(slots=True)
class _Entry:
    client: Client
    users: int = 0


_lock = threading.Lock()
_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, OrderedDict[str, _Entry]] = (
    WeakKeyDictionary()
)


@asynccontextmanager
async def borrow(*, name: tuple[str, ...], make: Callable[[], C]) -> AsyncIterator[C]:
    """The running loop's client called `name`, made on first use, not closed while borrowed."""
    entries = _entries()
    digest = hashlib.sha256("\0".join(name).encode("utf-8", "replace")).hexdigest()
    entry = entries.get(digest)
    if entry is None:
        entry = entries[digest] = _Entry(client=make())
    entries.move_to_end(digest)
    entry.users += 1
    try:
        await _close_surplus(entries)
        yield cast("C", entry.client)
    finally:
        entry.users -= 1


async def close_clients() -> None:
    """Close every client of the running loop; streams still open on them end."""
    entries = _entries()
    while entries:
        _, entry = entries.popitem()
        await entry.client.close()


def _entries() -> OrderedDict[str, _Entry]:
    with _lock:
        return _by_loop.setdefault(asyncio.get_running_loop(), OrderedDict())


async def _close_surplus(entries: OrderedDict[str, _Entry]) -> None:
    surplus = len(entries) - MAX_CLIENTS
    idle = [digest for digest, entry in entries.items() if entry.users == 0][: max(0, surplus)]
    for entry in [entries.pop(digest) for digest in idle]:
        await entry.client.close()
