"""A look at a Git pack before anything unpacks it.

Promises: a pack whose objects would unfold to more than their limits is refused while only its
compressed form was held; the size of an object is told without unpacking it.
"""

from __future__ import annotations

import mmap
import zlib
from pathlib import Path
from typing import BinaryIO

from retrieval.connectors.contract import ConnectorError

LARGEST_OBJECT = 128 * 1024 * 1024
MOST_OBJECTS = 500_000

_SLICE = 64 * 1024
_DELTA_HEAD = 20
_OFFSET_DELTA, _NAME_DELTA = 6, 7
_NAME_BYTES = 20
_TRAILER = 20


def check_pack(file: BinaryIO, *, most_bytes: int) -> None:
    """Raises ConnectorError when the pack is damaged or its unpacked size passes the limits."""
    file.flush()
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pack, memoryview(pack) as view:
        count = int.from_bytes(view[8:12])
        if bytes(view[:4]) != b"PACK":
            raise _damaged()
        if count > MOST_OBJECTS:
            raise ConnectorError(
                f"The repository holds {count} objects, more than the {MOST_OBJECTS} that can be "
                "read. Choose a shorter history.",
                retry=False,
            )
        position, total = 12, 0
        for _object in range(count):
            size, position = _measure(view, position)
            total += size
            if size > LARGEST_OBJECT or total > most_bytes:
                raise ConnectorError(
                    "The repository unpacks to more than can be read here.", retry=False
                )
        if position + _TRAILER != len(view):
            raise _damaged()


def read_size(pack: Path, offset: int) -> int:
    """How many bytes the object at an offset of a checked pack unfolds to."""
    with pack.open("rb") as file:
        file.seek(offset)
        head = file.read(_SLICE)
    kind, size, position = _read_header(memoryview(head), 0)
    if kind not in (_OFFSET_DELTA, _NAME_DELTA):
        return size
    return _result_size(zlib.decompressobj().decompress(head[position:], _DELTA_HEAD))


def _measure(view: memoryview, position: int) -> tuple[int, int]:
    """The unfolded size of the object at a position, and where the next one starts."""
    kind, declared, position = _read_header(view, position)
    if declared > LARGEST_OBJECT:
        return declared, position
    stream = zlib.decompressobj()
    head, done = b"", 0
    pending = b""
    while not stream.eof:
        if not pending:
            # A copy: a slice that outlives an exception would keep the map from being closed.
            pending = bytes(view[position : position + _SLICE])
            position += len(pending)
            if not pending:
                raise _damaged()
        try:
            piece = stream.decompress(pending, _SLICE)
        except zlib.error as error:
            raise _damaged() from error
        pending = stream.unconsumed_tail
        head += piece[: _DELTA_HEAD - len(head)]
        done += len(piece)
        if done > declared:
            raise _damaged()
    if done != declared:
        raise _damaged()
    is_delta = kind in (_OFFSET_DELTA, _NAME_DELTA)
    return max(done, _result_size(head) if is_delta else 0), position - len(stream.unused_data)


def _read_header(view: memoryview, position: int) -> tuple[int, int, int]:
    """Kind, declared size and the start of the compressed bytes."""
    byte, position = _byte(view, position)
    kind, size, shift = (byte >> 4) & 7, byte & 15, 4
    while byte & 0x80:
        byte, position = _byte(view, position)
        size |= (byte & 0x7F) << shift
        shift += 7
    if kind == _NAME_DELTA:
        position += _NAME_BYTES
    elif kind == _OFFSET_DELTA:
        byte, position = _byte(view, position)
        while byte & 0x80:
            byte, position = _byte(view, position)
    return kind, size, position


def _result_size(delta: bytes) -> int:
    """What applying a delta gives: its second number, after the size of its base."""
    view, position, size = memoryview(delta), 0, 0
    for _number in range(2):
        size, shift, byte = 0, 0, 0x80
        while byte & 0x80:
            byte, position = _byte(view, position)
            size |= (byte & 0x7F) << shift
            shift += 7
    return size


def _byte(view: memoryview, position: int) -> tuple[int, int]:
    if position >= len(view):
        raise _damaged()
    return view[position], position + 1


def _damaged() -> ConnectorError:
    return ConnectorError("The Git server sent something that can't be read.")
