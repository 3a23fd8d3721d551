"""What calls cost, and that each is settled once."""

from __future__ import annotations

import pytest

from agents import calls
from agents.models import LedgerEntry, ModelCall
from agents.providers.contract import Usage
from tests.conversations.worlds import ask, make_world, open_gate

CHEAP = {"input": 150_000, "cached_input": 75_000, "output": 600_000}


@pytest.mark.parametrize(
    ("usage", "price", "cost"),
    [
        (Usage(), CHEAP, 0),
        (Usage(1_000_000, 1_000_000), CHEAP, 750_000),
        (Usage(1_000_000, 0, 1_000_000), CHEAP, 75_000),
        (Usage(1_000, 100, 400), CHEAP, 90 + 30 + 60),
        (Usage(1, 0), CHEAP, 1),  # 0.15 of a millionth is rounded up
        (Usage(7, 0), CHEAP, 2),
        (Usage(10, 0, 20), CHEAP, 2),  # more cached than sent: nothing is fresh
        (Usage(5, 5), {"input": 0, "cached_input": 0, "output": 0}, 0),
        (Usage(10**9, 10**9), {"input": 10**8, "cached_input": 0, "output": 10**8}, 2 * 10**11),
    ],
)
def test_costs_are_exact_and_rounded_up(usage: Usage, price: dict[str, int], cost: int) -> None:
    assert calls.cost_of(usage, price) == cost


@pytest.mark.django_db
def test_a_model_call_is_settled_once_at_the_price_of_its_start() -> None:
    world = make_world(model={"input_price": 2_000_000, "output_price": 4_000_000})
    turn = ask(world)
    facts = open_gate().facts
    model = turn.run.language_model
    call = calls.start_model_call(facts, step=1, model=model)
    type(model).objects.update(input_price=9_000_000)
    for state, usage in (
        (ModelCall.State.FINISHED, Usage(10, 5)),
        (ModelCall.State.STOPPED, Usage(99, 99)),
    ):
        calls.settle_model_call(facts, call, state=state, usage=usage)
    settled, entry = ModelCall.objects.get(), LedgerEntry.objects.get()
    assert (settled.state, settled.cost, entry.cost) == ("finished", 40, 40)
    assert (entry.run_id, entry.model_call_id, entry.user_id, entry.agent_id) == (
        turn.run.pk,
        call.pk,
        world.member.user_id,
        world.agent.pk,
    )


@pytest.mark.django_db
def test_nothing_used_is_nothing_in_the_ledger() -> None:
    world = make_world()
    turn = ask(world)
    facts = open_gate().facts
    call = calls.start_model_call(facts, step=1, model=turn.run.language_model)
    calls.settle_model_call(facts, call, state=ModelCall.State.FAILED, usage=Usage())
    assert (ModelCall.objects.get().state, LedgerEntry.objects.count()) == ("failed", 0)


@pytest.mark.django_db
def test_the_key_of_a_tool_call_is_of_run_step_and_call() -> None:
    world = make_world()
    ask(world)
    ask(world)
    one, two = open_gate().facts, open_gate().facts
    key = calls.idempotency_key(one, step=1, call_id="c1")
    assert len(key) == 64
    assert key == calls.idempotency_key(one, step=1, call_id="c1")
    others = {
        calls.idempotency_key(one, step=2, call_id="c1"),
        calls.idempotency_key(one, step=1, call_id="c2"),
        calls.idempotency_key(two, step=1, call_id="c1"),
    }
    assert len(others | {key}) == 4
