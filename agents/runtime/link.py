"""The runtime's websocket to the backend: connect, come back, take runs, carry their frames.

Promises: one connection at a time; never more runs than its capacity; a lost connection or lease
cancels the runs that stood on it, for the backend takes care of them; logs hold ids and codes,
never content.
Not for: deciding anything about a run (loop.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar, assert_never

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.frames import CloseCode

from agents.runtime import loop, protocol
from agents.runtime.protocol import (
    BackendFrame,
    Cancel,
    ErrorReply,
    Finish,
    Goodbye,
    Heartbeat,
    Hello,
    LeaseLost,
    ModelReply,
    ModelRequest,
    ProtocolError,
    RunFrame,
    RuntimeFrame,
    Start,
    ToolReply,
    ToolRequest,
    Welcome,
)
from agents.runtime.recovery import Backoff, Policy
from agents.runtime.steps import Wait

log = logging.getLogger("agents.runtime")

Reply = ModelReply | ToolReply | ErrorReply
Result = TypeVar("Result")
OUTBOX_FRAMES = 64
"""Frames waiting for the socket; when it is full, the runs wait."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the backend is and how to behave towards it. The token only proves: I am a runtime."""

    url: str
    token: str
    runtime_id: str
    capacity: int = 8
    grace_seconds: float = 10.0
    open_seconds: float = 10.0
    policy: Policy = field(default_factory=Policy)
    backoff: Backoff = field(default_factory=Backoff)


