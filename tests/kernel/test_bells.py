"""Bells over the real Valkey: heard by who listens, never waited for, survived when lost."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
import redis
from django.conf import settings as django_settings
from django.db import transaction

from kaizen.embedded.ports import choose_port
from kaizen.kernel import bells
from tests import servers


@pytest.fixture(autouse=True)
def valkey() -> redis.Redis:
    """A client of the server that the bells go through."""
    servers.valkey()
    return redis.Redis.from_url(django_settings.VALKEY_URL)


async def heard(bell: bells.Bell, seconds: float = 3.0) -> bells.Message:
    return await asyncio.wait_for(bell.get(), seconds)


async def settled() -> None:
    """Until the subscription stands: what is rung before may be missed, which polls make good."""
    async with bells.listen("settle") as bell:
        for _ in range(100):
            await bells.ring_soon("settle", {})
            try:
                await heard(bell, 0.05)
            except TimeoutError:
                continue
            return
    raise AssertionError("nothing was ever heard")


async def test_who_listens_hears_what_is_rung_from_anywhere() -> None:
    async with bells.listen("a") as bell:
        await settled()
        await bells.ring_soon("a", {"n": 1})
        assert await heard(bell) == {"n": 1, "topic": "a"}
        await asyncio.to_thread(bells.ring, "a", {"n": 2})
        assert await heard(bell) == {"n": 2, "topic": "a"}
        await asyncio.to_thread(bells.ring, "a")
        assert await heard(bell) == {"topic": "a"}


async def test_everyone_hears_their_own_topics_and_no_others() -> None:
    async with bells.listen("a", "b") as both, bells.listen("a") as one:
        await settled()
        await bells.ring_soon("c", {})
        await bells.ring_soon("b", {"n": 1})
        await bells.ring_soon("a", {"n": 2})
        assert [(await heard(both))["n"], (await heard(both))["n"]] == [1, 2]
        assert (await heard(one))["n"] == 2
        assert both.empty()
        assert one.empty()


async def test_a_topic_asked_for_while_others_are_being_subscribed_is_heard() -> None:
    async def listen(topic: str) -> bells.Message:
        async with bells.listen(topic) as bell:
            ready.release()
            return await heard(bell, 10)

    ready = asyncio.Semaphore(0)
    tasks = []
    for number in range(40):
        tasks.append(asyncio.create_task(listen(f"late-{number}")))
        await asyncio.sleep(0.0005)  # Spread over the time that connecting takes.
    for _ in tasks:
        await ready.acquire()
    await settled()
    for number in range(40):
        await bells.ring_soon(f"late-{number}", {"n": number})
    assert [message["n"] for message in await asyncio.gather(*tasks)] == list(range(40))


async def test_who_has_left_is_unsubscribed(valkey: redis.Redis) -> None:
    async with bells.listen("gone"):
        await settled()
    await settled()
    counts = dict(valkey.pubsub_numsub(bells.PREFIX + "gone", bells.PREFIX + "hello"))
    assert counts[b"kaizen:bell:gone"] == 0
    assert counts[b"kaizen:bell:hello"] >= 1  # Its connection stays, and those of earlier loops.


async def test_a_full_queue_drops_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bells, "QUEUE_LENGTH", 2)
    async with bells.listen("full") as bell:
        monkeypatch.setattr(bells, "QUEUE_LENGTH", 2_000)
        await settled()
        for number in range(5):
            await bells.ring_soon("full", {"n": number})
        await settled()
        assert [bell.get_nowait()["n"] for _ in range(bell.qsize())] == [0, 1]


async def test_after_a_lost_connection_it_goes_on_by_itself(valkey: redis.Redis) -> None:
    async with bells.listen("again") as bell:
        await settled()
        valkey.client_kill_filter(_type="pubsub")
        await settled()
        await bells.ring_soon("again", {"n": 1})
        assert await heard(bell) == {"n": 1, "topic": "again"}


def test_a_bell_rings_when_the_transaction_has_committed(
    committed_db: str, valkey: redis.Redis
) -> None:
    follower = valkey.pubsub(ignore_subscribe_messages=True)
    follower.subscribe(bells.PREFIX + "commit")
    follower.get_message(timeout=1)
    with transaction.atomic():
        bells.ring_on_commit("commit", {"n": 1})
        transaction.set_rollback(True)
    with transaction.atomic():
        bells.ring_on_commit("commit", {"n": 2})
        assert follower.get_message(timeout=0.2) is None
    message = follower.get_message(timeout=3)
    assert message is not None
    assert message["data"] == b'{"n": 2}'
    assert follower.get_message(timeout=0.2) is None
    follower.close()


async def test_without_valkey_nobody_waits_and_nothing_breaks(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.VALKEY_URL = f"redis://127.0.0.1:{choose_port(None)}/0"
    bells._client.cache_clear()
    caplog.set_level(logging.WARNING)
    try:
        async with asyncio.timeout(5), bells.listen("a") as bell:
            await bells.ring_soon("a", {})
            await asyncio.to_thread(bells.ring, "a")
            with pytest.raises(TimeoutError):
                await heard(bell, 0.2)
    finally:
        bells._client.cache_clear()
    assert caplog.text.count("a bell could not be rung") == 2
    assert "bells are silent, polling meanwhile" in caplog.text
