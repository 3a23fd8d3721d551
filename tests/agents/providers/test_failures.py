"""What a bad answer becomes: typed, told in plain words, with what was received and its cost."""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from dataclasses import replace

import pytest

from agents.providers.catalog import build
from agents.providers.contract import (
    ProviderBroken,
    ProviderError,
    ProviderLimited,
    ProviderOverloaded,
    ProviderRefused,
    ProviderTimeout,
    StreamAccount,
    Usage,
)
from tests.agents.providers.calls import ASK, KEY, KINDS, Target, cuts
from tests.providers.script import Script


async def failure_of(target: Target, **settings: float) -> ProviderError:
    """The error a call ends with."""
    with pytest.raises(ProviderError) as caught:
        await target.hear(replace(ASK, **settings) if settings else ASK)  # type: ignore[arg-type]
    return caught.value


async def test_too_many_requests_tells_when_to_come_back(target: Target) -> None:
    target.server.add(Script(status=429, error="limited", headers={"Retry-After": "7"}))
    failure = await failure_of(target)
    assert type(failure) is ProviderLimited
    assert (failure.retryable, failure.retry_after, failure.status) == (True, 7.0, 429)
    assert failure.usage_so_far is None
    assert len(target.server.requests) == 1  # the gateway owns retries


async def test_a_quota_that_is_used_up_is_not_retried(target: Target) -> None:
    target.server.add(Script(status=429, error="quota"))
    failure = await failure_of(target)
    assert (type(failure), failure.code, failure.retryable) == (ProviderLimited, "quota", False)


@pytest.mark.parametrize("status", [502, 503, 529])
async def test_overload_by_status(target: Target, status: int) -> None:
    target.server.add(Script(status=status, error="overloaded", headers={"Retry-After": "1.5"}))
    failure = await failure_of(target)
    assert type(failure) is ProviderOverloaded
    assert (failure.retryable, failure.retry_after) == (True, 1.5)


async def test_overload_as_the_first_event_of_a_200_stream(target: Target) -> None:
    target.server.add(Script(error="overloaded"))
    failure = await failure_of(target)
    assert (type(failure), failure.retryable) == (ProviderOverloaded, True)
    assert failure.partial_text == ""


async def test_overload_after_text_keeps_the_text_and_its_cost(target: Target) -> None:
    target.server.add(Script(text=("The total ", "is 41"), error="overloaded"))
    failure = await failure_of(target)
    assert type(failure) is ProviderOverloaded
    assert failure.partial_text == "The total is 41"
    assert failure.usage_so_far is not None
    assert failure.usage_so_far.estimated
    assert failure.usage_so_far.output_tokens == 4  # 15 bytes in two pieces


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key(target: Target, status: int) -> None:
    target.server.add(Script(status=status, error="refused_key"))
    failure = await failure_of(target)
    assert type(failure) is ProviderRefused
    assert (failure.code, failure.retryable) == ("refused_key", False)


async def test_the_key_appears_nowhere_in_a_failure(target: Target) -> None:
    wrong = replace(target, key="sk-wrong-key-echoed-by-server")
    account = StreamAccount()
    with pytest.raises(ProviderRefused) as caught:
        await wrong.hear(account=account)
    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert "sk-wrong" not in told
    assert caught.value.__context__ is None
    assert account.usage == Usage()  # nothing is charged for a refusal


@pytest.mark.parametrize("kind", KINDS)
def test_the_key_is_not_in_the_adapters_repr(kind: str) -> None:
    assert KEY not in repr(build(kind, base_url="http://h/v1", api_key=KEY))  # type: ignore[arg-type]


async def test_a_refused_request(target: Target) -> None:
    target.server.add(Script(status=400, error="bad_request"))
    failure = await failure_of(target)
    assert (type(failure), failure.code) == (ProviderRefused, "refused_request")
    assert failure.provider_code == "invalid_request_error"


async def test_a_conversation_too_long_for_the_model(target: Target) -> None:
    target.server.add(Script(status=400, error="too_long"))
    assert (await failure_of(target)).code == "too_long"


async def test_an_unknown_address(target: Target) -> None:
    target.server.add(Script(status=404, error="bad_request"))
    assert (await failure_of(target)).code == "unknown_model"


async def test_a_failure_inside_the_provider(target: Target) -> None:
    target.server.add(Script(status=500, error="failed"))
    failure = await failure_of(target)
    assert (type(failure), failure.code, failure.retryable) == (ProviderBroken, "failed", True)


async def test_a_redirect_is_not_followed(target: Target) -> None:
    target.server.add(Script(status=307, headers={"Location": "/v1/elsewhere"}))
    assert (await failure_of(target)).code == "unknown_model"
    target.server.assert_used_up()  # no second request to anywhere


async def test_a_torn_connection_keeps_the_text_and_its_cost(target: Target) -> None:
    target.server.add(Script(text=("This breaks ", "off"), ending="cut"))
    failure = await failure_of(target)
    assert (type(failure), failure.code, failure.retryable) == (ProviderBroken, "cut", True)
    assert failure.partial_text == "This breaks off"
    assert failure.usage_so_far is not None
    assert failure.usage_so_far.estimated
    assert failure.usage_so_far.output_tokens == 4


