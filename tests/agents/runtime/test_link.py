"""The link against a real websocket server on loopback."""

from __future__ import annotations

import asyncio
import http
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from agents.runtime.link import OUTBOX_FRAMES, Link, Settings
from agents.runtime.protocol import (
    MAX_CONTEXT_ITEMS,
    MAX_FRAME_BYTES,
    Cancel,
    ContextItem,
    Finish,
    Goodbye,
    Heartbeat,
    Hello,
    LeaseLost,
    ModelReply,
    ModelRequest,
    ToolCall,
    ToolReply,
    ToolRequest,
)
from agents.runtime.recovery import Backoff
from tests.agents.runtime.bridge import Bridge, Line, says
from tests.agents.runtime.offences import (
    sends_bytes,
    sends_garbage,
    speaks_before_the_welcome,
    welcomes_in_another_version,
    welcomes_twice,
)
from tests.agents.runtime.starts import POLICY, limits, start

FAST = Backoff(first_seconds=0.01, most_seconds=0.05)


@pytest_asyncio.fixture
async def bridge() -> AsyncIterator[Bridge]:
    async with Bridge() as server:
        yield server


@asynccontextmanager
async def linked(url: str, *, capacity: int = 8, grace_seconds: float = 0.2) -> AsyncIterator[Link]:
    """A link at work; it must come to its end by itself once it is stopped."""
    settings = Settings(
        url=url,
        token="runtime-token",
        runtime_id="runtime-1",
        capacity=capacity,
        grace_seconds=grace_seconds,
        policy=POLICY,
        backoff=FAST,
    )
    link = Link(settings)
    task = asyncio.create_task(link.serve())
    try:
        yield link
    finally:
        link.stop()
        await asyncio.wait_for(task, 10)


def runs_at_work() -> int:
    return sum("execute" in repr(task.get_coro()) for task in asyncio.all_tasks())


async def test_the_runtime_shows_its_token_and_no_origin(bridge: Bridge) -> None:
    async with linked(bridge.url, capacity=3):
        line = await bridge.line()
        hello = await line.welcome()
    assert hello == Hello(protocol=1, capacity=3, runtime_id="runtime-1")
    assert line.headers["Authorization"] == "Bearer runtime-token"
    assert "Origin" not in line.headers


async def test_a_run_from_start_to_finish(bridge: Bridge) -> None:
    async with linked(bridge.url):
        line = await bridge.line()
        await line.welcome()
        await line.send(start())
        request = await line.next(ModelRequest)
        call = ToolCall(call_id="c1", name="search", arguments="{}")
        await line.send(
            ModelReply(
                request_id=request.request_id,
                ref="a1",
                text_tokens=0,
                tool_calls=(call,),
                stop="tool_use",
            )
        )
        asked = await line.next(ToolRequest)
        assert (asked.run, asked.call_id, asked.arguments) == ("run-1", "c1", "{}")
        await line.send(
            ToolReply(request_id=asked.request_id, ref="r1", tokens=5, outcome="ok", empty=False)
        )
        second = await line.next(ModelRequest)
        assert second.context == ("u1", "a1", "r1")
        await line.send(says(second, "Thirty days."))
        assert await line.next(Finish) == Finish(
            run="run-1", attempt=1, lease="lease-run-1", outcome="answered", reason="end", step=2
        )


async def test_two_runs_at_once_get_their_own_replies(bridge: Bridge) -> None:
    async with linked(bridge.url):
        line = await bridge.line()
        await line.welcome()
        await line.send(start(run="run-1"), start(run="run-2"))
        first, second = await line.next(ModelRequest), await line.next(ModelRequest)
        assert {first.run, second.run} == {"run-1", "run-2"}
        await line.send(says(second, "Two."))
        assert (await line.next(Finish)).run == second.run
        await line.send(says(first, "One."))
        assert (await line.next(Finish)).run == first.run


async def test_every_run_beats_with_its_lease_until_it_ends(bridge: Bridge) -> None:
    async with linked(bridge.url):
        line = await bridge.line()
        await line.welcome(heartbeat_seconds=0.03)
        await line.send(start())
        request = await line.next(ModelRequest)
        for _ in range(3):
            beat = await line.next(Heartbeat)
            assert (beat.run, beat.attempt, beat.lease) == ("run-1", 1, "lease-run-1")
        await line.send(says(request, "Done."))
        while not isinstance(await line.next((Heartbeat, Finish)), Finish):  # type: ignore[arg-type]
            pass
        assert await line.is_silent()


async def test_a_short_lease_beats_faster_than_told(bridge: Bridge) -> None:
    async with linked(bridge.url):
        line = await bridge.line()
        await line.welcome(heartbeat_seconds=60)
        await line.send(start(lease_seconds=0.09))
        await line.next(ModelRequest)
        await line.next(Heartbeat)


