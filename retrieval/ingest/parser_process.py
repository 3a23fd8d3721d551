"""The parser process: reads one file after another from its input, in strict limits, and answers
on its output.

Started as `python -m retrieval.ingest.parser_process MEMORY_BYTES` by `parser_pool`, with an empty
environment. No Django, no network, no file writes. A frame is a length (4 bytes, big-endian) and
that many bytes; a request is a JSON frame and a frame of file bytes. The answer is one JSON frame;
to unpack an archive, one for each entry (with a frame of bytes after each that was taken) and one
at the end.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, BinaryIO

from retrieval.ingest.archive import Entry, unpack
from retrieval.ingest.contract import (
    ArchiveFound,
    Draft,
    FileToParse,
    ParseFailure,
    ParseLimits,
)

LENGTH = struct.Struct(">I")
_PR_SET_PDEATHSIG = 1
# Reader per kind: module beside this one and function in it.
_READERS = {
    "markdown": ("formats.markdown", "read"),
    "text": ("formats.text", "read"),
    "html": ("formats.html", "read"),
    "csv": ("formats.csv", "read"),
    "email": ("formats.email", "read"),
    "pdf": ("formats.pdf", "read"),
    "zip": ("formats.office", "read_zip"),
    "ole": ("formats.office", "read_ole"),
    "tar": ("archive", "read_tar"),
    "gzip": ("archive", "read_gzip"),
}


def read_file(file: FileToParse) -> Draft:
    """Run the reader for this kind of file, here and now.

    Raises:
        ArchiveFound: it holds files, which are documents of their own.
        ParseFailure: the file gives no document.
    """
    module_name, function = _READERS[file.kind]
    module = import_module(f"retrieval.ingest.{module_name}")
    draft: Draft = getattr(module, function)(file)
    return draft


def main() -> int:
    """Serve until the input ends. Returns the exit code."""
    parent, memory_bytes = int(sys.argv[1]), int(sys.argv[2])
    _die_with(parent)
    requests, answers = _take_over_streams()
    _limit_resources(memory_bytes)
    # openpyxl imports numpy when it finds it, which costs time and address space and gives nothing
    # here.
    sys.modules["numpy"] = None  # type: ignore[assignment]
    while (header := _read_frame(requests)) is not None:
        data = _read_frame(requests)
        if data is None:
            break
        for answer in _answers(json.loads(header), data):
            answers.write(LENGTH.pack(len(answer)) + answer)
            answers.flush()
    return 0


def _answers(request: dict[str, Any], data: bytes) -> Iterator[bytes]:
    limits = ParseLimits(**request["limits"])
    _allow_cpu_seconds(limits.seconds)
    if limits.ocr and sys.modules.get("numpy", sys) is None:
        # An engine may need it.
        del sys.modules["numpy"]
    file = FileToParse(data, request["kind"], request["name"], request["charset"], limits)
    try:
        if request["unpack"]:
            yield from _unpacked(file)
            yield json.dumps({"end": True}).encode()
        else:
            yield json.dumps({"draft": read_file(file).as_json()}).encode()
    except ArchiveFound:
        yield json.dumps({"archive": True}).encode()
    except ParseFailure as failure:
        yield json.dumps({"failure": [failure.code, failure.message]}).encode()
    except MemoryError:
        # The parent replaces this process: what is left of its memory can't be trusted to be
        # enough.
        yield json.dumps({"breach": "memory"}).encode()


def _unpacked(file: FileToParse) -> Iterator[bytes]:
    for found in unpack(file):
        if isinstance(found, Entry):
            yield json.dumps({"entry": found.path}).encode()
            yield found.data
        else:
            yield json.dumps({"refused": [found.path, found.reason]}).encode()


def _die_with(parent: int) -> None:
    """Ask the kernel to kill this process when the thread that started it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        # It ended before the kernel was asked.
        sys.exit(1)


def _take_over_streams() -> tuple[BinaryIO, BinaryIO]:
    """Private copies of input and output, so that a library that prints can't break a frame."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    return requests, answers


def _limit_resources(memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _allow_cpu_seconds(seconds: float) -> None:
    """Processor time counts from the start of the process, so each file gets its share on top of
    what was used."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used = usage.ru_utime + usage.ru_stime
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + seconds) + 2, hard))


def _read_frame(stream: BinaryIO) -> bytes | None:
    """The next frame, or None at the end of the input."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    body = stream.read(length)
    return body if len(body) == length else None


if __name__ == "__main__":
    sys.exit(main())
