"""Archives for tests, well-made and hostile ones."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Mapping


def zipped(entries: Mapping[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip file of these paths."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for path, data in entries.items():
            archive.writestr(zipfile.ZipInfo(path), data, method)
    return stream.getvalue()


def zip_with_link() -> bytes:
    """A zip file with a file and a symbolic link to a system's file."""
    link = zipfile.ZipInfo("link.txt")
    link.create_system = 3
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("plain.txt", b"Plain words.")
        archive.writestr(link, b"/etc/passwd")
    return stream.getvalue()


def zip_with_password() -> bytes:
    """A zip file that says of its second entry that it is encrypted."""
    data = bytearray(zipped({"open.txt": b"Open words.", "shut.txt": b"Shut words."}))
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.index(mark, data.index(mark) + 4)
        data[at + flags] |= 1
    return bytes(data)


def zip_with_false_size(size: int) -> bytes:
    """A zip file whose directory gives its one entry another size than it has."""
    data = bytearray(zipped({"a.txt": b"Some words. " * 50}))
    for mark, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = data.index(mark)
        data[at + place : at + place + 4] = size.to_bytes(4, "little")
    return bytes(data)


def tarred(entries: Mapping[str, bytes], *more: tarfile.TarInfo) -> bytes:
    """A tar file of these paths, and of entries without content."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path, data in entries.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        for member in more:
            archive.addfile(member)
    return stream.getvalue()


def tar_member(path: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """An entry that isn't a plain file."""
    member = tarfile.TarInfo(path)
    member.type, member.linkname = kind, target
    return member


def gzipped(data: bytes) -> bytes:
    """`data`, compressed."""
    return gzip.compress(data, mtime=0)


def gzip_bomb(megabytes: int) -> bytes:
    """A gzipped tar file whose one entry is zeros."""
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as packed:
        member = tarfile.TarInfo("zeros.txt")
        member.size = megabytes * 1024 * 1024
        packed.write(member.tobuf())
        for _ in range(megabytes):
            packed.write(bytes(1024 * 1024))
    return stream.getvalue()
