"""Backends that break the protocol, each in one way."""

from __future__ import annotations

from agents.runtime.protocol import Hello, Welcome
from tests.agents.runtime.bridge import Line
from tests.agents.runtime.starts import start


async def speaks_before_the_welcome(line: Line) -> None:
    await line.next(Hello)
    await line.send(start())


async def welcomes_in_another_version(line: Line) -> None:
    await line.next(Hello)
    await line.send(Welcome(protocol=2, heartbeat_seconds=5))


async def welcomes_twice(line: Line) -> None:
    await line.welcome()
    await line.send(Welcome(protocol=1, heartbeat_seconds=5))


async def sends_bytes(line: Line) -> None:
    await line.welcome()
    await line.socket.send(b'{"type":"lease.lost","run":"run-1"}')


async def sends_garbage(line: Line) -> None:
    await line.welcome()
    await line.socket.send('{"type":"start","run":"run-1"}')
