"""Odd streams from a provider, through the whole product: the member's text is right or the reason
is plain.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.models import LedgerEntry, ModelCall, ToolCall
from agents.services import publish_agent
from audit.models import AuditEvent
from conversations.journal import answer_text
from conversations.models import Message, Run
from tests import factories
from tests.providers.script import Script, call_script, file_script, text_script
from tests.providers.server import ModelServer
from tests.world import Desk, use_model

UTF8 = "你好世界 🌍 fin"


def _run(desk: Desk, server: ModelServer, model: str = "scripted") -> Run:
    member = desk.sign_in(desk.reader)
    turn = member.ask(use_model(desk, server, model).pk, "Please answer.")
    member.wait_until_finished(turn)
    return Run.objects.get(pk=turn["run"])


def _answer(run: Run) -> str:
    return Message.objects.get(pk=run.answer_id).text


def test_K45_characters_cut_by_network_reads_arrive_whole(
    desk: Desk, model_server: ModelServer, shared_data: Path
) -> None:
    reads = json.loads((shared_data / "cases" / "openai-utf8-split.json").read_text("utf-8"))
    model_server.add(Script(raw=tuple(bytes.fromhex(read) for read in reads["chunks"])))
    run = _run(desk, model_server)
    assert run.state == Run.State.SUCCEEDED
    assert _answer(run) == UTF8
    assert answer_text(organization_id=run.organization_id, run_id=run.pk) == UTF8
    call = ModelCall.objects.get(run_id=run.pk)
    assert (call.input_tokens, call.output_tokens) == (10, 5)


def test_K50_empty_and_null_choices_do_not_break_the_answer(
    desk: Desk, model_server: ModelServer, shared_data: Path
) -> None:
    model_server.add(file_script(shared_data / "cases" / "openai-empty-and-null-choices.sse"))
    run = _run(desk, model_server)
    assert (run.state, _answer(run)) == (Run.State.SUCCEEDED, "Hello")
    entry = LedgerEntry.objects.get(run_id=run.pk)
    assert (entry.input_tokens, entry.output_tokens) == (10, 5)


def test_K54_bad_tool_arguments_are_refused_to_the_model_and_the_run_goes_on(
    desk: Desk, model_server: ModelServer, shared_data: Path
) -> None:
    model_server.add(
        file_script(shared_data / "cases" / "openai-bad-tool-args.sse"), text_script("Done.")
    )
    run = _run(desk, model_server)
    assert (run.state, _answer(run)) == (Run.State.SUCCEEDED, "Done.")
    # What each call's arguments come to, where the tools exist, is in tests/agents/guard.
    calls = ToolCall.objects.filter(run_id=run.pk).order_by("call_id")
    assert list(calls.values_list("call_id", "state", "arguments_raw")) == [
        ("a1", ToolCall.State.DENIED, '{"title": "Q1"}{"title": "Q2"}'),
        ("a2", ToolCall.State.DENIED, ""),
        ("a3", ToolCall.State.DENIED, '{"title": "cut o'),
    ]
    assert len(model_server.requests) == 2
    assert not model_server.problems


def test_K55_unknown_and_ungranted_tools_have_no_effect_and_are_audited(
    desk: Desk, model_server: ModelServer
) -> None:
    model_server.add(
        call_script("delete_everything", "{}", id="c1"),
        call_script("read_document", '{"document":"x"}', id="c2"),
        text_script("I could not."),
    )
    agent = use_model(desk, model_server, "scripted")
    agent.tools = ["search"]
    agent.save()
    publish_agent(factories.authority_of(desk.admin), agent=agent)
    member = desk.sign_in(desk.reader)
    turn = member.ask(agent.pk, "Please answer.")
    member.wait_until_finished(turn)
    states = ToolCall.objects.filter(run_id=turn["run"]).values_list("state", flat=True)
    assert list(states) == [ToolCall.State.DENIED, ToolCall.State.DENIED]
    assert (
        AuditEvent.objects.filter(
            organization_id=desk.organization.pk, action="agents.tool_denied"
        ).count()
        == 2
    )


@pytest.mark.parametrize("model", ["loop-search", "alternate:search,read_document"])
def test_K55_an_endless_loop_ends_at_exactly_the_cap(
    desk: Desk, model_server: ModelServer, model: str
) -> None:
    run = _run(desk, model_server, model)
    assert len(model_server.requests) == 12
    assert (run.state, run.salvaged, run.error_code) == (Run.State.FAILED, True, "limit_steps")


@pytest.mark.parametrize(
    ("model", "code"),
    [("refuse", "refused_key"), ("cut", "cut"), ("garbage", "unreadable")],
)
def test_a_provider_that_fails_is_told_plainly_and_what_came_is_kept(
    desk: Desk, model_server: ModelServer, model: str, code: str
) -> None:
    run = _run(desk, model_server, model)
    assert run.state == Run.State.FAILED
    assert run.error_code == code
    assert run.error_message
    assert "sk-test-key-of-nobody" not in desk.stack.log()


def test_a_limited_provider_is_asked_again_after_the_time_it_names(
    desk: Desk, model_server: ModelServer
) -> None:
    model_server.add(
        Script(status=429, headers={"Retry-After": "1"}, error="rate_limit"), text_script("Now.")
    )
    run = _run(desk, model_server)
    assert (run.state, _answer(run)) == (Run.State.SUCCEEDED, "Now.")
    assert len(model_server.requests) == 2
