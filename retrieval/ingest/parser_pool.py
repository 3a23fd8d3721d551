"""Warm parser processes and their keeper.

Promises: a file that hangs, crashes or eats memory costs that file only; its process is killed and
the next file gets a new one. Processes are shared by threads, never across a fork, and end with
the process that started them.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import retrieval
from retrieval.ingest.archive import Entry, Refused
from retrieval.ingest.contract import ArchiveFound, Draft, FileToParse, ParseFailure
from retrieval.ingest.parser_process import LENGTH

logger = logging.getLogger(__name__)

MEMORY_BYTES = 1536 * 1024 * 1024
FILES_PER_PROCESS = 200
_LONGEST_ANSWER = 512 * 1024 * 1024
_STARTUP_SECONDS = 10.0
_BROKEN = "This file can't be read: reading it failed."
_ROOT = Path(next(iter(retrieval.__path__))).resolve().parent


class _ProcessEnded(Exception):
    """The parser process ended before its answer was complete."""


class WarmParser:
    """One parser process, started when first needed and replaced after a breach or 200 files.

    Not for several threads at once; `ParserPool` sees to that.
    """

    def __init__(
        self, *, memory_bytes: int = MEMORY_BYTES, files_per_process: int = FILES_PER_PROCESS
    ) -> None:
        self._memory_bytes = memory_bytes
        self._files_per_process = files_per_process
        self._process: subprocess.Popen[bytes] | None = None
        self._files = 0

    @property
    def pid(self) -> int | None:
        """The running process, for whoever watches it."""
        return self._process.pid if self._process is not None else None

    def parse(self, file: FileToParse) -> Draft:
        """Have `file` read.

        Raises:
            ArchiveFound: it holds files; `unpack` gives them.
            ParseFailure: what the reader said, or timed_out, too_large, corrupt when the process
                broke a limit or crashed.
        """
        answer = self._understand(next(self._talk(file, unpack=False)))
        if "draft" in answer:
            return Draft.from_json(answer["draft"])
        raise ArchiveFound

    def unpack(self, file: FileToParse) -> Iterator[Entry | Refused]:
        """Have an archive unpacked, one file at a time. Raises ParseFailure as `parse` does."""
        frames = self._talk(file, unpack=True)
        is_done = False
        try:
            for frame in frames:
                answer = self._understand(frame)
                if "entry" in answer:
                    yield Entry(answer["entry"], next(frames))
                elif "refused" in answer:
                    yield Refused(*answer["refused"])
                else:
                    is_done = True
                    return
        except ParseFailure:
            is_done = True
            raise
        finally:
            if not is_done:
                # Its next frames would be taken for answers to another request.
                self.close()

    def _talk(self, file: FileToParse, *, unpack: bool) -> Iterator[bytes]:
        """Ask, and give the answer's frames. The clock runs only while one is waited for."""
        seconds = file.limits.seconds + (_STARTUP_SECONDS if self._ready() else 0.0)
        process = self._process
        if process is None:
            raise _ProcessEnded
        self._files += 1
        with self._watched(process, file, seconds):
            _ask(process, file, unpack=unpack)
            frame = _read_frame(process)
        while True:
            yield frame
            with self._watched(process, file, file.limits.seconds):
                frame = _read_frame(process)

    @contextmanager
    def _watched(
        self, process: subprocess.Popen[bytes], file: FileToParse, seconds: float
    ) -> Iterator[None]:
        """Kill the process when the block takes longer; what broke it becomes a ParseFailure."""
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            process.kill()

        watch = threading.Timer(seconds, end)
        watch.daemon = True
        watch.start()
        try:
            yield
        except (_ProcessEnded, OSError) as error:
            self.close()
            logger.warning("parser process ended on a %s file: %s", file.kind, process.returncode)
            if is_late.is_set():
                raise ParseFailure(
                    "timed_out",
                    f"Reading this file took longer than {file.limits.seconds:g} seconds.",
                ) from error
            raise ParseFailure("corrupt", _BROKEN) from error
        finally:
            watch.cancel()

    def close(self) -> None:
        """End the process at once. The next `parse` starts another."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                # What couldn't be written to a dead process may stay unwritten.
                try:
                    stream.close()
                except OSError:
                    continue

    def _ready(self) -> bool:
        """Make sure that a process runs; True if it was started just now."""
        if (
            self._process is not None
            and self._process.poll() is None
            and self._files < self._files_per_process
        ):
            return False
        self.close()
        self._process = _spawner().start(self._memory_bytes)
        self._files = 0
        return True

    def _understand(self, frame: bytes) -> dict[str, Any]:
        """What the process said; whatever isn't an answer means that the file broke it."""
        try:
            said: dict[str, Any] = json.loads(frame)
            if "failure" in said:
                code, message = said["failure"]
                raise ParseFailure(code, message)
            is_breach = "breach" in said
        except (ValueError, KeyError, TypeError) as error:
            self.close()
            raise ParseFailure("corrupt", _BROKEN) from error
        if is_breach:
            self.close()
            raise ParseFailure(
                "too_large",
                "Reading this file needs more memory than is allowed. Split it and try again.",
            )
        return said