async def test_a_stream_that_ends_early_in_good_order_is_still_cut(target: Target) -> None:
    body = target.body(Script(text=("This breaks ", "off"), ending="cut"))
    target.server.add(Script(raw=(body,)))
    failure = await failure_of(target)
    assert (failure.code, failure.partial_text) == ("cut", "This breaks off")


async def test_a_stream_cut_anywhere_is_told_or_whole_never_a_crash(target: Target) -> None:
    script = Script(text=("One ", "and ", "two 🌍."))
    body = target.body(script)
    for at in cuts(body):
        target.server.add(Script(raw=(body[:at],)))
        account = StreamAccount()
        # Whole if the cut fell after the last word, told as a cut otherwise.
        with contextlib.suppress(ProviderBroken):
            await target.hear(account=account)
        assert "One and two 🌍.".startswith(account.text), at
        assert not account.complete or account.text == "One and two 🌍.", at


@pytest.mark.parametrize(
    "garbage",
    [
        b"<html>hello</html>\n\n",
        b"event: message_start\ndata: {not json\n\n",
        b"event: message_start\ndata: 42\n\n",
        b"event: message_start\ndata: []\n\n",
        b'event: message_start\ndata: {"type": "message_start", "message": 7}\n\n',
        b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 9}\n\n',
        b'event: x\ndata: {"choices": 5}\n\n',
        b'data: {"choices": [{"delta": {"tool_calls": [{"index": "x", "function": 3}]}}]}\n\n',
        b'event: e\ndata: {"type": "response.output_text.delta", "delta": 5}\n\n',
        b'event: e\ndata: {"type": "response.output_item.done", "item": null}\n\n',
        b"event: content_block_start\ndata: \xff\xfe\n\n",
    ],
)
async def test_garbage_is_told_not_crashed_on(target: Target, garbage: bytes) -> None:
    target.server.add(Script(raw=(garbage,)))
    failure = await failure_of(target)
    assert type(failure) is ProviderBroken
    assert failure.code in {"cut", "unreadable"}


async def test_silence_in_mid_stream_ends_in_a_time_out(target: Target) -> None:
    target.server.add(Script(text=("One ", "moment "), ending="hang"))
    failure = await failure_of(target, idle_timeout=0.3)
    assert (type(failure), failure.partial_text) == (ProviderTimeout, "One moment ")
    [received] = target.server.requests
    await target.server.wait_until(lambda _: received.disconnected_at)


async def test_no_answer_at_all_ends_in_a_time_out(target: Target) -> None:
    target.server.add(Script(text=("late",), wait=30))
    assert type(await failure_of(target, idle_timeout=0.3)) is ProviderTimeout


async def test_the_whole_call_is_bounded_even_if_pieces_keep_coming(target: Target) -> None:
    target.server.add(Script(text=("x ",) * 1000, delay=0.02))
    started = time.monotonic()
    failure = await failure_of(target, timeout=0.6)
    assert type(failure) is ProviderTimeout
    assert failure.partial_text.startswith("x x ")
    assert time.monotonic() - started < 5


async def test_nobody_listening_there(target: Target) -> None:
    await target.server.stop()
    failure = await failure_of(target)
    assert (type(failure), failure.code) == (ProviderBroken, "unreachable")
    assert failure.usage_so_far is None


async def test_stop_by_cancel_closes_the_connection_within_a_second(target: Target) -> None:
    """K41: the provider sees the stop, and the charge is what it wrote, not nothing, not all."""
    await stop_after_20(target, by_cancel=True)


async def test_stop_by_closing_the_stream_closes_the_connection_too(target: Target) -> None:
    """K41, when the consumer closes the generator instead of being cancelled."""
    await stop_after_20(target, by_cancel=False)


async def test_stop_before_the_first_byte_closes_the_connection_too(target: Target) -> None:
    target.server.add(Script(text=("late",), wait=30))
    account = StreamAccount()
    task = asyncio.create_task(target.hear(account=account))
    received = (await target.server.wait_until(lambda seen: seen or None))[0]
    stopped_at = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    seen_at = await target.server.wait_until(lambda _: received.disconnected_at)
    assert seen_at - stopped_at <= 1.0
    assert (account.usage.output_tokens, account.usage.estimated) == (0, True)


async def stop_after_20(target: Target, *, by_cancel: bool) -> None:
    account = StreamAccount()
    heard: list[str] = []
    reached = asyncio.Event()
    request = replace(ASK, model="long-2000")

    async def consume() -> None:
        async for event in target.stream(request, account=account):
            heard.append(event.text)  # type: ignore[union-attr]
            if len(heard) == 20:
                reached.set()

    if by_cancel:
        task = asyncio.create_task(consume())
        await asyncio.wait_for(reached.wait(), timeout=20)
        stopped_at = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        stream = target.stream(request, account=account)
        while len(heard) < 20:
            heard.append((await anext(stream)).text)  # type: ignore[union-attr]
        stopped_at = time.monotonic()
        await stream.aclose()

    [received] = target.server.requests
    seen_at = await target.server.wait_until(lambda _: received.disconnected_at)
    assert seen_at - stopped_at <= 1.0
    assert account.text == "".join(heard)
    assert account.text.startswith("001 002 003 ")
    usage = account.usage
    assert usage.estimated
    assert abs(usage.output_tokens - received.pieces_written) <= 5
    assert 20 <= usage.output_tokens < 100
    assert usage.input_tokens > 0
