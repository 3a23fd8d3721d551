"""The local copy of a remote repository: bare, shallow, bounded, and shared by the workers.

Promises: a copy belongs to one address, branch and set of credentials; it is changed by one
process at a time and never while another reads it; its size and age are limited. Losing it loses
nothing: the next sync loads it anew.
"""

from __future__ import annotations

import fcntl
import hmac
import os
import shutil
import struct
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from django.conf import settings
from dulwich.errors import (
    ApplyDeltaError,
    ChecksumMismatch,
    FileFormatException,
    GitProtocolError,
    NotGitRepository,
    WrongObjectException,
)
from dulwich.object_store import PackBasedObjectStore
from dulwich.objects import Commit, ObjectID
from dulwich.refs import Ref
from dulwich.repo import Repo

from retrieval.connectors.contract import ConnectorError
from retrieval.connectors.git_copies import may_lock, remove_unused, size_on_disk
from retrieval.connectors.git_pack import check_pack, read_size
from retrieval.connectors.git_wire import GitTransport

LOAD_SECONDS = 900.0
ASK_SECONDS = 60.0

_ASK_BYTES = 32 * 1024**2
_LOCK_SECONDS = 60.0
# Text packs to about a fifth; whoever unpacks to far more means harm.
_UNPACKED_RATIO = 20
_DAMAGED, _BRANCH = "damaged", "branch-name"
_NAME_LENGTH = 40
_TIP = Ref(b"refs/heads/tip")
# What the Git library raises for damaged or hostile data.
_DAMAGE = (
    GitProtocolError,
    NotGitRepository,
    FileFormatException,
    WrongObjectException,
    ApplyDeltaError,
    ChecksumMismatch,
    ValueError,
    AssertionError,
    LookupError,
    TypeError,
    AttributeError,
    struct.error,
    zlib.error,
)


@dataclass(frozen=True, slots=True)
class Remote:
    """Where to read, as whom, and how much."""

    url: str
    branch: str
    user: str
    token: str
    history: int
    most_bytes: int
    largest_file: int

    def key(self) -> str:
        """The name of the local copy: others' credentials never lead to it."""
        told = "\0".join(map(str, (self.url, self.branch, self.user, self.token, self.history)))
        told += f"\0{self.largest_file}"
        return hmac.digest(settings.SECRET_KEY.encode(), told.encode(), "sha256").hex()[:40]


@dataclass(frozen=True, slots=True)
class Tip:
    """Where the branch stands."""

    commit: bytes
    branch: str


