"""The two places that the folder connector reads from, through Django's storage API.

Promises: of a folder nothing outside of it is ever opened, whatever links are laid while it is
read; a bucket is asked through the one door out, with the keys of its own configuration and no
others. Both list in one fixed order, so that a listing can go on after any name.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from botocore.awsrequest import AWSPreparedRequest, AWSResponse  # type: ignore[import-untyped]
from botocore.config import Config as ClientConfig  # type: ignore[import-untyped]
from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]
from django.conf import settings
from django.core.files.base import File
from django.core.files.storage import FileSystemStorage
from storages.backends.s3 import S3Storage

from kaizen.kernel import egress
from kaizen.kernel.errors import Invalid, KaizenError, TooLarge
from retrieval.connectors.contract import ConnectorError

# What the other side calls refusals that pass.
_PASSING = frozenset({"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "503"})
# A name that has become a link is no file any more.
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_LISTING_BYTES = 16 * 1024 * 1024
_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Stat:
    """One file: its name below the place's prefix, what tells its states apart, size and date."""

    name: str
    revision: str
    size: int
    modified: datetime


class Store(Protocol):
    """Where files lie."""

    def list_files(self, prefix: str, *, after: str) -> Iterator[Stat]:
        """Files below `prefix` whose names come after `after`. Raises ConnectorError."""
        ...

    def read(self, name: str, *, limit: int) -> bytes | None:
        """At most `limit` + 1 bytes of a file, None when it is gone. Raises ConnectorError."""
        ...


class NoLinksStorage(FileSystemStorage):
    """A folder in which links lead nowhere: each step of a path is opened without following one."""

    def _open(self, name: str, mode: str = "rb") -> File[bytes]:
        handle = self._descend(name)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return File(os.fdopen(handle, "rb"), name)

    def listdir(self, path: str) -> tuple[list[str], list[str]]:
        """Folders and files, links and everything special left out."""
        handle = self._descend(path, folder=True)
        try:
            with os.scandir(handle) as entries:
                found = list(entries)
                folders = [item.name for item in found if item.is_dir(follow_symlinks=False)]
                files = [item.name for item in found if item.is_file(follow_symlinks=False)]
        finally:
            os.close(handle)
        return sorted(folders, key=os.fsencode), sorted(files, key=os.fsencode)

    def stat(self, name: str) -> os.stat_result:
        """Size and dates of a file, through no link."""
        handle = self._descend(name)
        try:
            return os.fstat(handle)
        finally:
            os.close(handle)

    def _descend(self, name: str, *, folder: bool = False) -> int:
        parts = [part for part in name.split("/") if part]
        if ".." in parts or "." in parts:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        handle = os.open(self.location, os.O_RDONLY | os.O_DIRECTORY)
        for number, part in enumerate(parts):
            is_last = number == len(parts) - 1
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            if folder or not is_last:
                flags |= os.O_DIRECTORY
            try:
                below = os.open(part, flags, dir_fd=handle)
            finally:
                os.close(handle)
            handle = below
        return handle


class FolderStore:
    """A folder of this machine, below one that the operator allowed."""

    def __init__(self, root: str) -> None:
        self._storage = NoLinksStorage(location=allowed_root(root))

    def list_files(self, prefix: str, *, after: str) -> Iterator[Stat]:
        """Files in the order of their names' parts."""
        try:
            yield from self._walk(prefix.strip("/"), "", os.fsencode(after).split(b"/"))
        except OSError as error:
            raise ConnectorError(f"The folder can't be read: {error.strerror}.") from error

    def _walk(self, prefix: str, below: str, after: list[bytes]) -> Iterator[Stat]:
        path = "/".join(part for part in (prefix, below) if part)
        folders, files = self._storage.listdir(path)
        for name in sorted([*folders, *files], key=os.fsencode):
            inner = f"{below}/{name}" if below else name
            parts = os.fsencode(inner).split(b"/")
            if name in folders:
                if parts >= after[: len(parts)]:
                    yield from self._walk(prefix, inner, after)
            elif parts > after:
                found = self._stat(f"{prefix}/{inner}" if prefix else inner)
                if found is not None:
                    yield Stat(
                        name=inner,
                        revision=f"{found.st_size}-{found.st_mtime_ns}",
                        size=found.st_size,
                        modified=datetime.fromtimestamp(found.st_mtime, tz=UTC),
                    )

    def _stat(self, name: str) -> os.stat_result | None:
        try:
            return self._storage.stat(name)
        except (FileNotFoundError, PermissionError):
            return None

    def read(self, name: str, *, limit: int) -> bytes | None:
        """The bytes of a regular file below the folder."""
        try:
            with self._storage.open(name, "rb") as file:
                return bytes(file.read(limit + 1))
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise ConnectorError(f"The file can't be read: {error.strerror}.") from error


