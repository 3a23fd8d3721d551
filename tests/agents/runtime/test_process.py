"""The real process: started as the supervisor does, with nothing in its environment."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agents.runtime.protocol import Finish, Goodbye, ModelRequest
from tests.agents.runtime.bridge import Bridge, says
from tests.agents.runtime.starts import start

ROOT = Path(__file__).resolve().parents[3]
TOKEN = "canary-token-5d1c"
BARE = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
Process = asyncio.subprocess.Process


@asynccontextmanager
async def runtime(*arguments: str, token: str = TOKEN) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "agents.runtime",
        *arguments,
        cwd=ROOT,
        env=BARE,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(f"{token}\n".encode())
    process.stdin.close()
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def ended(process: Process) -> tuple[int | None, str]:
    """Exit code and log of a process that must end by itself, having printed nothing."""
    stdout, stderr = await asyncio.wait_for(process.communicate(), 20)
    assert stdout == b""
    return process.returncode, stderr.decode()


async def test_sigterm_ends_the_process_after_its_run_with_code_0() -> None:
    async with Bridge() as bridge, runtime("--backend", bridge.url, "--capacity", "2") as process:
        line = await bridge.line()
        hello = await line.welcome()
        assert hello.capacity == 2
        assert line.headers["Authorization"] == f"Bearer {TOKEN}"
        await line.send(start())
        request = await line.next(ModelRequest)
        process.send_signal(signal.SIGTERM)
        await line.next(Goodbye)
        await line.send(says(request, "canary-text-77aa"))
        assert (await line.next(Finish)).outcome == "answered"
        code, log = await ended(process)
    assert code == 0
    assert "run run-1 ended: answered (end) after 1 model calls" in log
    for secret in (TOKEN, "canary-text", "lease-run-1", "Traceback"):
        assert secret not in log


async def test_the_token_is_neither_in_the_environment_nor_in_the_arguments() -> None:
    async with Bridge() as bridge, runtime("--backend", bridge.url) as process:
        await (await bridge.line()).welcome()
        of_process = Path(f"/proc/{process.pid}")
        if not of_process.exists():
            pytest.skip("there is no /proc here")
        environment = (of_process / "environ").read_bytes()
        names = {entry.partition(b"=")[0] for entry in environment.split(b"\0") if entry}
        assert names <= {b"PATH", b"LANG", b"LC_CTYPE"}
        assert TOKEN.encode() not in (of_process / "cmdline").read_bytes()
        process.send_signal(signal.SIGTERM)
        assert (await ended(process))[0] == 0


async def test_sigint_while_the_backend_is_away_ends_with_code_0() -> None:
    async with runtime("--backend", "ws://127.0.0.1:9/bridge/") as process:
        assert process.stderr is not None
        first = await asyncio.wait_for(process.stderr.readline(), 20)
        assert b"no connection to the backend: ConnectionRefusedError" in first
        process.send_signal(signal.SIGINT)
        code, log = await ended(process)
    assert code == 0
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("arguments", "token", "reason"),
    [
        (["--backend", "ws://127.0.0.1:9/"], "", "the connection token must come as one line"),
        (["--backend", "ws://127.0.0.1:9/"], "two words", "the connection token must come as"),
        (["--backend", "http://127.0.0.1:9/"], TOKEN, "a ws:// or wss:// address"),
        (["--backend", "ws://me:word@127.0.0.1:9/"], TOKEN, "without credentials is needed"),
        (["--backend", "ws://127.0.0.1:9/", "--capacity", "0"], TOKEN, "between 1 and 1000"),
        ([], TOKEN, "the following arguments are required: --backend"),
    ],
)
async def test_a_wrong_start_is_one_plain_message_and_code_2(
    arguments: list[str], token: str, reason: str
) -> None:
    async with runtime(*arguments, token=token) as process:
        code, log = await ended(process)
    assert code == 2
    assert reason in log
    assert "Traceback" not in log
    assert TOKEN not in log
