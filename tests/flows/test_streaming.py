"""What a member sees while an answer is being written: nothing lost, nothing doubled, stoppable."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from agents.models import LedgerEntry, ModelCall
from conversations.journal import answer_text
from conversations.models import Message, Run
from tests.client import Member, collect_until, text_of
from tests.providers.behaviours import pieces_400, pieces_2000
from tests.providers.server import ModelServer
from tests.world import Desk, use_model

EVERYTHING = "".join(pieces_400())


def _ended(frame: dict[str, Any]) -> bool:
    return frame.get("kind") == "run_finished"


def _seqs(found: list[dict[str, Any]]) -> list[int]:
    return [frame["seq"] for frame in found if frame["type"] == "event"]


def _ask(desk: Desk, model_server: ModelServer, model: str) -> tuple[Member, dict[str, Any], Run]:
    member = desk.sign_in(desk.reader)
    turn = member.ask(use_model(desk, model_server, model).pk, "Count, please.")
    return member, turn, Run.objects.get(pk=turn["run"])


async def _watch_cut_and_reload(
    member: Member, turn: dict[str, Any]
) -> tuple[list[Any], list[Any], list[Any]]:
    """Drop the socket after about 150 pieces, go on from the last number, and reload from
    scratch: the frames of each connection.
    """
    seen: list[dict[str, Any]] = []

    def has_150_pieces(frame: dict[str, Any]) -> bool:
        seen.append(frame)
        return len(text_of(seen, turn["answer"])) >= 600

    async with member.socket(turn["conversation"]) as socket:
        first = await collect_until(socket, has_150_pieces)
    async with member.socket(turn["conversation"], after=max(_seqs(first))) as socket:
        rest = await collect_until(socket, _ended)
    async with member.socket(turn["conversation"]) as socket:
        return first, rest, await collect_until(socket, _ended)


def test_K40_a_dropped_socket_and_a_reload_lose_and_double_nothing(
    desk: Desk, model_server: ModelServer
) -> None:
    member, turn, run = _ask(desk, model_server, "count-400:4")
    first, rest, fresh = asyncio.run(_watch_cut_and_reload(member, turn))
    journaled = answer_text(organization_id=run.organization_id, run_id=run.pk)
    assert journaled == EVERYTHING
    assert text_of([*first, *rest], turn["answer"]) == EVERYTHING
    assert text_of(fresh, turn["answer"]) == EVERYTHING
    for connection in (first, rest, fresh):
        assert _seqs(connection) == sorted(set(_seqs(connection)))
    assert not set(_seqs(first)) & set(_seqs(rest))
    assert len(model_server.requests) == 1


def test_K40_two_tabs_agree_and_stop_in_one_ends_both(
    desk: Desk, model_server: ModelServer
) -> None:
    member, turn, _run = _ask(desk, model_server, "long-2000:10")

    async def both() -> tuple[list[Any], list[Any]]:
        async with (
            member.socket(turn["conversation"]) as one,
            member.socket(turn["conversation"]) as two,
        ):
            await collect_until(two, lambda frame: frame["type"] == "text")
            first = asyncio.ensure_future(collect_until(one, _ended))
            await two.send(json.dumps({"type": "stop", "run": turn["run"]}))
            second = await collect_until(two, _ended)
            return await first, second

    one, two = asyncio.run(both())
    finished = [next(frame for frame in found if _ended(frame))["data"] for found in (one, two)]
    assert finished[0] == finished[1]
    assert finished[0]["state"] == "cancelled"
    answer = Message.objects.get(pk=turn["answer"])
    assert text_of(one, turn["answer"]) == answer.text
    # A further message in the same conversation starts afresh: nothing is doubled.
    again = member.api(f"conversations/{turn['conversation']}/turns/", body={"text": "Again."})
    assert again.status == 201
    assert Message.objects.filter(conversation_id=turn["conversation"], role="user").count() == 2


def test_K41_stop_closes_the_providers_stream_and_charges_what_came(
    desk: Desk, model_server: ModelServer
) -> None:
    member, turn, run = _ask(desk, model_server, "long-2000:20")
    desk.stack.wait_for(
        lambda: bool(model_server.requests) and model_server.requests[-1].pieces_written >= 20,
        what="20 pieces",
    )
    pressed = time.monotonic()
    assert member.api(f"runs/{turn['run']}/stop/", body={}).status == 200
    request = model_server.requests[-1]
    desk.stack.wait_for(lambda: request.disconnected_at is not None, what="the disconnect")
    assert time.monotonic() - pressed < 5.0  # The goal is one second; this is a hang guard.
    member.wait_until_finished(turn)
    run.refresh_from_db()
    assert run.state == Run.State.CANCELLED
    text = Message.objects.get(pk=turn["answer"]).text
    whole = "".join(pieces_2000())
    assert text
    assert whole.startswith(text)
    call = ModelCall.objects.get(run_id=run.pk)
    received = len(text) // 4
    assert call.state == ModelCall.State.STOPPED
    assert call.usage_estimated
    assert received <= call.output_tokens <= request.pieces_written + 1
    entry = LedgerEntry.objects.get(run_id=run.pk)
    assert (entry.output_tokens, entry.input_tokens) == (call.output_tokens, call.input_tokens)
    assert 0 < entry.output_tokens < 2000


def test_K46_one_key_is_one_run_over_two_connections_and_after_a_restart(
    desk: Desk, model_server: ModelServer
) -> None:
    agent = use_model(desk, model_server, "echo")
    members = [desk.sign_in(desk.reader) for _ in range(2)]

    async def twice() -> list[dict[str, Any]]:
        async def once(member: Member, wait: float) -> dict[str, Any]:
            await asyncio.sleep(wait)
            return await asyncio.to_thread(member.ask, agent.pk, "Only once, please.", "key-of-K46")

        return list(await asyncio.gather(once(members[0], 0), once(members[1], 0.01)))

    first, second = asyncio.run(twice())
    members[0].wait_until_finished(first)
    after = members[1].ask(agent.pk, "Only once, please.", "key-of-K46")
    desk.stack.kill("web")
    desk.stack.start("web")
    restarted = members[0].ask(agent.pk, "Only once, please.", "key-of-K46")
    assert {turn["run"] for turn in (first, second, after, restarted)} == {first["run"]}
    assert Message.objects.filter(organization=desk.organization, role="user").count() == 1
    assert Run.objects.filter(organization=desk.organization).count() == 1
    assert len(model_server.requests) == 1
