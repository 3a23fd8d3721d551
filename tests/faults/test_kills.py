"""kill -9 in mid-answer: the turn is completed or failed and salvaged with a retry; nothing
doubled, nothing lost.
"""

from __future__ import annotations

from typing import Any

import pytest

from agents.models import ModelCall
from conversations.journal import answer_text
from conversations.models import JournalEvent, Message, Run
from tests.client import Member
from tests.providers.behaviours import pieces_400
from tests.providers.server import ModelServer
from tests.stack import Stack
from tests.world import Desk, make_desk, use_model

pytestmark = pytest.mark.faults
LEASE_SECONDS = 4.0


@pytest.fixture
def short_leases(committed_db: str) -> Any:
    """The product with leases of a few seconds, all of its processes running."""
    with Stack(committed_db, lease_seconds=LEASE_SECONDS) as stack:
        desk = make_desk(stack)
        stack.start("web", "runtime", "worker", "beat")
        yield desk


def _begin(desk: Desk, server: ModelServer) -> tuple[Member, dict[str, Any], Run]:
    member = desk.sign_in(desk.reader)
    turn = member.ask(use_model(desk, server, "count-400:20").pk, "Count, please.")
    run = Run.objects.get(pk=turn["run"])
    desk.stack.wait_for(
        lambda: len(answer_text(organization_id=run.organization_id, run_id=run.pk)) > 100,
        what="the first hundred characters",
    )
    return member, turn, run


def _has_ended(run: Run) -> bool:
    run.refresh_from_db()
    return run.state in Run.ENDED


def _check_whole(run: Run, turn: dict[str, Any]) -> None:
    """The journal has no gap and no double, the message is what it holds, one question and one
    answer.
    """
    seqs = list(
        JournalEvent.objects.filter(conversation_id=turn["conversation"])
        .order_by("seq")
        .values_list("seq", flat=True)
    )
    assert seqs == list(range(1, len(seqs) + 1))
    text = answer_text(organization_id=run.organization_id, run_id=run.pk)
    assert "".join(pieces_400()).startswith(text)
    assert Message.objects.get(pk=turn["answer"]).text == text
    assert Message.objects.filter(conversation_id=turn["conversation"]).count() == 2
    finished = JournalEvent.objects.filter(run_id=run.pk, kind="run_finished")
    assert finished.count() == 1


def _retry_succeeds(member: Member, turn: dict[str, Any]) -> None:
    answer = member.api(f"runs/{turn['run']}/retry/", body={})
    assert answer.status == 201, answer.text
    member.api(f"runs/{answer.json()['run']}/stop/", body={})
    member.wait_until_finished(answer.json())


def test_a_killed_runtime_leaves_a_salvaged_answer_and_a_retry(
    short_leases: Desk, model_server: ModelServer
) -> None:
    desk = short_leases
    member, turn, run = _begin(desk, model_server)
    desk.stack.kill("runtime")
    desk.stack.wait_for(lambda: _has_ended(run), what="the end of the run")
    assert (run.state, run.salvaged, run.error_code) == (Run.State.FAILED, True, "lost")
    _check_whole(run, turn)
    desk.stack.start("runtime")
    _retry_succeeds(member, turn)
    assert ModelCall.objects.filter(run_id=run.pk).count() == 1


def test_a_killed_web_process_leaves_a_salvaged_answer_and_a_retry(
    short_leases: Desk, model_server: ModelServer
) -> None:
    desk = short_leases
    member, turn, run = _begin(desk, model_server)
    desk.stack.kill("web")
    desk.stack.start("web")
    desk.stack.wait_for(lambda: _has_ended(run), what="the end of the run")
    assert (run.state, run.salvaged) == (Run.State.FAILED, True)
    _check_whole(run, turn)
    _retry_succeeds(member, turn)


def test_a_killed_worker_does_not_disturb_the_answer(
    short_leases: Desk, model_server: ModelServer
) -> None:
    desk = short_leases
    _member, turn, run = _begin(desk, model_server)
    desk.stack.kill("worker")
    desk.stack.start("worker")
    desk.stack.wait_for(lambda: _has_ended(run), what="the end of the run")
    assert (run.state, run.salvaged) == (Run.State.SUCCEEDED, False)
    assert answer_text(organization_id=run.organization_id, run_id=run.pk) == "".join(pieces_400())
    _check_whole(run, turn)


def test_a_stopped_runtime_hands_back_what_it_did_not_begin_and_ends_quietly(
    short_leases: Desk,
) -> None:
    assert short_leases.stack.terminate("runtime") == 0


def test_the_journal_is_enough_when_valkey_drops_every_message(
    committed_db: str, model_server: ModelServer
) -> None:
    """No bell ever rings: everything is found by polling."""
    with Stack(committed_db, VALKEY_URL="redis://127.0.0.1:1/0") as stack:
        desk = make_desk(stack)
        for name in ("web", "runtime"):
            stack.children[name].start()
        member = Member(stack.address, desk.organization.slug)
        stack.wait_for(member.is_answered, what="the web process")
        # Signing in counts failures in Valkey and waits for it; a session that stands goes on.
        member.take_session_of(desk.reader.user)
        turn = member.ask(use_model(desk, model_server, "count-400:3").pk, "Count, please.")
        assert member.wait_until_finished(turn)["state"] == "succeeded"
        answer = member.api(f"conversations/{turn['conversation']}/").json()["messages"][-1]
        assert answer["text"].split() == "".join(pieces_400()).split()