class ParserPool:
    """A fixed number of warm parsers for all threads of this process; a thread waits until one is
    free."""

    def __init__(self, *, size: int = 1, memory_bytes: int = MEMORY_BYTES) -> None:
        self._all = [WarmParser(memory_bytes=memory_bytes) for _ in range(size)]
        self._free: queue.LifoQueue[WarmParser] = queue.LifoQueue()
        for parser in self._all:
            self._free.put(parser)

    def parse(self, file: FileToParse) -> Draft:
        """See `WarmParser.parse`."""
        parser = self._free.get()
        try:
            return parser.parse(file)
        finally:
            self._free.put(parser)

    def unpack(self, file: FileToParse) -> Iterator[Entry | Refused]:
        """See `WarmParser.unpack`. Holds a parser until it is used up or closed."""
        parser = self._free.get()
        try:
            yield from parser.unpack(file)
        finally:
            self._free.put(parser)

    def close(self) -> None:
        """End all processes. The pool stays usable."""
        for parser in self._all:
            parser.close()


class _Spawner:
    """Starts processes from one thread that lives as long as this process.

    The kernel's "die with your parent" means the *thread* that started the child; a request thread
    ends soon.
    """

    def __init__(self) -> None:
        self._wishes: queue.SimpleQueue[
            tuple[int, queue.SimpleQueue[subprocess.Popen[bytes] | OSError]]
        ]
        self._wishes = queue.SimpleQueue()
        threading.Thread(target=self._run, name="parser-spawner", daemon=True).start()

    def start(self, memory_bytes: int) -> subprocess.Popen[bytes]:
        answer: queue.SimpleQueue[subprocess.Popen[bytes] | OSError] = queue.SimpleQueue()
        self._wishes.put((memory_bytes, answer))
        started = answer.get()
        if isinstance(started, OSError):
            raise started
        return started

    def _run(self) -> None:
        while True:
            memory_bytes, answer = self._wishes.get()
            try:
                answer.put(_start_process(memory_bytes))
            except OSError as error:
                answer.put(error)


def _start_process(memory_bytes: int) -> subprocess.Popen[bytes]:
    module = "retrieval.ingest.parser_process"
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-B", "-s", "-m", module, str(os.getpid()), str(memory_bytes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment(),
        cwd=_ROOT,
    )


def _environment() -> dict[str, str]:
    """All that the process gets to know of ours."""
    return {"PATH": os.environ.get("PATH", os.defpath)}


def _ask(process: subprocess.Popen[bytes], file: FileToParse, *, unpack: bool) -> None:
    header = {
        "kind": file.kind,
        "name": file.name,
        "charset": file.charset,
        "limits": asdict(file.limits),
        "unpack": unpack,
    }
    if process.stdin is None:
        raise _ProcessEnded
    head = json.dumps(header).encode()
    process.stdin.write(LENGTH.pack(len(head)) + head + LENGTH.pack(len(file.data)))
    process.stdin.write(file.data)
    process.stdin.flush()


def _read_frame(process: subprocess.Popen[bytes]) -> bytes:
    (length,) = LENGTH.unpack(_read_exactly(process, LENGTH.size))
    if length > _LONGEST_ANSWER:
        raise _ProcessEnded
    return _read_exactly(process, length)


def _read_exactly(process: subprocess.Popen[bytes], length: int) -> bytes:
    data = process.stdout.read(length) if process.stdout is not None else b""
    if len(data) < length:
        raise _ProcessEnded
    return data


@cache
def _spawner() -> _Spawner:
    return _Spawner()


@cache
def parser_pool() -> ParserPool:
    """The pool of this process. After a fork the child gets its own."""
    pool = ParserPool()
    atexit.register(pool.close)
    return pool


def _forget_inherited() -> None:
    """A forked child shares its parent's pipes, so it must not use them."""
    reset: tuple[Callable[[], None], ...] = (_spawner.cache_clear, parser_pool.cache_clear)
    for clear in reset:
        clear()


os.register_at_fork(after_in_child=_forget_inherited)
