"""Archives taken apart, inside the parser process: zip, tar and gzipped tar.

Promises: sizes are checked before anything is unpacked and again while it is; nothing touches a
file system; a path that leads outside, a link, a device, an encrypted or a nested archive is
refused by itself, with a sentence, and stops nothing else. Not for: storing what was found
(`retrieval.archives`).
"""

from __future__ import annotations

import gzip
import io
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from kaizen.kernel.errors import Invalid
from kaizen.kernel.text import make_storable, shown_file_name
from retrieval.ingest.charset import decode
from retrieval.ingest.contract import ArchiveFound, Draft, FileToParse, ParseFailure, ParseLimits
from retrieval.ingest.formats.package import is_archive
from retrieval.ingest.sniff import READABLE, find_kind, looks_like_tar

MEDIA_TYPES = {"zip": "application/zip", "tar": "application/x-tar", "gzip": "application/gzip"}
LONGEST_PATH = 700
# Below this, a high ratio is harmless and common.
_RATIO_MATTERS_FROM = 4 * 1024 * 1024
_DRIVE = re.compile(r"[A-Za-z]:")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
# What operating systems leave in archives beside the files that people put there.
_LITTER = re.compile(r"(?:^|/)(?:__MACOSX/.*|\._[^/]*|\.DS_Store|Thumbs\.db|desktop\.ini)$", re.I)
_DAMAGED = "This archive is damaged and can't be unpacked."
_UNPACKED = "This file is too large when unpacked, far beyond its size on disk. It wasn't read."
_ENTRY_DAMAGES = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    ValueError,
    RuntimeError,
    OSError,
)
# What the standard library lets escape for damaged archives; its errors for gzip are OSErrors.
_DAMAGES = (*_ENTRY_DAMAGES, tarfile.TarError, KeyError, IndexError, OverflowError)


@dataclass(frozen=True, slots=True)
class Entry:
    """A file that was inside, under its cleaned path."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """A file that stays inside, and the sentence why."""

    path: str
    reason: str


class _Leave(Exception):
    """One entry can't be taken; its argument is the sentence why."""


def read_tar(file: FileToParse) -> Draft:
    """Raises ArchiveFound: a tar file is nothing else."""
    raise ArchiveFound


def read_gzip(file: FileToParse) -> Draft:
    """Raises ArchiveFound when what is compressed is a tar file, else ParseFailure."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(file.data)) as stream:
            head = stream.read(512)
    except _DAMAGES as error:
        raise ParseFailure("corrupt", _DAMAGED) from error
    if looks_like_tar(head):
        raise ArchiveFound
    raise ParseFailure(
        "unsupported",
        "This file is a compressed file, which can't be read. Unpack it and upload what is inside.",
    )


def unpack(file: FileToParse) -> Iterator[Entry | Refused]:
    """What an archive holds, in its order, each path once.

    Raises:
        ParseFailure: too_large_unpacked or corrupt for the whole. Limits are checked before the
        first entry is given.
    """
    walk = _unpack_zip if file.kind == "zip" else _unpack_tar
    seen: set[str] = set()
    try:
        for found in walk(file):
            if found.path in seen:
                found = Refused(found.path, "The archive holds this path twice.")
            seen.add(found.path)
            yield found
    except _DAMAGES as error:
        raise ParseFailure("corrupt", _DAMAGED) from error


def _unpack_zip(file: FileToParse) -> Iterator[Entry | Refused]:
    if not is_archive(file.data, file.limits):
        raise ParseFailure("unsupported", "This file isn't an archive.")
    with zipfile.ZipFile(io.BytesIO(file.data)) as archive:
        members = [
            (member, name)
            for member in archive.infolist()
            if not member.is_dir() and not _LITTER.search(name := _zip_name(member))
        ]
        _check_count(len(members), file.limits)
        _check_total(sum(member.file_size for member, _ in members), len(file.data), file.limits)
        for member, _ in members:
            if _inflates(member.file_size, member.compress_size, file.limits):
                raise ParseFailure("too_large_unpacked", _UNPACKED)
        for member, name in members:
            try:
                yield _taken(name, _zip_data(archive, member, file.limits), file.limits)
            except _Leave as reason:
                yield Refused(_shown(name), str(reason))


def _zip_name(member: zipfile.ZipInfo) -> str:
    """The entry's name; old archives write it in the code page of their maker's machine."""
    if member.flag_bits & 0x800:
        return member.filename
    try:
        return decode(member.orig_filename.encode("cp437")).text
    except UnicodeEncodeError:
        return member.filename


def _zip_data(archive: zipfile.ZipFile, member: zipfile.ZipInfo, limits: ParseLimits) -> bytes:
    """The bytes of one entry. Raises _Leave."""
    kind = stat.S_IFMT(member.external_attr >> 16)
    if member.create_system == 3 and kind not in (0, stat.S_IFREG):
        raise _Leave("It is a link or a device, not a file.")
    if member.flag_bits & 0x1:
        raise _Leave("It is protected by a password.")
    _check_entry_size(member.file_size, limits)
    try:
        with archive.open(member) as stream:
            return _read_at_most(stream, limits.max_bytes)
    except _ENTRY_DAMAGES:
        raise _Leave("It is damaged.") from None


def _unpack_tar(file: FileToParse) -> Iterator[Entry | Refused]:
    # Once to measure, since a stream says how large it is only at its end.
    count = 0
    for member, _ in _tar_members(file):
        count += member.isreg()
        _check_count(count, file.limits)
    for member, stream in _tar_members(file):
        name = member.name
        if member.isdir() or _LITTER.search(name):
            continue
        try:
            yield _taken(name, _tar_data(member, stream, file.limits), file.limits)
        except _Leave as reason:
            yield Refused(_shown(name), str(reason))


def _tar_members(file: FileToParse) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    raw: IO[bytes] | gzip.GzipFile = io.BytesIO(file.data)
    if file.kind == "gzip":
        raw = gzip.GzipFile(fileobj=raw)
    counted = _Counted(raw, len(file.data), file.limits)
    with tarfile.open(fileobj=counted, mode="r|") as archive:
        for member in archive:
            is_plain = member.isreg() and member.sparse is None
            yield member, archive.extractfile(member) if is_plain else None
            # A stream never goes back, so what is remembered of it is only weight.
            archive.members = []  # type: ignore[attr-defined]


def _tar_data(member: tarfile.TarInfo, stream: IO[bytes] | None, limits: ParseLimits) -> bytes:
    if stream is None:
        raise _Leave("It is a link or a device, not a file.")
    _check_entry_size(member.size, limits)
    data = _read_at_most(stream, limits.max_bytes)
    if len(data) < member.size:
        raise _Leave("It is damaged.")
    return data


class _Counted(io.RawIOBase):
    """Reads on, as long as what was read stays within the limits of a file unpacked."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, packed: int, limits: ParseLimits) -> None:
        self._stream = stream
        self._packed = packed
        self._limits = limits
        self._size = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._size += len(data)
        _check_total(self._size, self._packed, self._limits)
        return data


