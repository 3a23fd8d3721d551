"""Two connections at the same moment: one turn for one key, one run in one conversation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from django.db import connection

from conversations import turns
from conversations.models import Conversation, Message, Run
from kaizen.kernel.errors import Conflict, KaizenError
from tests.conversations.worlds import answer, ask, claim, finish, make_world, open_gate, write


def together(*acts: Callable[[], object], apart: float = 0.0) -> list[object]:
    """What each act gave or refused with, each on a connection of its own, so far apart."""
    results: list[object] = [None] * len(acts)

    def work(number: int, act: Callable[[], object]) -> None:
        time.sleep(number * apart)
        try:
            results[number] = act()
        except KaizenError as error:
            results[number] = error
        connection.close()

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return results


def test_k46_one_key_over_two_connections_ten_milliseconds_apart(committed_db: str) -> None:
    world = make_world()
    for round_ in range(5):
        one, two = together(
            *[lambda key=f"k-{round_}": ask(world, "Hello", key=key)] * 2, apart=0.01
        )
        assert one.run == two.run  # type: ignore[attr-defined]
        assert sorted([one.replayed, two.replayed]) == [False, True]  # type: ignore[attr-defined]
    assert (Message.objects.count(), Run.objects.count(), Conversation.objects.count()) == (5, 5, 5)


def test_two_messages_at_once_in_one_conversation_start_one_run(committed_db: str) -> None:
    world = make_world()
    conversation = answer(world, "Two.").conversation
    results = together(
        *(lambda n=n: ask(world, f"Question {n}", conversation=conversation) for n in range(4))
    )
    refused = [result for result in results if isinstance(result, Conflict)]
    assert [error.code for error in refused] == ["busy"] * 3
    assert Message.objects.filter(role="user").count() == 2
    assert Run.objects.exclude(state="succeeded").count() == 1


def test_a_stop_and_an_end_at_once_end_the_run_once(committed_db: str) -> None:
    world = make_world()
    for _ in range(5):
        turn = ask(world)
        gate = open_gate()
        write(gate, "Two.")
        together(
            lambda run=turn.run: turns.stop(world.authority, run_id=run.pk),
            lambda gate=gate: finish(gate),
        )
        turn.run.refresh_from_db()
        assert turn.run.state == "succeeded"
    assert Message.objects.filter(role="assistant").count() == 5


def test_a_stop_and_a_claim_at_once_never_deadlock(committed_db: str) -> None:
    world = make_world()
    for _ in range(5):
        turn = ask(world)
        stopped, taken = together(
            lambda run=turn.run: turns.stop(world.authority, run_id=run.pk),
            lambda: turns.leases.claim(),
        )
        assert stopped is not None
        turn.run.refresh_from_db()
        assert turn.run.state == ("running" if taken else "cancelled")
        if taken:
            turns.lose(turn.run.pk, attempt=taken.attempt)  # type: ignore[attr-defined]
    ask(world)
    assert claim().attempt == 1
