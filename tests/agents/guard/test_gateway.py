"""Model calls against the wire-true server: what is sent, what comes back, what it costs."""

from __future__ import annotations

from typing import Any

import pytest

from agents.guard.gateway import dump_part, load_part
from agents.providers.contract import (
    Opaque,
    Text,
    ToolUse,
)
from audit.models import AuditEvent
from conversations.gate import Gate
from kaizen.kernel.threads import in_database
from tests.agents.guard.callers import KEY, Caller
from tests.conversations.worlds import (
    World,
    ask,
    make_world,
    open_gate,
    search,
)
from tests.providers.script import Call, Counted, Script
from tests.providers.server import ModelServer

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
