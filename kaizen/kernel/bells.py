"""Bells: short messages through Valkey that say "look again". Never the truth, and never waited
for.

A ring that can't be delivered is dropped; whoever listens also polls. Channels' layers are not
used: they can't be rung from synchronous code without an event loop each, and they drop messages
without a sign.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import weakref
from collections.abc import AsyncIterator
from functools import cache
from typing import Any

import redis
import redis.asyncio
from django.conf import settings
from django.db import transaction

logger = logging.getLogger(__name__)

PREFIX = "kaizen:bell:"
TIMEOUT_SECONDS = 1.0
QUEUE_LENGTH = 2_000
Message = dict[str, Any]
Bell = asyncio.Queue[Message]


@cache
def _client() -> redis.Redis:
    return redis.Redis.from_url(
        settings.VALKEY_URL, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS
    )


def ring(topic: str, message: Message | None = None) -> None:
    """Ring `topic` now, from synchronous code."""
    try:
        _client().publish(PREFIX + topic, json.dumps(message or {}))
    except redis.RedisError:
        logger.warning("a bell could not be rung; listeners will find out by polling")


def ring_on_commit(topic: str, message: Message | None = None) -> None:
    """Ring `topic` once the surrounding transaction has committed."""
    transaction.on_commit(lambda: ring(topic, message))


async def ring_soon(topic: str, message: Message) -> None:
    """Ring `topic` from the event loop."""
    await _tower().ring(topic, message)


@contextlib.asynccontextmanager
async def listen(*topics: str) -> AsyncIterator[Bell]:
    """A queue of what is rung on `topics` while the block runs.

    A full queue drops what is new: the listener's poll finds it. After a lost connection it goes
    on by itself.
    """
    tower = _tower()
    bell: Bell = asyncio.Queue(QUEUE_LENGTH)
    await tower.add(bell, topics)
    try:
        yield bell
    finally:
        await tower.remove(bell, topics)


class _Tower:
    """One subscription connection per event loop, shared by everyone who listens in it."""

    def __init__(self) -> None:
        self._redis = redis.asyncio.Redis.from_url(
            settings.VALKEY_URL, socket_connect_timeout=TIMEOUT_SECONDS, socket_keepalive=True
        )
        self._bells: dict[str, set[Bell]] = {}
        self._pubsub: Any = None
        self._task: asyncio.Task[None] | None = None

    async def ring(self, topic: str, message: Message) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._redis.publish(PREFIX + topic, json.dumps(message))
        except (redis.RedisError, TimeoutError):
            logger.warning("a bell could not be rung; listeners will find out by polling")

    async def add(self, bell: Bell, topics: tuple[str, ...]) -> None:
        new = [topic for topic in topics if topic not in self._bells]
        for topic in topics:
            self._bells.setdefault(topic, set()).add(bell)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="bells")
        elif new and self._pubsub is not None:
            with contextlib.suppress(redis.RedisError):
                await self._pubsub.subscribe(*(PREFIX + topic for topic in new))

    async def remove(self, bell: Bell, topics: tuple[str, ...]) -> None:
        gone = []
        for topic in topics:
            self._bells[topic].discard(bell)
            if not self._bells[topic]:
                del self._bells[topic]
                gone.append(PREFIX + topic)
        if gone and self._pubsub is not None:
            with contextlib.suppress(redis.RedisError):
                await self._pubsub.unsubscribe(*gone)

    async def _run(self) -> None:
        while True:
            try:
                await self._follow()
            except (redis.RedisError, OSError):
                logger.warning("bells are silent, polling meanwhile")
            self._pubsub = None
            await asyncio.sleep(1.0)

    async def _follow(self) -> None:
        async with self._redis.pubsub(ignore_subscribe_messages=True) as pubsub:
            first = tuple(self._bells)
            await pubsub.subscribe(PREFIX + "hello", *(PREFIX + topic for topic in first))
            self._pubsub = pubsub
            # From here on `add` subscribes by itself; what was asked for in between is caught up.
            late = [PREFIX + topic for topic in self._bells if topic not in first]
            if late:
                await pubsub.subscribe(*late)
            while True:
                message = await pubsub.get_message(timeout=None)
                if message is not None:
                    self._deliver(message)

    def _deliver(self, message: Message) -> None:
        topic = message["channel"].decode().removeprefix(PREFIX)
        for bell in tuple(self._bells.get(topic, ())):
            with contextlib.suppress(asyncio.QueueFull):
                bell.put_nowait({**json.loads(message["data"]), "topic": topic})


_towers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Tower] = weakref.WeakKeyDictionary()


def _tower() -> _Tower:
    loop = asyncio.get_running_loop()
    if loop not in _towers:
        _towers[loop] = _Tower()
    return _towers[loop]