def _check_count(count: int, limits: ParseLimits) -> None:
    if count > limits.max_files:
        raise ParseFailure(
            "too_large_unpacked",
            f"This archive holds more than {limits.max_files:,} files. Split it and upload the "
            "parts.",
        )


def _check_total(size: int, packed: int, limits: ParseLimits) -> None:
    if size > limits.max_unpacked_bytes or _inflates(size, packed, limits):
        raise ParseFailure("too_large_unpacked", _UNPACKED)


def _inflates(size: int, packed: int, limits: ParseLimits) -> bool:
    return size > _RATIO_MATTERS_FROM and size > limits.max_ratio * packed


def _check_entry_size(size: int, limits: ParseLimits) -> None:
    if size > limits.max_bytes:
        raise _Leave(f"It is larger than {limits.max_bytes // (1024 * 1024)} MB.")


def _read_at_most(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size + 1)
    if len(data) > size:
        raise _Leave("It is larger than it says.")
    return data


def _taken(name: str, data: bytes, limits: ParseLimits) -> Entry:
    """The entry under its cleaned path. Raises _Leave when no reader could make anything of it."""
    path = _clean_path(name)
    if not data.strip(b" \t\r\n\x0b\x0c\x00"):
        raise _Leave("It is empty.")
    try:
        kind = find_kind(data, name=path, media_type=None)
        if kind in ("tar", "gzip") or (kind == "zip" and is_archive(data, limits)):
            raise _Leave("It is an archive inside an archive. Unpack it and upload it by itself.")
    except ParseFailure as failure:
        raise _Leave(failure.message.removesuffix(f" {READABLE}.")) from None
    return Entry(path, data)


def _clean_path(name: str) -> str:
    """The path inside the archive, with slashes. Raises _Leave for one that leads elsewhere."""
    text = make_storable(name).text.replace("\\", "/")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if text.startswith("/") or _DRIVE.match(text) or ".." in (part.strip() for part in parts):
        raise _Leave("Its path leads outside of the archive.")
    try:
        shown = [shown_file_name(part) for part in parts]
    except Invalid:
        raise _Leave("It has no name.") from None
    path = "/".join(shown)
    if not path:
        raise _Leave("It has no name.")
    if len(path) > LONGEST_PATH:
        raise _Leave("Its path is too long.")
    return path


def _shown(name: str) -> str:
    """A path as it may be shown in a sentence."""
    return _CONTROLS.sub("", make_storable(name).text)[:200] or "(no name)"
