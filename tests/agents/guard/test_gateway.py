"""Model calls against the wire-true server: what is sent, what is settled, however it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agents.guard import gateway
from agents.guard.contract import LeaseLost
from agents.guard.gateway import ModelReply, dump_part, load_part
from agents.models import LanguageModel, LedgerEntry, ModelCall
from agents.providers.clients import close_clients
from agents.providers.contract import (
    Opaque,
    ProviderBroken,
    ProviderError,
    ProviderLimited,
    ProviderOverloaded,
    ProviderRefused,
    Text,
    ToolUse,
)
from audit.models import AuditEvent
from conversations.gate import Gate
from conversations.models import Run
from kaizen.kernel.errors import Conflict, Missing
from kaizen.kernel.threads import in_database
from tests.conversations.worlds import (
    World,
    ask,
    finish,
    journal_of,
    lapse,
    make_world,
    open_gate,
    search,
)
from tests.providers.script import Call, Counted, Script
from tests.providers.server import ModelServer

KEY = "sk-test-canary-0123456789"
PRICES = {"input_price": 3_000_000, "output_price": 15_000_000, "cached_input_price": 300_000}


class Heard:
    """A sink that remembers; `flushed` is how much had come at the last flush."""

    def __init__(self) -> None:
        self.text = ""
        self.flushed: int | None = None

    def add(self, piece: str) -> None:
        self.text += piece

    async def flush(self) -> None:
        self.flushed = len(self.text)


class Caller:
    """A run that is ready to call its model."""

    def __init__(self, world: World, gate: Gate) -> None:
        self.world, self.gate, self.heard = world, gate, Heard()

    async def complete(self, *refs: str, step: int = 1, **how: Any) -> ModelReply:
        return await gateway.complete(
            self.gate,
            step=step,
            refs=refs or (f"u.{self.gate._question_id}",),
            allow_tools=how.get("allow_tools", True),
            note=how.get("note"),
            sink=self.heard,
        )

    async def call(self) -> ModelCall:
        return await in_database(ModelCall.objects.get)

    async def ledger(self) -> list[tuple[int, int, bool, int]]:
        rows = LedgerEntry.objects.values_list("input_tokens", "output_tokens", "estimated", "cost")
        return await in_database(list, rows)  # type: ignore[arg-type]

    async def journal(self) -> list[str]:
        def kinds() -> list[str]:
            run = Run.objects.select_related("conversation").get(pk=self.gate.facts.run_id)
            return [kind for _, kind, _ in journal_of(run.conversation)]

        return await in_database(kinds)


@pytest.fixture
async def server(committed_db: str) -> AsyncIterator[ModelServer]:
    async with ModelServer(keys=frozenset({KEY})) as running:
        yield running
        await close_clients()


@pytest.fixture
async def call(server: ModelServer) -> Caller:
    def build() -> tuple[World, Gate]:
        model = {
            "kind": "openai_compatible",
            "name": "m",
            "base_url": server.openai_url,
            "api_key": KEY,
            **PRICES,
        }
        world = make_world(model=model)
        ask(world, "How many days?")
        return world, open_gate()

    return Caller(*await in_database(build))


# --- it answers


async def test_an_answer_is_streamed_settled_and_journaled(
    call: Caller, server: ModelServer
) -> None:
    server.add(Script(text=("Two ", "days."), usage=Counted(input=1000, output=7, cached=400)))
    reply = await call.complete()
    assert (reply.text, reply.tool_uses, reply.stop_reason) == ("Two days.", (), "end")
    assert (call.heard.text, call.heard.flushed) == ("Two days.", 9)
    settled = await call.call()
    assert (settled.state, settled.step, settled.attempt) == ("finished", 1, 1)
    assert (settled.input_tokens, settled.output_tokens, settled.cached_input_tokens) == (
        1000,
        7,
        400,
    )
    # 600 fresh at 3, 400 cached at 0.3, 7 out at 15 dollars a million, in millionths
    assert settled.cost == 600 * 3 + 120 + 7 * 15
    assert settled.price == {"input": 3_000_000, "cached_input": 300_000, "output": 15_000_000}
    assert settled.usage_estimated is False
    assert settled.raw_usage["prompt_tokens"] == 1000
    assert await call.ledger() == [(1000, 7, False, 2025)]
    assert await call.journal() == ["user_message", "run_queued", "run_started", "model_reply"]
    server.assert_used_up()


async def test_the_request_holds_persona_rules_tools_and_the_question(
    call: Caller, server: ModelServer
) -> None:
    server.add(Script(text=("Two.",)))
    await call.complete()
    (sent,) = server.requests
    assert sent.system.startswith("Answer from the sources and cite them.\n\nRules that hold")
    assert f"Organisation: {call.world.organization.name}. It is " in sent.system
    assert (sent.model, sent.key, sent.question) == ("m", KEY, "How many days?")
    assert sent.tools == ("read_document", "search")
    assert sent.may_call is True


async def test_the_last_call_may_use_no_tool_and_has_the_runtimes_note(
    call: Caller, server: ModelServer
) -> None:
    server.add(Script(text=("Two.",)))
    await call.complete(allow_tools=False, note="Answer now.")
    (sent,) = server.requests
    assert (sent.may_call, sent.question) == (False, "Answer now.")
    assert "How many days?" in str(sent.json)


async def test_tool_calls_come_back_raw(call: Caller, server: ModelServer) -> None:
    server.add(Script(calls=(Call(id="a1", name="search", arguments='{"query":'),)))
    reply = await call.complete()
    assert reply.tool_uses == (ToolUse("a1", "search", '{"query":'),)
    assert reply.stop_reason == "tool_use"


async def test_nul_in_an_answer_is_replaced_everywhere(call: Caller, server: ModelServer) -> None:
    server.add(Script(text=("a\x00b",)))
    reply = await call.complete()
    assert (reply.text, call.heard.text) == ("a\ufffdb", "a\ufffdb")
    assert await call.journal() == ["user_message", "run_queued", "run_started", "model_reply"]


async def test_each_model_call_is_audited_without_content(
    call: Caller, server: ModelServer
) -> None:
    server.add(Script(text=("Two.",)))
    await call.complete()
    event = await in_database(AuditEvent.objects.get, action="agents.model_called")
    assert event.data == {"step": 1, "model": "m"}
    assert (event.channel, event.run_id) == ("run", call.gate.facts.run_id)


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


# --- K03


async def test_k03_what_the_agent_has_and_the_member_may_not_read_is_never_sent(
    server: ModelServer,
) -> None:
    def build() -> tuple[World, Gate]:
        model = {
            "kind": "openai_compatible",
            "name": "m",
            "base_url": server.openai_url,
            "api_key": KEY,
        }
        world = make_world(model=model)
        world.add_document("secret.md", "Form 4471 is a canary-k03 about moving house.")
        world.revoke()
        ask(world, "What does the document say about moving house?")
        return world, open_gate()

    call = Caller(*await in_database(build))
    arguments = '{"query":"moving house"}'
    server.add(
        Script(calls=(Call(id="c1", name="search", arguments=arguments),)),
        Script(text=("No accessible source.",)),
    )
    first = await call.complete()
    found = await in_database(search, call.gate)
    question = f"u.{call.gate._question_id}"
    await call.complete(question, f"m.{first.seq}", f"t.{found.tool_call_id}", step=2)
    assert (found.outcome, found.empty) == ("ok", True)
    assert server.requests[1].passages == []
    assert "no source" in server.requests[1].results[0]
    for request in server.requests:
        assert b"4471" not in request.raw
        assert b"canary-k03" not in request.raw
    server.assert_used_up()


# --- parts


@pytest.mark.parametrize(
    "part",
    [
        Text("é🌍"),
        ToolUse("c1", "search", '{"query":'),
        Opaque("anthropic", {"type": "thinking", "thinking": "\ud83d", "n": [1, None]}),
    ],
)
def test_a_part_is_kept_and_read_back_unchanged(part: Any) -> None:
    assert load_part(dump_part(part)) == part


def test_what_is_no_part_is_refused() -> None:
    with pytest.raises(TypeError):
        dump_part("text")
    with pytest.raises(ValueError, match="unknown part 'x'"):
        load_part({"type": "x"})
