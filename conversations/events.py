"""Events over plain HTTP, for programs: long-poll by default, server-sent events when asked for.

Plain asynchronous Django views, since DRF buffers. The same reading and the same rights as
everywhere; each reading proves them again, and a stream ends when they are gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponseBase, JsonResponse, StreamingHttpResponse

from accounts.authority import Authority
from accounts.middleware import resolve_authority
from conversations.bridge import poll_seconds
from conversations.journal import topic
from conversations.queries import read_events
from kaizen.kernel import bells
from kaizen.kernel.api import problem_json
from kaizen.kernel.errors import Invalid, KaizenError
from kaizen.kernel.tenancy import scope
from kaizen.kernel.threads import in_database

LONGEST_WAIT = 30
HEARTBEAT_SECONDS = 15.0
MAX_SECONDS = 3600.0


async def events(request: HttpRequest, conversation_id: UUID) -> HttpResponseBase:
    """GET: the events after `after`; waits up to `wait` seconds for one. With Accept:
    text/event-stream, a stream.
    """
    if request.method != "GET":
        return JsonResponse({}, status=405, headers={"Allow": "GET"})
    try:
        after, wait = _number(request, "after"), min(_number(request, "wait"), LONGEST_WAIT)
        first = await in_database(_read, request, conversation_id, after)
    except KaizenError as error:
        return problem_json(error)
    if "text/event-stream" in request.headers.get("Accept", ""):
        return StreamingHttpResponse(
            _stream(request, conversation_id, after, first),
            content_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )
    if not first and wait:
        try:
            first = await _wait(request, conversation_id, after, seconds=wait)
        except KaizenError as error:
            return problem_json(error)
    return JsonResponse({"events": first}, headers={"Cache-Control": "no-store"})


def _number(request: HttpRequest, name: str) -> int:
    value = request.GET.get(name, "0")
    if not value.isdecimal() or len(value) > 18:
        raise Invalid(f"{name} must be a whole number.")
    return int(value)


def _read(request: HttpRequest, conversation_id: UUID, after: int) -> list[dict[str, Any]]:
    authority: Authority = resolve_authority(request, slug=request.organization_slug)  # type: ignore[attr-defined]
    authority.check_scope("chat")
    with scope(authority):
        return read_events(authority, conversation_id, after=after)


async def _wait(
    request: HttpRequest, conversation_id: UUID, after: int, *, seconds: float
) -> list[dict[str, Any]]:
    async with bells.listen(topic(conversation_id)) as bell:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    found = await in_database(_read, request, conversation_id, after)
                    if found:
                        return found
                    await _next(bell, after)
    return []


async def _next(bell: bells.Bell, after: int) -> None:
    """Return when there may be an event after `after`: at its bell, or when it is time to look
    anyway.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(poll_seconds()):
            while (await bell.get()).get("seq", 0) <= after:
                pass


async def _stream(
    request: HttpRequest, conversation_id: UUID, after: int, first: list[dict[str, Any]]
) -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    ends_at, spoke_at = loop.time() + MAX_SECONDS, loop.time()
    found = first
    async with bells.listen(topic(conversation_id)) as bell:
        while loop.time() < ends_at:
            for event in found:
                after = event["seq"]
                spoke_at = loop.time()
                data = json.dumps(event, ensure_ascii=False)
                yield f"id: {after}\nevent: {event['kind']}\ndata: {data}\n\n"
            if loop.time() - spoke_at > HEARTBEAT_SECONDS:
                spoke_at = loop.time()
                yield ": still here\n\n"
            if not found:
                await _next(bell, after)
            try:
                found = await in_database(_read, request, conversation_id, after)
            except KaizenError as error:
                yield f"event: closed\ndata: {json.dumps({'code': error.code})}\n\n"
                return