class Link:
    """Keeps one connection up until it is told to stop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stopping = asyncio.Event()
        self._failures = 0

    def stop(self) -> None:
        """Take no more runs, let the present ones end within the grace; then `serve` returns."""
        self._stopping.set()

    async def serve(self) -> None:
        """Connect, and connect again, until stopped."""
        while not self._stopping.is_set():
            await self._session()
            if not self._stopping.is_set():
                self._failures += 1
                wait = self._settings.backoff.seconds(failures=self._failures)
                log.info("connecting again in %.1f s", wait)
                await self._unless_stopped(asyncio.sleep(wait))

    async def _session(self) -> None:
        """One connection from opening to end; every way it may end is logged and none raises."""
        try:
            socket = await self._unless_stopped(self._open())
            if socket is None:
                return
            async with socket:
                await self._use(socket)
        except InvalidStatus as error:
            log.warning("the backend refused the connection: HTTP %s", error.response.status_code)
        except ConnectionClosed as error:
            close = error.rcvd or error.sent
            log.warning("the connection was closed: code %s", close.code if close else "none")
        except ProtocolError as error:
            log.warning("the backend broke the protocol: %s: %s", error.code, error)
        except (OSError, WebSocketException) as error:
            log.warning("no connection to the backend: %s", type(error).__name__)

    async def _use(self, socket: ClientConnection) -> None:
        session = Session(settings=self._settings, socket=socket, stopping=self._stopping)
        try:
            if await self._unless_stopped(session.greet()):
                self._failures = 0
                await session.serve()
        except ProtocolError as error:
            await socket.close(CloseCode.PROTOCOL_ERROR, error.code)
            raise

    async def _open(self) -> ClientConnection:
        return await _Connect(
            self._settings.url,
            additional_headers={"Authorization": f"Bearer {self._settings.token}"},
            user_agent_header=None,
            compression=None,
            # Straight to the backend: a proxy would see the token and the leases.
            proxy=None,
            open_timeout=self._settings.open_seconds,
            close_timeout=2,
            max_size=protocol.MAX_FRAME_BYTES,
        )

    async def _unless_stopped(self, work: Coroutine[Any, Any, Result]) -> Result | None:
        """The result of `work`, or None if the link was stopped first."""
        task = asyncio.create_task(work)
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            await _cancel(task, stopped)


class _Connect(connect):
    """Without redirects: the address is the operator's, and the token goes nowhere else."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class Session:
    """One connection, its runs and its two queues. A `Backend` for every run on it."""

    def __init__(
        self, *, settings: Settings, socket: ClientConnection, stopping: asyncio.Event
    ) -> None:
        self._settings = settings
        self._socket = socket
        self._stopping = stopping
        self._heartbeat_seconds = 0.0
        self._outbox: asyncio.Queue[str] = asyncio.Queue(OUTBOX_FRAMES)
        self._asked: dict[str, asyncio.Future[Reply]] = {}
        self._runs: dict[str, tuple[int, asyncio.Task[None]]] = {}

    async def greet(self) -> bool:
        """Say Hello, wait for Welcome. Raises ProtocolError, ConnectionClosed or TimeoutError."""
        hello = Hello(
            protocol=protocol.PROTOCOL_VERSION,
            capacity=self._settings.capacity,
            runtime_id=self._settings.runtime_id,
        )
        await self._socket.send(protocol.encode(hello))
        async with asyncio.timeout(self._settings.open_seconds):
            welcome = protocol.parse_backend_frame(await self._socket.recv())
        if not isinstance(welcome, Welcome):
            raise ProtocolError("invalid", f"{welcome.type} came before welcome")
        protocol.check_version(welcome.protocol)
        self._heartbeat_seconds = welcome.heartbeat_seconds
        log.info("connected as %s", self._settings.runtime_id)
        return True

    async def serve(self) -> None:
        """Carry frames until the connection ends (raises why) or the link has been stopped."""
        tasks = {asyncio.create_task(work) for work in (self._read(), self._write(), self._drain())}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await _cancel(*tasks, *(task for _, task in self._runs.values()))

    # The Backend of the runs

    async def model(self, request: ModelRequest) -> ModelReply | ErrorReply:
        reply = await self._ask(request)
        return _refuse(request) if isinstance(reply, ToolReply) else reply

    async def tool(self, request: ToolRequest) -> ToolReply | ErrorReply:
        reply = await self._ask(request)
        return _refuse(request) if isinstance(reply, ModelReply) else reply

    async def finish(self, finish: Finish) -> None:
        await self._send(finish)

    async def heartbeat(self, beat: Heartbeat) -> None:
        await self._send(beat)

    async def _ask(self, request: ModelRequest | ToolRequest) -> Reply:
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._asked[request.request_id] = answer
        try:
            await self._send(request)
            return await answer
        except ProtocolError as error:
            log.warning("run %s: request not sent: %s", request.run, error)
            return _refuse(request)
        finally:
            del self._asked[request.request_id]

    async def _send(self, frame: RuntimeFrame) -> None:
        await self._outbox.put(protocol.encode(frame))

    # The three tasks of a connection

    async def _read(self) -> None:
        while True:
            self._route(protocol.parse_backend_frame(await self._socket.recv()))

    async def _write(self) -> None:
        while True:
            await self._socket.send(await self._outbox.get())
            self._outbox.task_done()

    async def _drain(self) -> None:
        await self._stopping.wait()
        running = [task for _, task in self._runs.values()]
        log.info("stopping with %d runs", len(running))
        try:
            async with asyncio.timeout(self._settings.grace_seconds):
                await self._send(Goodbye())
                if running:
                    await asyncio.wait(running)
                await self._outbox.join()
        except TimeoutError:
            log.warning("gave up %d runs after the grace", len(self._runs))

    # Frames to runs

    def _route(self, frame: BackendFrame) -> None:
        match frame:
            case ModelReply() | ToolReply() | ErrorReply():
                answer = self._asked.get(frame.request_id)
                if answer is None or answer.done():
                    log.info("%s for unknown request %s ignored", frame.type, frame.request_id)
                else:
                    answer.set_result(frame)
            case Start():
                self._start(frame)
            case Cancel(run=run, reason=reason):
                self._end(run, why=f"cancelled: {reason}")
            case LeaseLost(run=run):
                self._end(run, why="lease lost")
            case Welcome():
                raise ProtocolError("invalid", "a second welcome")
            case _:
                assert_never(frame)

    def _start(self, start: Start) -> None:
        attempt, _ = self._runs.get(start.run, (0, None))
        if attempt >= start.attempt:
            log.info("run %s attempt %s ignored: it is old", start.run, start.attempt)
            return
        if attempt:
            self._end(start.run, why=f"attempt {start.attempt} takes its place")
        work: Callable[[Start], Coroutine[Any, Any, None]] = self._run
        if self._stopping.is_set() or len(self._runs) >= self._settings.capacity:
            work = self._decline
        task = asyncio.create_task(work(start))
        self._runs[start.run] = (start.attempt, task)
        task.add_done_callback(lambda _: self._forget(start))

    def _forget(self, start: Start) -> None:
        if self._runs.get(start.run, (0, None))[0] == start.attempt:
            del self._runs[start.run]

    def _end(self, run: str, *, why: str) -> None:
        _, task = self._runs.pop(run, (0, None))
        if task is None:
            log.info("unknown run %s ignored: %s", run, why)
            return
        log.info("run %s stopped: %s", run, why)
        task.cancel()

    async def _run(self, start: Start) -> None:
        log.info("run %s attempt %s started", start.run, start.attempt)
        beats = asyncio.create_task(self._beat(start))
        work = asyncio.create_task(
            loop.execute(start=start, backend=self, policy=self._settings.policy)
        )
        try:
            # Not awaited directly: whatever breaks one run must be told, and not break the others.
            await asyncio.wait({work})
            error = work.exception()
            if error is not None:
                log.error("run %s broke: %s", start.run, type(error).__name__)
                await self._give_back(start, reason="runtime_error")
            else:
                log.info("run %s ended: %s", start.run, _ending(work.result()))
        finally:
            await _cancel(beats, work)

    async def _beat(self, start: Start) -> None:
        # Never slower than the lease allows, whatever the backend's general interval is.
        seconds = min(self._heartbeat_seconds, start.lease_seconds / 3)
        beat = Heartbeat(run=start.run, attempt=start.attempt, lease=start.lease)
        while True:
            await asyncio.sleep(seconds)
            await self.heartbeat(beat)

    async def _decline(self, start: Start) -> None:
        reason = "draining" if self._stopping.is_set() else "busy"
        log.info("run %s declined: %s", start.run, reason)
        await self._give_back(start, reason=reason)

    async def _give_back(self, frame: RunFrame, *, reason: str) -> None:
        finish = Finish(
            run=frame.run,
            attempt=frame.attempt,
            lease=frame.lease,
            outcome="failed",
            reason=reason,
            step=0,
        )
        await self.finish(finish)


def _refuse(request: ModelRequest | ToolRequest) -> ErrorReply:
    """What a run gets for a request that could not be carried, or was answered with nonsense."""
    return ErrorReply(request_id=request.request_id, code="protocol_error", retry=False)


def _ending(ending: Finish | Wait) -> str:
    match ending:
        case Finish(outcome=outcome, reason=reason, step=step):
            return f"{outcome} ({reason}) after {step} model calls"
        case Wait():
            return "waiting for a person"
        case _:
            assert_never(ending)


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancel and see them end; what they raise no longer matters."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
