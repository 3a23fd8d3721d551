"""The runtime's websocket: its frames on one side, turns and the guard on the other.

The connection's token proves only that a runtime is there. Each frame stands on its run's lease,
and nothing the runtime sends is content. Whatever is left when a connection ends is ended as lost,
with its text kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import random
from collections.abc import Coroutine
from typing import Any
from uuid import UUID

from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError

from agents.guard import gateway, pipeline
from agents.guard.contract import LeaseLost
from agents.prepare import estimate_tokens
from agents.providers.contract import ProviderError
from agents.runtime import protocol
from agents.runtime.protocol import (
    BackendFrame,
    Cancel,
    ErrorReply,
    Finish,
    Goodbye,
    Heartbeat,
    Hello,
    ModelReply,
    ModelRequest,
    RunFrame,
    ToolCall,
    ToolReply,
    ToolRequest,
    Welcome,
)
from agents.runtime.protocol import LeaseLost as LeaseLostFrame
from conversations import leases, turns
from conversations.active import ActiveRun, end_run, load_gate
from conversations.leases import Lease
from kaizen.kernel import bells
from kaizen.kernel.errors import KaizenError, Unavailable
from kaizen.kernel.threads import in_database

logger = logging.getLogger(__name__)

UNAUTHENTICATED, BAD_FRAME = 4401, 4400
NOT_TAKEN = frozenset({"busy", "draining"})


class BridgeConsumer(AsyncWebsocketConsumer):
    """One connected runtime."""

    async def connect(self) -> None:
        """Accept a runtime that knows the token; anything else is refused in the handshake."""
        headers = dict(self.scope["headers"])
        given = headers.get(b"authorization", b"").decode("latin-1")
        wanted = f"Bearer {settings.KAIZEN_RUNTIME_TOKEN}"
        self.runs: dict[UUID, ActiveRun] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.capacity = 0
        self.free = asyncio.Event()
        if not settings.KAIZEN_RUNTIME_TOKEN or not hmac.compare_digest(
            given.encode(), wanted.encode()
        ):
            await self.close(code=UNAUTHENTICATED)
            return
        await self.accept()

    async def disconnect(self, code: int) -> None:
        """End what this runtime held: failed and salvaged, ready for a retry."""
        for task in tuple(getattr(self, "tasks", ())):
            task.cancel()
        await asyncio.gather(*getattr(self, "tasks", ()), return_exceptions=True)
        for active in tuple(getattr(self, "runs", {}).values()):
            await active.abandon()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Act on one frame; an unreadable one closes the connection."""
        try:
            frame = protocol.parse_runtime_frame(
                text_data if text_data is not None else bytes_data or b""
            )
            if isinstance(frame, Hello):
                protocol.check_version(frame.protocol)
        except protocol.ProtocolError as error:
            logger.warning("a runtime sent an unreadable frame: %s", error)
            await self.close(code=BAD_FRAME)
            return
        match frame:
            case Hello():
                await self._welcome(frame)
            case Goodbye():
                self.capacity = 0
            case Heartbeat():
                self._spawn(self._renew(frame))
            case ModelRequest():
                self._spawn(self._model(frame))
            case ToolRequest():
                self._spawn(self._tool(frame))
            case Finish():
                self._spawn(self._finish(frame))

    # --- taking runs

    async def _welcome(self, hello: Hello) -> None:
        self.capacity = hello.capacity
        await self._send(
            Welcome(
                protocol=protocol.PROTOCOL_VERSION,
                heartbeat_seconds=settings.KAIZEN_LEASE_SECONDS / 3,
            )
        )
        self._spawn(self._offer())

    async def _offer(self) -> None:
        """Claim queued runs while there is capacity: at every bell, and at least every poll."""
        async with bells.listen(leases.RUNS_TOPIC) as bell:
            while True:
                while len(self.runs) < self.capacity and await self._claim_one():
                    pass
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(bell.get(), poll_seconds())
                while not bell.empty():
                    bell.get_nowait()

    async def _claim_one(self) -> bool:
        try:
            lease = await in_database(leases.claim)
            gate = None if lease is None else await in_database(load_gate, lease)
        except DatabaseError:
            logger.warning("no run could be claimed: the database doesn't answer")
            return False
        if lease is None or gate is None:
            return False
        active = ActiveRun(gate)
        self.runs[lease.run_id] = active
        self._spawn(self._begin(active))
        return True

    async def _begin(self, active: ActiveRun) -> None:
        """Hand a claimed run to the runtime. A run that can't be begun ends, and holds up no
        other.
        """
        lease = active.gate.lease
        try:
            start = await in_database(active.gate.start)
        except (LeaseLost, KaizenError) as error:
            await self._end(
                active,
                Finish(
                    run=str(lease.run_id),
                    attempt=lease.attempt,
                    lease=lease.secret,
                    outcome="failed",
                    reason=getattr(error, "code", "stopped"),
                    step=0,
                ),
            )
            return
        except Exception:
            await self._close_run(active)
            raise
        await active.open()
        self._spawn(self._watch_stop(active))
        await self._send(start)

    async def _watch_stop(self, active: ActiveRun) -> None:
        """Stop the run as soon as somebody asks for it."""
        run_id = active.gate.facts.run_id
        async with bells.listen(turns.run_topic(run_id)) as bell:
            while not active.ended.is_set():
                if await in_database(active.is_stop_requested):
                    await self._send(Cancel(run=str(run_id), reason="stopped"))
                    await self._close_run(active)
                    return
                waiting = [
                    asyncio.ensure_future(bell.get()),
                    asyncio.ensure_future(active.ended.wait()),
                ]
                _, rest = await asyncio.wait(
                    waiting, timeout=poll_seconds(), return_when=asyncio.FIRST_COMPLETED
                )
                for task in rest:
                    task.cancel()

    # --- frames of a run

    def _find(self, frame: RunFrame) -> ActiveRun | None:
        """The run this connection holds under exactly this frame's lease."""
        try:
            active = self.runs.get(UUID(frame.run))
        except ValueError:
            return None
        if active is None:
            return None
        lease = active.gate.lease
        same = hmac.compare_digest(lease.secret.encode(), frame.lease.encode())
        return active if same and lease.attempt == frame.attempt else None

    async def _refuse_stale(self, frame: RunFrame) -> None:
        await self._send(LeaseLostFrame(run=frame.run))
        with contextlib.suppress(ValueError):
            await in_database(note_stale_frame, frame)

    async def _renew(self, frame: Heartbeat) -> None:
        active = self._find(frame)
        if active is None or not await in_database(leases.renew, active.gate.lease):
            await self._refuse_stale(frame)
            if active is not None:
                await self._close_run(active)

    async def _model(self, frame: ModelRequest) -> None:
        active = self._find(frame)
        if active is None:
            await self._refuse_stale(frame)
            return
        try:
            reply = await active.call(self._complete(active, frame))
        except (LeaseLost, asyncio.CancelledError):
            await self._send(LeaseLostFrame(run=frame.run))
            raise
        await self._send(reply)

    async def _complete(self, active: ActiveRun, frame: ModelRequest) -> BackendFrame:
        active.sink.add_break()
        try:
            reply = await gateway.complete(
                active.gate,
                step=frame.step,
                refs=frame.context,
                allow_tools=frame.allow_tools,
                note=frame.note,
                sink=active.sink,
            )
        except ProviderError as error:
            active.problem = (error.code, error.message)
            return ErrorReply(
                request_id=frame.request_id,
                code=error.code,
                message=error.message[: protocol.MAX_TEXT],
                retry=error.retryable and not error.partial_text,
                retry_after=error.retry_after,
            )
        except KaizenError as error:
            active.problem = (error.code, error.message)
            return ErrorReply(
                request_id=frame.request_id, code=error.code, message=error.message, retry=False
            )
        except DatabaseError:
            return self._unavailable(active, frame.request_id)
        stop: Any = reply.stop_reason if reply.stop_reason != "stop" else "end"
        return ModelReply(
            request_id=frame.request_id,
            ref=f"m.{reply.seq}",
            text_tokens=estimate_tokens(len(reply.text)),
            text=reply.text[: protocol.MAX_TEXT],
            tool_calls=tuple(
                ToolCall(
                    call_id=use.id[:128] or f"call-{index}",
                    name=use.name[:200],
                    arguments=use.arguments_raw[: protocol.MAX_ARGUMENTS],
                )
                for index, use in enumerate(reply.tool_uses)
            ),
            stop=stop,
        )

    async def _tool(self, frame: ToolRequest) -> None:
        active = self._find(frame)
        if active is None:
            await self._refuse_stale(frame)
            return
        request = pipeline.ToolRequest(
            step=frame.step, call_id=frame.call_id, name=frame.name, arguments_raw=frame.arguments
        )
        try:
            result = await active.call(in_database(pipeline.call_tool, active.gate, request))
        except LeaseLost:
            await self._send(LeaseLostFrame(run=frame.run))
            return
        except KaizenError as error:
            active.problem = (error.code, error.message)
            await self._send(
                ErrorReply(
                    request_id=frame.request_id, code=error.code, message=error.message, retry=False
                )
            )
            return
        except DatabaseError:
            await self._send(self._unavailable(active, frame.request_id))
            return
        outcome: Any = result.outcome
        await self._send(
            ToolReply(
                request_id=frame.request_id,
                ref=f"t.{result.tool_call_id}",
                tokens=estimate_tokens(result.characters),
                outcome=outcome,
                empty=result.empty,
                summary=result.summary,
            )
        )

    def _unavailable(self, active: ActiveRun, request_id: str) -> ErrorReply:
        """The database didn't answer: nothing counts as done, the same request may come again."""
        error = Unavailable()
        active.problem = (error.code, error.message)
        logger.warning(
            "run %s: a request failed in the database", active.gate.facts.run_id, exc_info=True
        )
        return ErrorReply(
            request_id=request_id,
            code=error.code,
            message=error.message,
            retry=True,
            retry_after=float(error.retry_after),
        )

    async def _finish(self, frame: Finish) -> None:
        active = self._find(frame)
        if active is None:
            await self._refuse_stale(frame)
            return
        await self._end(active, frame)

    async def _end(self, active: ActiveRun, frame: Finish) -> None:
        facts = active.gate.facts
        await active.close()
        if frame.outcome == "failed" and frame.reason in NOT_TAKEN and frame.step == 0:
            await in_database(turns.requeue, facts.run_id, attempt=facts.attempt)
        else:
            await in_database(
                end_run, active.gate.lease, frame.outcome, frame.reason, active.problem
            )
        self._forget(active)

    async def _close_run(self, active: ActiveRun) -> None:
        """Stop what is in flight and end the run as its row says: stopped by a member, or lost."""
        await active.abandon()
        self._forget(active)

    def _forget(self, active: ActiveRun) -> None:
        self.runs.pop(active.gate.facts.run_id, None)
        active.ended.set()
        bells_task = bells.ring_soon(leases.RUNS_TOPIC, {})
        self._spawn(bells_task)

    # --- plumbing

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a frame could not be handled", exc_info=task.exception())

    async def _send(self, frame: BackendFrame) -> None:
        await self.send(text_data=protocol.encode(frame))


def poll_seconds() -> float:
    """How long to wait for a bell before looking anyway: jittered, so that processes don't look
    together.
    """
    return float(settings.KAIZEN_POLL_SECONDS) * random.uniform(0.6, 1.0)  # noqa: S311  not a secret


def note_stale_frame(frame: RunFrame) -> None:
    """Audit a late frame, if it names a run at all. Raises ValueError when it doesn't."""
    organization_id = turns.find_organization(UUID(frame.run))
    if organization_id is not None:
        lease = Lease(
            run_id=UUID(frame.run),
            organization_id=organization_id,
            attempt=frame.attempt,
            secret=frame.lease,
        )
        leases.note_stale(lease, frame=type(frame).__name__)