def allowed_root(root: str) -> str:
    """The real path of a folder, if it is, or lies below, one of KAIZEN_FOLDER_ROOTS.

    Raises ConnectorError otherwise, in the same words whether the folder exists or not.
    """
    real = Path(root).resolve()
    allowed = [Path(path).resolve() for path in settings.KAIZEN_FOLDER_ROOTS]
    if not any(real == path or path in real.parents for path in allowed):
        raise ConnectorError(
            "This folder isn't below one that the operator allows (KAIZEN_FOLDER_ROOTS).",
            retry=False,
        )
    if not real.is_dir():
        raise ConnectorError("There is no such folder.", retry=True)
    return str(real)


class BucketStore:
    """A bucket of an S3-compatible object store."""

    def __init__(
        self, *, bucket: str, endpoint: str, region: str, access_key: str, secret_key: str
    ) -> None:
        self._storage = S3Storage(
            bucket_name=bucket,
            endpoint_url=endpoint or None,
            region_name=region or "us-east-1",
            access_key=access_key,
            secret_key=secret_key,
            # Never the operator's own, which may stand in the environment.
            security_token=None,
            session_profile=None,
            client_config=ClientConfig(
                signature_version="s3v4",
                s3={"addressing_style": "path" if endpoint else "auto"},
                retries={"total_max_attempts": 2},
                ignore_configured_endpoint_urls=True,
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
        events = self._storage.connection.meta.client.meta.events
        events.register("before-send.s3", _send)

    def list_files(self, prefix: str, *, after: str) -> Iterator[Stat]:
        """Objects in the order of their keys."""
        place = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        chosen = {"Prefix": place, **({"Marker": f"{place}{after}"} if after else {})}
        with _explained():
            for found in self._storage.bucket.objects.filter(**chosen):
                if not found.key.endswith("/"):
                    yield Stat(
                        name=found.key.removeprefix(place),
                        revision=f"{found.size}-{found.e_tag.strip(chr(34))}",
                        size=found.size,
                        modified=found.last_modified,
                    )

    def read(self, name: str, *, limit: int) -> bytes | None:
        """The bytes of an object."""
        with _explained():
            try:
                body = self._storage.bucket.Object(name).get()["Body"]
            except ClientError as error:
                if error.response["Error"]["Code"] in ("NoSuchKey", "404"):
                    return None
                raise
            return bytes(body.read(limit + 1))


class _Body(io.BytesIO):
    """A body as botocore reads one."""

    def stream(self, amount: int = 65536, **_: Any) -> Iterator[bytes]:
        """The rest, in pieces."""
        while piece := self.read(amount):
            yield piece


def _send(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
    """Send a signed request through the one door out, in place of botocore's own connection."""
    reply = egress.fetch(
        request.url,
        method=request.method,
        headers={name: _plain(value) for name, value in request.headers.items()},
        max_bytes=max(settings.KAIZEN_UPLOAD_LIMIT, _LISTING_BYTES),
        timeout=_SECONDS,
        redirects=0,
    )
    headers = {name: value for name, value in reply.headers.items() if name != "content-encoding"}
    headers["content-length"] = str(len(reply.body))
    return AWSResponse(request.url, reply.status, headers, _Body(reply.body))


def _plain(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


@contextmanager
def _explained() -> Iterator[None]:
    """Turn trouble with the object store into a ConnectorError."""
    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))[:60]
        raise ConnectorError(
            f"The object store refused: {code}.", retry=code in _PASSING
        ) from error
    except TooLarge as error:
        message = "The object is larger than a document may be."
        raise ConnectorError(message, retry=False) from error
    except Invalid as error:
        raise ConnectorError(error.message, retry=False) from error
    except KaizenError as error:
        raise ConnectorError(error.message) from error
    except BotoCoreError as error:
        message = f"The object store can't be read ({type(error).__name__})."
        raise ConnectorError(message) from error