@pytest.mark.parametrize("frame", [LeaseLost(run="run-1"), Cancel(run="run-1", reason="stopped")])
async def test_a_run_that_lost_its_lease_or_is_cancelled_says_nothing_more(
    bridge: Bridge, frame: LeaseLost | Cancel
) -> None:
    async with linked(bridge.url):
        line = await bridge.line()
        await line.welcome()
        await line.send(start(run="run-1"), start(run="run-2"))
        both = [await line.next(ModelRequest), await line.next(ModelRequest)]
        requests = {request.run: request for request in both}
        await line.send(frame, says(requests["run-1"], "Too late."))
        await line.send(says(requests["run-2"], "Still here."))
        finish = await line.next(Finish)
        assert (finish.run, finish.outcome) == ("run-2", "answered")
        assert await line.is_silent()


async def test_frames_for_unknown_runs_are_ignored_and_logged(
    bridge: Bridge, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "agents.runtime")
    async with linked(bridge.url):
        line = await bridge.line()
        await line.welcome()
        stray = ModelReply(
            request_id="run-9:1:m1.1", ref="a", text_tokens=1, text="canary", stop="end"
        )
        await line.send(stray, Cancel(run="run-9", reason="stopped"), LeaseLost(run="run-8"))
        await line.send(start())
        await line.send(says(await line.next(ModelRequest), "canary"))
        assert (await line.next(Finish)).outcome == "answered"
    assert "model.reply for unknown request run-9:1:m1.1 ignored" in caplog.messages
    assert "unknown run run-9 ignored: cancelled: stopped" in caplog.messages
    assert "unknown run run-8 ignored: lease lost" in caplog.messages
    assert "canary" not in caplog.text


async def test_a_newer_attempt_takes_the_place_of_an_older_one(bridge: Bridge) -> None:
    async with linked(bridge.url):
        line = await bridge.line()
        await line.welcome()
        await line.send(start(attempt=2))
        old = await line.next(ModelRequest)
        await line.send(start(attempt=1), start(attempt=2), start(attempt=3))
        new = await line.next(ModelRequest)
        assert (old.attempt, new.attempt) == (2, 3)
        await line.send(says(old, "Old."), says(new, "New."))
        assert (await line.next(Finish)).attempt == 3
        assert await line.is_silent()


async def test_a_run_over_the_capacity_is_given_back_untouched(bridge: Bridge) -> None:
    async with linked(bridge.url, capacity=1):
        line = await bridge.line()
        await line.welcome()
        await line.send(start(run="run-1"))
        request = await line.next(ModelRequest)
        await line.send(start(run="run-2"))
        finish = await line.next(Finish)
        assert (finish.run, finish.outcome, finish.reason) == ("run-2", "failed", "busy")
        assert finish.step == 0
        await line.send(says(request, "One."))
        await line.next(Finish)
        await line.send(start(run="run-3"))
        assert (await line.next(ModelRequest)).run == "run-3"


async def test_a_run_that_breaks_is_given_back_and_the_others_go_on(
    bridge: Bridge, caplog: pytest.LogCaptureFixture
) -> None:
    # One reference too many for a request: a bound that the loop does not keep by itself.
    full = [
        ContextItem(ref=f"u{number}", kind="user" if number == 0 else "assistant", tokens=0)
        for number in range(MAX_CONTEXT_ITEMS)
    ]
    async with linked(bridge.url):
        line = await bridge.line()
        await line.welcome()
        await line.send(start(run="run-1", context=full), start(run="run-2"))
        first, second = await line.next(ModelRequest), await line.next(ModelRequest)
        call = ToolCall(call_id="c1", name="search", arguments="{}")
        await line.send(
            says(first, "").model_copy(update={"tool_calls": (call,), "stop": "tool_use"})
        )
        asked = await line.next(ToolRequest)
        await line.send(
            ToolReply(request_id=asked.request_id, ref="r1", tokens=0, outcome="ok", empty=False)
        )
        finish = await line.next(Finish)
        assert (finish.run, finish.outcome, finish.reason) == ("run-1", "failed", "runtime_error")
        await line.send(says(second, "Unhurt."))
        assert (await line.next(Finish)).outcome == "answered"
    assert "run run-1 broke: ValidationError" in caplog.messages


async def test_after_a_lost_connection_it_comes_back_without_its_runs(bridge: Bridge) -> None:
    async with linked(bridge.url):
        line = await bridge.line()
        await line.welcome(heartbeat_seconds=0.02)
        await line.send(start())
        await line.next(ModelRequest)
        assert runs_at_work() == 1
        await line.close()
        line = await bridge.line()
        await line.welcome(heartbeat_seconds=0.02)
        assert runs_at_work() == 0
        assert await line.is_silent()
        await line.send(start(attempt=2))
        await line.send(says(await line.next(ModelRequest), "Again."))
        assert (await line.next(Finish)).attempt == 2


