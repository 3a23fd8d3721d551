"""Reads one SDK stream to its end, whatever happens to it: the part that all adapters share.

Promises: the connection is closed on every way out (end, failure, cancel, `aclose`); the total
time-out holds; failures come out as `ProviderError` without the SDK's text; split surrogates are
mended. Not for: what an event means. That is each adapter's `Reading`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Protocol, TypeVar

from agents.providers import failures
from agents.providers.contract import (
    CompletionRequest,
    Event,
    Finished,
    Part,
    ProviderError,
    StreamAccount,
    Text,
    TextDelta,
    ToolUse,
)
from agents.providers.sdk import SdkErrors, was_never_charged

E_co = TypeVar("E_co", covariant=True)
E_contra = TypeVar("E_contra", contravariant=True)
E = TypeVar("E")


class Reading(Protocol[E_contra]):
    """Gathers one message from a dialect's events."""

    @property
    def complete(self) -> bool:
        """True once the provider has said why the message ended."""
        ...

    def take(self, event: E_contra, /) -> str:
        """Take in one event; the visible text in it, or an empty string. Raises ProviderError."""
        ...

    def finish(self) -> Finished:
        """The whole message; called once, when `complete`."""
        ...


class SdkStream(Protocol[E_co]):
    """What both SDKs return for `stream=True`."""

    def __aiter__(self) -> AsyncIterator[E_co]:
        """Iterate over the events."""
        ...

    async def __anext__(self) -> E_co:
        """The next event."""
        ...

    async def close(self) -> None:
        """Close the response and its connection."""
        ...


async def read_stream(
    *,
    open_stream: Callable[[], Awaitable[SdkStream[E]]],
    reading: Reading[E],
    errors: SdkErrors,
    request: CompletionRequest,
    account: StreamAccount,
) -> AsyncGenerator[Event, None]:
    """Yield the events of one call. Raises ProviderError with the partial text and its cost."""
    deadline = asyncio.get_running_loop().time() + request.timeout
    mender = SurrogateMender()
    stream: SdkStream[E] | None = None
    failure: ProviderError | None = None
    try:
        async with asyncio.timeout_at(deadline):
            stream = await open_stream()
        while True:
            try:
                # Awaited no longer than the deadline, and never while the consumer holds a piece.
                async with asyncio.timeout_at(deadline):
                    event = await anext(stream)
            except StopAsyncIteration:
                break
            text = mender.join(reading.take(event))
            if text:
                account.add_text(text)
                yield TextDelta(text)
    except ProviderError as error:
        failure = error
    except errors.caught as error:
        # After the last word has come, a torn connection changes nothing.
        if not reading.complete:
            failure = errors.translate(error, opened=stream is not None)
    finally:
        await _close(stream, errors=errors)
    if failure is None and reading.complete:
        tail = mender.end()
        if tail:
            account.add_text(tail)
            yield TextDelta(tail)
        finished = _mended(reading.finish())
        account.reported = None if finished.usage.estimated else finished.usage
        account.complete = True
        yield finished
        return
    # Raised outside the handler, so that no traceback carries the SDK's own message.
    failure = failure or failures.cut()
    if was_never_charged(failure, opened=stream is not None):
        account.refused = True
    else:
        failure.partial_text = account.text
        failure.usage_so_far = account.usage
    raise failure


async def _close(stream: SdkStream[E] | None, *, errors: SdkErrors) -> None:
    """Close the connection now; that it is torn already is no news."""
    if stream is not None:
        with contextlib.suppress(*errors.network):
            await stream.close()


class SurrogateMender:
    """Joins surrogate pairs that a provider split over two pieces; a lone half becomes U+FFFD."""

    def __init__(self) -> None:
        self._held = ""

    def join(self, piece: str) -> str:
        """`piece`, after the half held back from the one before; a trailing half is held back."""
        if not piece:
            return ""
        if not self._held and piece.isascii():
            return piece
        text = self._held + piece
        self._held = ""
        if "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return mend(text)

    def end(self) -> str:
        """What is still held back when nothing more comes."""
        return mend(self._held)


def mend(text: str) -> str:
    """`text` with surrogate pairs joined and lone halves replaced, so that it can be stored."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _mended(finished: Finished) -> Finished:
    """The message with the same text that was shown piece by piece."""
    parts: list[Part] = []
    for part in finished.parts:
        match part:
            case Text(text):
                parts.append(Text(mend(text)))
            case ToolUse(id=call_id, name=name, arguments_raw=raw):
                parts.append(ToolUse(mend(call_id), mend(name), mend(raw)))
            case _:
                parts.append(part)
    return replace(finished, parts=tuple(parts))
