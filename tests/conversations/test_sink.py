"""The text of an answer on its way to the journal: all of it, in order, however it ends."""

from __future__ import annotations

import asyncio
import time

import pytest
from django.db import DatabaseError

from conversations import journal, turns
from conversations.gate import Gate
from conversations.models import JournalEvent
from conversations.sink import Sink
from kaizen.kernel import bells
from kaizen.kernel.threads import in_database
from tests.conversations.worlds import ask, make_world, open_gate


class SlowGate(Gate):
    """A gate whose journal takes its time, and fails as often as told."""

    failures = 0

    def append_text(self, *, offset: int, text: str) -> None:
        time.sleep(0.15)
        if self.failures:
            self.failures -= 1
            raise DatabaseError
        super().append_text(offset=offset, text=text)


def slow_gate() -> SlowGate:
    ask(make_world())
    gate = open_gate()
    gate.__class__ = SlowGate
    return gate  # type: ignore[return-value]


async def journaled(gate: Gate) -> str:
    return await in_database(
        journal.answer_text,
        organization_id=gate.facts.organization_id,
        run_id=gate.facts.run_id,
    )


async def offsets(gate: Gate) -> list[tuple[int, int]]:
    def read() -> list[tuple[int, int]]:
        events = JournalEvent.objects.filter(kind="text").order_by("seq")
        return [(event.data["offset"], len(event.data["text"])) for event in events]

    return await in_database(read)


@pytest.mark.parametrize("seconds", [0.0, 0.3, 0.35, 0.45])
async def test_all_text_is_journaled_whenever_the_run_ends(
    committed_db: str, seconds: float
) -> None:
    gate = await in_database(slow_gate)
    async with Sink(gate) as sink:
        for number in range(20):
            sink.add(f"{number:02d} ")
            await asyncio.sleep(seconds / 20)
    assert await journaled(gate) == "".join(f"{number:02d} " for number in range(20))
    position = 0
    for offset, size in await offsets(gate):
        assert offset == position
        position += size


async def test_a_database_that_fails_for_a_moment_loses_nothing(committed_db: str) -> None:
    gate = await in_database(slow_gate)
    gate.failures = 2
    async with Sink(gate) as sink:
        for number in range(20):
            sink.add(f"{number:02d} ")
            await asyncio.sleep(0.06)
    assert gate.failures == 0
    assert await journaled(gate) == "".join(f"{number:02d} " for number in range(20))


async def test_after_the_run_is_lost_nothing_more_is_written(committed_db: str) -> None:
    gate = await in_database(slow_gate)
    async with Sink(gate) as sink:
        sink.add("before ")
        await sink.flush()
        await in_database(turns.lose, gate.facts.run_id, attempt=1)
        sink.add("after")
    assert sink.lost is True
    assert await journaled(gate) == "before "


async def test_live_text_carries_its_offset_in_code_points(committed_db: str) -> None:
    gate = await in_database(slow_gate)
    async with bells.listen(journal.topic(gate.facts.conversation_id)) as bell:
        await asyncio.sleep(0.5)
        async with Sink(gate) as sink:
            sink.add("é🌍 ")
            await sink.flush()
            sink.add_break()
            sink.add("x")
        live = []
        while len(live) < 2:
            message = await asyncio.wait_for(bell.get(), 3)
            if message.get("live"):
                live.append((message["offset"], message["text"], message["message"]))
    assert live == [(0, "é🌍 ", str(gate.answer_id)), (3, "\n\nx", str(gate.answer_id))]


async def test_a_break_is_set_only_between_texts(committed_db: str) -> None:
    gate = await in_database(slow_gate)
    async with Sink(gate) as sink:
        sink.add_break()
        sink.add("One.")
        sink.add_break()
        sink.add("Two.")
    assert await journaled(gate) == "One.\n\nTwo."