@pytest.mark.parametrize(
    "offend",
    [
        speaks_before_the_welcome,
        welcomes_in_another_version,
        welcomes_twice,
        sends_bytes,
        sends_garbage,
    ],
)
async def test_a_backend_that_breaks_the_protocol_is_left_and_tried_again(
    bridge: Bridge, offend: Callable[[Line], Awaitable[None]]
) -> None:
    async with linked(bridge.url):
        line = await bridge.line()
        await offend(line)
        assert await line.closed() == 1002
        await (await bridge.line()).welcome()


async def test_a_frame_over_the_limit_ends_the_connection(bridge: Bridge) -> None:
    async with linked(bridge.url):
        line = await bridge.line()
        await line.welcome()
        await line.socket.send(" " * (MAX_FRAME_BYTES + 1))
        assert await line.closed() == 1009
        await (await bridge.line()).welcome()


async def test_a_refused_connection_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    tries: list[str] = []

    def refuse_twice(socket: ServerConnection, request: Request) -> Response | None:
        tries.append(request.path)
        return socket.respond(http.HTTPStatus.FORBIDDEN, "no") if len(tries) < 3 else None

    arrived = asyncio.Event()

    async def accept(socket: ServerConnection) -> None:
        arrived.set()
        await socket.wait_closed()

    async with serve(accept, "127.0.0.1", 0, process_request=refuse_twice) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with linked(f"ws://127.0.0.1:{port}/bridge/"):
            await asyncio.wait_for(arrived.wait(), 10)
    assert tries == ["/bridge/"] * 3
    assert caplog.messages.count("the backend refused the connection: HTTP 403") == 2


async def test_a_redirect_is_not_followed(bridge: Bridge) -> None:
    tries: list[str] = []

    def redirect(socket: ServerConnection, request: Request) -> Response:
        tries.append(request.path)
        response = socket.respond(http.HTTPStatus.TEMPORARY_REDIRECT, "")
        response.headers["Location"] = bridge.url
        return response

    async def never(socket: ServerConnection) -> None:
        raise AssertionError("a redirected handshake succeeded")

    async with serve(never, "127.0.0.1", 0, process_request=redirect) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with linked(f"ws://127.0.0.1:{port}/"):
            while len(tries) < 2:
                await asyncio.sleep(0.01)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(bridge.line(), 0.1)


async def test_a_backend_that_is_slow_to_read_loses_nothing(bridge: Bridge) -> None:
    count = OUTBOX_FRAMES * 2
    calls = tuple(
        ToolCall(call_id=f"c{number}", name="search", arguments="{}") for number in range(count)
    )
    bounds = limits(max_tool_calls=count, max_parallel_tools=count)
    async with linked(bridge.url):
        line = await bridge.line()
        await line.welcome()
        await line.send(start(bounds=bounds))
        request = await line.next(ModelRequest)
        await line.send(
            ModelReply(
                request_id=request.request_id,
                ref="a1",
                text_tokens=0,
                tool_calls=calls,
                stop="tool_use",
            )
        )
        await asyncio.sleep(0.05)
        asked = [await line.next(ToolRequest) for _ in range(count)]
        assert [request.call_id for request in asked] == [call.call_id for call in calls]


async def test_stopping_lets_the_present_runs_end_and_takes_no_more(bridge: Bridge) -> None:
    async with linked(bridge.url, grace_seconds=10) as link:
        line = await bridge.line()
        await line.welcome()
        await line.send(start(run="run-1"))
        request = await line.next(ModelRequest)
        link.stop()
        await line.next(Goodbye)
        await line.send(start(run="run-2"))
        declined = await line.next(Finish)
        assert (declined.run, declined.reason, declined.step) == ("run-2", "draining", 0)
        await line.send(says(request, "Done."))
        finish = await line.next(Finish)
        assert (finish.run, finish.outcome) == ("run-1", "answered")
        assert await line.closed() == 1000


async def test_stopping_gives_up_after_the_grace(bridge: Bridge) -> None:
    async with linked(bridge.url, grace_seconds=0.05) as link:
        line = await bridge.line()
        await line.welcome()
        await line.send(start())
        await line.next(ModelRequest)
        link.stop()
        await line.next(Goodbye)
        assert await line.closed() == 1000


async def test_stopping_while_nobody_answers_is_immediate() -> None:
    async with linked("ws://127.0.0.1:9/bridge/"):
        await asyncio.sleep(0.05)