class GitStore:
    """One remote repository and its local copy."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._home = Path(settings.KAIZEN_HOME) / "connectors" / "git"
        self._path = self._home / remote.key()
        self._lock: IO[bytes] | None = None
        self._repo: Repo | None = None

    def find_tip(self) -> Tip:
        """Ask the server where the branch stands. Raises ConnectorError."""
        transport = self._transport(most_bytes=_ASK_BYTES, seconds=ASK_SECONDS)
        with readable():
            found = transport.get_refs(b"", ref_prefix=self._wanted_refs())
            return self._choose(found.refs, found.symrefs)

    def load(self) -> Tip:
        """Bring the local copy up to the branch. Raises ConnectorError."""
        self.close()
        self._hold(fcntl.LOCK_EX)
        try:
            if (self._path / _DAMAGED).exists() or size_on_disk(self._path) > (
                2 * self._remote.most_bytes
            ):
                shutil.rmtree(self._path)
            self._repo = self._open()
            with self.guarded():
                tip = self._fetch(self._repo)
            remove_unused(self._home, but=self._path)
        except ConnectorError:
            self.close()
            raise
        self._hold(fcntl.LOCK_SH)
        return tip

    def find_branch(self) -> str:
        """The branch that was loaded last."""
        try:
            return (self._path / _BRANCH).read_text("utf-8")
        except (OSError, ValueError):
            return "HEAD"

    def find_commit(self, name: bytes) -> Commit | None:
        """A commit of the local copy, None where it isn't there."""
        with self.guarded():
            try:
                found = self.objects[ObjectID(name)]
            except KeyError:
                return None
            return found if isinstance(found, Commit) else None

    def find_size(self, blob: bytes) -> int | None:
        """The size of an object of the local copy, None where it isn't there."""
        folder = self._path / "objects" / "pack"
        with self.guarded():
            for pack in self.objects.packs:
                try:
                    offset = pack.index.object_offset(ObjectID(blob))
                except KeyError:
                    continue
                return read_size(folder / pack.data.filename, offset)
        return None

    def find_bytes(self, blob: bytes) -> bytes | None:
        """The bytes of a file, None where it isn't there."""
        with self.guarded():
            try:
                return self.objects.get_raw(ObjectID(blob))[1]
            except KeyError:
                return None

    @property
    def objects(self) -> PackBasedObjectStore:
        """What the local copy holds; nothing where there is none yet."""
        if self._repo is None:
            self._hold(fcntl.LOCK_SH)
            self._repo = self._open()
        return self._repo.object_store

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Note damage that is met, so that the next load begins with an empty copy."""
        try:
            with readable():
                yield
        except Damaged:
            with suppress(OSError):
                (self._path / _DAMAGED).touch()
            raise

    def close(self) -> None:
        """Let others change the local copy."""
        if self._repo is not None:
            self._repo.close()
            self._repo = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _fetch(self, repo: Repo) -> Tip:
        remote = self._remote
        transport = self._transport(most_bytes=remote.most_bytes, seconds=LOAD_SECONDS)

        def choose(refs: Mapping[Ref, ObjectID], depth: int | None = None) -> list[ObjectID]:
            wanted = ObjectID(self._choose(refs, {}).commit)
            return [] if wanted in repo.object_store else [wanted]

        file, commit, abort = repo.object_store.add_pack()
        try:
            result = transport.fetch_pack(
                b"",
                choose,
                repo.get_graph_walker(),
                file.write,
                depth=remote.history,
                ref_prefix=self._wanted_refs(),
                filter_spec=b"blob:limit=%d" % (remote.largest_file + 1),
            )
            if file.tell():
                check_pack(file, most_bytes=_UNPACKED_RATIO * remote.most_bytes)
        except BaseException:
            abort()
            raise
        commit()
        repo.update_shallow(result.new_shallow, result.new_unshallow)
        tip = self._choose(result.refs, result.symrefs)
        if ObjectID(tip.commit) not in repo.object_store:
            raise GitProtocolError("the branch is missing from the pack")
        repo.refs[_TIP] = ObjectID(tip.commit)
        (self._path / _BRANCH).write_text(tip.branch, "utf-8")
        return tip

    def _transport(self, *, most_bytes: int, seconds: float) -> GitTransport:
        remote = self._remote
        return GitTransport(
            remote.url,
            user=remote.user,
            token=remote.token,
            max_bytes=most_bytes,
            max_seconds=seconds,
        )

    def _wanted_refs(self) -> list[bytes]:
        return [self._ref() if self._remote.branch else b"HEAD"]

    def _ref(self) -> bytes:
        return b"refs/heads/" + self._remote.branch.encode()

    def _choose(self, refs: Mapping[Ref, ObjectID | None], symrefs: Mapping[Ref, Ref]) -> Tip:
        found = refs.get(Ref(self._ref() if self._remote.branch else b"HEAD"))
        if found is None:
            raise ConnectorError(
                f"The repository has no branch {self._remote.branch}."
                if self._remote.branch
                else "The repository is empty, or it has no default branch.",
                retry=False,
            )
        if len(found) != _NAME_LENGTH:
            raise ConnectorError(
                "The repository uses SHA-256 names, which can't be read yet.", retry=False
            )
        head = bytes(symrefs.get(Ref(b"HEAD"), b"")).removeprefix(b"refs/heads/")
        return Tip(bytes(found), self._remote.branch or head.decode("utf-8", "replace") or "HEAD")

    def _open(self) -> Repo:
        try:
            if (self._path / "objects").is_dir():
                return Repo(str(self._path), bare=True)
            self._path.mkdir(mode=0o700, exist_ok=True)
            return Repo.init_bare(self._path)
        except (*_DAMAGE, OSError) as error:
            raise ConnectorError("The local copy of the repository can't be opened.") from error

    def _hold(self, kind: int) -> None:
        """Take the lock of the local copy, or change how it is held."""
        if self._lock is None:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = self._path.with_suffix(".lock").open("ab")
            os.utime(self._lock.name)
        until = time.monotonic() + _LOCK_SECONDS
        while not may_lock(self._lock, kind):
            if time.monotonic() > until:
                self.close()
                raise ConnectorError("Another worker is loading this repository.", retry_after=60)
            time.sleep(0.1)


class Damaged(ConnectorError):
    """What the server sent, or the local copy of it, makes no sense."""


@contextmanager
def readable() -> Iterator[None]:
    """Turn what the Git library raises into a ConnectorError."""
    try:
        yield
    except _DAMAGE as error:
        raise Damaged("The Git server sent something that can't be read.") from error
    except OSError as error:
        raise ConnectorError(
            f"The local copy of the repository can't be used: {error.strerror}."
        ) from error
