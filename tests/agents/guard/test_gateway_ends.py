"""Model calls that end otherwise: stopped, refused, broken off, not allowed. All are settled."""

from __future__ import annotations

import asyncio
import logging

import pytest

from agents.guard.contract import LeaseLost
from agents.models import LanguageModel, ModelCall
from agents.providers.contract import (
    ProviderBroken,
    ProviderError,
    ProviderLimited,
    ProviderOverloaded,
    ProviderRefused,
)
from kaizen.kernel.errors import Conflict, Missing
from kaizen.kernel.threads import in_database
from tests.agents.guard.callers import KEY, Caller
from tests.conversations.worlds import (
    finish,
    lapse,
)
from tests.providers.script import Counted, Script
from tests.providers.server import ModelServer

# --- it ends otherwise


async def test_a_stop_in_mid_stream_closes_the_connection_and_settles_an_estimate(
    call: Caller, server: ModelServer
) -> None:
    server.add(Script(text=("One ", "two ", "three "), ending="hang"))
    task = asyncio.create_task(call.complete())
    await server.wait_until(lambda requests: requests and requests[0].pieces_written == 3)
    async with asyncio.timeout(5):
        while call.heard.text != "One two three ":
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.wait_until(lambda requests: requests[0].disconnected_at)
    settled = await call.call()
    assert (settled.state, settled.usage_estimated) == ("stopped", True)
    assert settled.output_tokens == 4  # 14 bytes
    assert settled.input_tokens > 100
    assert await call.ledger() == [
        (settled.input_tokens, 4, True, settled.input_tokens * 3 + 4 * 15)
    ]
    assert call.heard.flushed == 14
    assert await call.journal() == ["user_message", "run_queued", "run_started"]


async def test_a_stop_while_the_text_is_flushed_settles_what_the_provider_reported(
    call: Caller, server: ModelServer
) -> None:
    server.add(Script(text=("Two.",), usage=Counted(input=10, output=1)))
    flushing, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        flushing.set()
        await go_on.wait()

    call.heard.flush = slow  # type: ignore[method-assign]
    task = asyncio.create_task(call.complete())
    await flushing.wait()
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await call.call()).state == "stopped"
    assert await call.ledger() == [(10, 1, False, 45)]


@pytest.mark.parametrize(
    ("script", "kind", "code"),
    [
        (Script(status=429, error="limited"), ProviderLimited, "limited"),
        (Script(status=503, error="overloaded"), ProviderOverloaded, "overloaded"),
        (Script(status=500, error="failed"), ProviderBroken, "failed"),
        (Script(status=400, error="too_long"), ProviderRefused, "too_long"),
    ],
)
async def test_a_refused_call_costs_nothing(
    call: Caller, server: ModelServer, script: Script, kind: type[ProviderError], code: str
) -> None:
    server.add(script)
    with pytest.raises(kind) as refused:
        await call.complete()
    assert refused.value.code == code
    settled = await call.call()
    assert (settled.state, settled.error_code, settled.cost) == ("failed", code, 0)
    assert await call.ledger() == []
    assert await call.journal() == ["user_message", "run_queued", "run_started"]


async def test_an_answer_that_breaks_off_keeps_its_text_and_costs_an_estimate(
    call: Caller, server: ModelServer
) -> None:
    server.add(Script(text=("One ", "two "), ending="cut"))
    with pytest.raises(ProviderBroken) as broken:
        await call.complete()
    assert broken.value.partial_text == "One two "
    assert (call.heard.text, call.heard.flushed) == ("One two ", 8)
    settled = await call.call()
    assert (settled.state, settled.error_code, settled.output_tokens) == ("failed", "cut", 2)
    assert await call.ledger() == [
        (settled.input_tokens, 2, True, settled.input_tokens * 3 + 2 * 15)
    ]


async def test_neither_key_nor_foreign_text_reaches_log_or_message(
    call: Caller, server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("httpx2", "openai", "httpcore2", "httpx", "httpcore"):
        caplog.set_level(logging.WARNING, logger=name)  # As the product sets them.
    server.add(
        Script(status=400, error="bad_request", error_message=f"canary-9f {KEY}"),
        Script(text=("canary-7d",), error="failed", error_message=f"canary-9f {KEY}"),
    )
    for _ in range(2):
        with pytest.raises(ProviderError) as failed:
            await call.complete()
        assert "canary" not in f"{failed.value.message} {failed.value!r}"
    assert "model call" in caplog.text
    for secret in (KEY, "canary-9f", "canary-7d", "How many days"):
        assert secret not in caplog.text


async def test_a_wrong_key_is_the_administrators_matter(
    call: Caller, server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.keys = frozenset({"another"})
    with pytest.raises(ProviderRefused) as refused:
        await call.complete()
    assert refused.value.code == "refused_key"
    assert KEY not in caplog.text + refused.value.message


# --- nobody may


async def test_without_a_key_nothing_is_sent_and_nothing_counted(
    call: Caller, server: ModelServer
) -> None:
    def take_key() -> None:
        model = LanguageModel.objects.select_related("provider").get()
        model.provider.kind, model.provider.api_key = "openai", ""
        model.provider.save()

    await in_database(take_key)
    with pytest.raises(ProviderRefused):
        await call.complete()
    assert (server.requests, await in_database(ModelCall.objects.count)) == ([], 0)


async def test_a_lapsed_lease_sends_nothing(call: Caller, server: ModelServer) -> None:
    await in_database(lapse, call.gate.lease)
    with pytest.raises(LeaseLost):
        await call.complete()
    assert (server.requests, await in_database(ModelCall.objects.count)) == ([], 0)


async def test_a_member_who_lost_their_place_sends_nothing(
    call: Caller, server: ModelServer
) -> None:
    def suspend() -> None:
        type(call.world.member).objects.filter(pk=call.world.member.pk).update(state="suspended")

    await in_database(suspend)
    with pytest.raises(Missing):
        await call.complete()
    assert server.requests == []


@pytest.mark.parametrize("what", ["model", "provider"])
async def test_a_model_that_was_switched_off_is_not_called(
    call: Caller, server: ModelServer, what: str
) -> None:
    def switch_off() -> None:
        model = LanguageModel.objects.select_related("provider").get()
        row = model if what == "model" else model.provider
        row.enabled = False
        row.save()

    await in_database(switch_off)
    with pytest.raises(Conflict):
        await call.complete()
    assert server.requests == []


async def test_a_lease_lost_in_mid_stream_is_owed_but_not_journaled(
    call: Caller, server: ModelServer
) -> None:
    server.add(Script(text=("One ", "two."), delay=0.3, usage=Counted(input=10, output=2)))
    task = asyncio.create_task(call.complete())
    await server.wait_until(lambda requests: requests and requests[0].pieces_written == 1)
    await in_database(finish, call.gate)
    with pytest.raises(LeaseLost):
        await task
    assert (await call.call()).state == "finished"
    assert await call.ledger() == [(10, 2, False, 60)]
    assert "model_reply" not in await call.journal()
