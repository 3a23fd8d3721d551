"""The model server: a queue of scripts, or ready-made models, behind three providers' HTTP APIs.

Records every request, counts the pieces written, notes the instant a client disconnects, and
answers 400 to a history that the real provider would refuse. `assert_used_up` is how a test ends.
As a process it is driven over HTTP: POST /__script, GET /__requests, POST /__reset.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from tests.providers.behaviours import find_behaviour
from tests.providers.checker import Checker, Refused
from tests.providers.dialects import error_body, render
from tests.providers.http1 import BrokenRequest, Connection, Request
from tests.providers.received import DIALECTS, Received
from tests.providers.script import ErrorWord, Script, from_json, text_script

Obey = Callable[[Received], Script]
T = TypeVar("T")


class ModelServer:
    """Use as `async with ModelServer() as server`; `server.openai_url` and `anthropic_url` follow.

    An answer comes from the model's name if it is a ready-made one, else from the queue (`add`),
    else from `obey`, a function of the request. `keys`, when given, are the only ones accepted.
    """

    def __init__(self, *, keys: frozenset[str] | None = None, obey: Obey | None = None) -> None:
        self.keys = keys
        self.obey = obey
        self.requests: list[Received] = []
        self.problems: list[str] = []
        self._queue: deque[Script] = deque()
        self._checker = Checker()
        self._server: asyncio.Server | None = None
        self._open: set[Connection] = set()
        self._changed = asyncio.Condition()
        self.port = 0

    @property
    def openai_url(self) -> str:
        """The base address for both OpenAI dialects."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def anthropic_url(self) -> str:
        """The base address for the Messages dialect."""
        return f"http://127.0.0.1:{self.port}"

    def add(self, *scripts: Script) -> None:
        """Queue answers, one a request."""
        self._queue.extend(scripts)

    def reset(self) -> None:
        """Forget queue, requests, problems and issued thinking."""
        self._queue.clear()
        self.requests.clear()
        self.problems.clear()
        self._checker = Checker()

    def assert_used_up(self) -> None:
        """Fail if scripts are left over, or a request was refused or came unexpected."""
        if self.problems:
            raise AssertionError("; ".join(self.problems))
        if self._queue:
            raise AssertionError(f"{len(self._queue)} scripted answers were never asked for")

    async def wait_until(
        self, ready: Callable[[list[Received]], T | None], *, timeout: float = 5.0
    ) -> T:
        """The first true value of `ready(requests)`; fails after `timeout` seconds."""
        async with asyncio.timeout(timeout), self._changed:
            while not (value := ready(self.requests)):
                await self._changed.wait()
            return value

    async def start(self, *, port: int = 0) -> None:
        """Listen on the loopback address."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and tear the connections that are still open."""
        if self._server is not None:
            self._server.close()
            for connection in list(self._open):
                connection.abort()
            await self._server.wait_closed()

    async def __aenter__(self) -> ModelServer:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        self._open.add(connection)
        try:
            while (request := await connection.read_request()) is not None:
                await self._reply(connection, request)
        except (ConnectionError, BrokenRequest):
            pass  # the client's doing; what was sent is on record
        finally:
            self._open.discard(connection)
            with contextlib.suppress(ConnectionError):
                await connection.close()

    async def _reply(self, connection: Connection, request: Request) -> None:
        if request.path.startswith("/__"):
            await self._control(connection, request)
            return
        dialect = DIALECTS.get(request.path)
        if request.method != "POST" or dialect is None:
            self.problems.append(f"unexpected {request.method} {request.path}")
            await connection.send_json(404, {"error": {"message": "no such route"}})
            return
        received = Received(
            number=len(self.requests) + 1,
            dialect=dialect,
            path=request.path,
            headers=request.headers,
            raw=request.body,
            json=request.json(),
            at=time.monotonic(),
        )
        self.requests.append(received)
        await self._notify()
        try:
            script = self._choose(received)
        except Refused as refusal:
            await self._refuse(connection, received, 400, "bad_request", str(refusal))
            return
        if script is None:
            await self._refuse(connection, received, 500, "failed", "no scripted answer is left")
            return
        try:
            await connection.watch(self._answer(connection, received, script))
        except ConnectionError:
            received.outcome = "disconnected"
            received.disconnected_at = time.monotonic()
            raise
        finally:
            self._checker.learn(dialect, bytes(received.sent))
            await self._notify()

    def _choose(self, received: Received) -> Script | None:
        if self.keys is not None and received.key not in self.keys:
            message = f"Incorrect API key provided: {received.key}"
            return Script(status=401, error="refused_key", error_message=message)
        self._checker.check(received)
        found = find_behaviour(received.model)
        if found:
            behaviour, argument = found
            script = behaviour(received, argument)
            # A real model that may not call a tool any more has to say something.
            return script if received.may_call or not script.calls else text_script("I stop here.")
        if self._queue:
            return self._queue.popleft()
        return self.obey(received) if self.obey else None

    async def _refuse(
        self, connection: Connection, received: Received, status: int, word: ErrorWord, why: str
    ) -> None:
        received.outcome, received.refusal = "refused", why
        self.problems.append(f"request {received.number} refused: {why}")
        await connection.send_json(status, error_body(received.dialect, word, why))
        await self._notify()

    async def _answer(self, connection: Connection, received: Received, script: Script) -> None:
        await asyncio.sleep(script.wait)
        if script.status != 200:
            body = error_body(received.dialect, script.error, script.error_message)
            await connection.send_json(script.status, body, headers=script.headers)
            received.outcome = "sent"
            return
        await connection.start_stream(headers=script.headers)
        for frame in render(received.dialect, script, model=received.model):
            if frame.piece and script.delay:
                await asyncio.sleep(script.delay)
            await connection.send_chunk(frame.data)
            received.sent += frame.data
            received.pieces_written += frame.piece
            if script.raw:
                await asyncio.sleep(0.002)  # so that each chunk is a network read of its own
            if frame.piece:
                await self._notify()
        if script.ending == "hang":
            await asyncio.Event().wait()
        if script.ending == "cut":
            received.outcome = "cut"
            connection.abort()
            return
        await connection.end_stream()
        received.outcome = "sent"

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _control(self, connection: Connection, request: Request) -> None:
        match (request.method, request.path):
            case ("POST", "/__script"):
                body = request.json()
                items = body.get("items", [body])
                self.add(*(from_json(item) for item in items))
                reply: dict[str, Any] = {"queued": len(self._queue)}
            case ("GET", "/__requests"):
                reply = {
                    "requests": [received.summary for received in self.requests],
                    "problems": self.problems,
                    "queued": len(self._queue),
                    "now": time.monotonic(),
                }
            case ("POST", "/__reset"):
                self.reset()
                reply = {"queued": 0}
            case _:
                await connection.send_json(404, {"error": "no such control"})
                return
        await connection.send_json(200, reply)


async def _run(*, port: int, script: Path | None) -> None:
    server = ModelServer()
    if script is not None:
        items = json.loads(script.read_text("utf-8"))
        server.add(*(from_json(item) for item in items))
    await server.start(port=port)
    print(f"model server listening on http://127.0.0.1:{server.port}", flush=True)  # noqa: T201
    await asyncio.Event().wait()


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="A scripted model server for tests.")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one")
    parser.add_argument("--script", type=Path, help="a JSON list of scripted answers")
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_run(port=options.port, script=options.script))


if __name__ == "__main__":
    main()
