"""Files of a Git repository, read over HTTPS from one branch.

Promises: after the first sync only the difference between two commits is looked at, also when the
branch was rewritten; each file's revision is its content. A file is identified by its path, so a
renamed one is a new item with the same bytes. Not for: SSH, submodules, links, Git LFS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import PurePosixPath
from typing import ClassVar

from dulwich.objects import Commit
from pydantic import BaseModel

from retrieval.connectors.contract import ConnectorError, Fetched, Gone, Item, Page
from retrieval.connectors.git_config import GitConfig
from retrieval.connectors.git_place import Place, read_place, write_place
from retrieval.connectors.git_store import GitStore, Remote, Tip
from retrieval.connectors.git_tree import (
    FileChange,
    History,
    Selection,
    address_of,
    find_file,
    identity_of,
    list_changes,
    path_of,
    read_history,
    shown_path,
)

PAGE_SIZE = 200

_MEGABYTE = 1024 * 1024
_BLOB = re.compile(r"[0-9a-f]{40}")
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


class GitConnector:
    """Reads one branch of one repository."""

    slug: ClassVar[str] = "git"
    title: ClassVar[str] = "Git repository"
    description: ClassVar[str] = "The documents in a branch of a repository, read over HTTPS."
    Config: ClassVar[type[BaseModel]] = GitConfig
    mirrors_acl: ClassVar[bool] = False

    def __init__(self, config: BaseModel) -> None:
        self._config = config = GitConfig.model_validate(config)
        self._largest = config.largest_file_mb * _MEGABYTE
        self._selection = Selection(
            config.folder, tuple(filter(None, config.include)), tuple(filter(None, config.exclude))
        )
        self._store = GitStore(
            Remote(
                url=config.url,
                branch=config.branch,
                # Servers that know tokens take any name with them.
                user=config.user or "x-access-token",
                token=config.token.get_secret_value(),
                history=config.history,
                most_bytes=config.largest_repository_mb * _MEGABYTE,
                largest_file=self._largest,
            )
        )

    def check(self) -> None:
        """Ask where the branch stands. Raises ConnectorError."""
        self._store.find_tip()

    def list_changes(self, checkpoint: str | None) -> Iterator[Page]:
        """What differs from the commit of the checkpoint. Raises ConnectorError.

        A checkpoint in the middle leads on with the same two commits; what came meanwhile is for
        the next sync.
        """
        mark = self._settings_mark()
        place = read_place(checkpoint, mark=mark)
        if place is not None and place.is_whole and place.new == self._store.find_tip().commit:
            yield Page(changes=(), checkpoint=write_place(place, mark=mark))
            return
        old, new, place, end = self._begin(place)
        is_listing = old is None
        page: list[Item | Gone] = []
        for seen, change in self._changes(old, new, skip=place.seen or 0):
            page.append(change)
            if len(page) == PAGE_SIZE:
                yield Page(
                    changes=page,
                    checkpoint=write_place(replace(place, seen=seen), mark=mark),
                    is_listing=is_listing,
                )
                page = []
        yield Page(
            changes=page,
            checkpoint=write_place(end, mark=mark) if end else "",
            is_listing=is_listing,
        )

    def fetch(self, item: Item) -> Fetched | None:
        """The file as it was listed, or as it is now where that state is lost."""
        data = None
        if _BLOB.fullmatch(item.revision):
            data = self._store.find_bytes(item.revision.encode())
        if data is None:
            commit = self._commit(self._store.load())
            with self._store.guarded():
                blob = find_file(self._store.objects, commit, path_of(item.external_id))
            data = None if blob is None else self._store.find_bytes(blob)
        if data is None or len(data) > self._largest:
            return None
        if data.startswith(_LFS_POINTER):
            raise ConnectorError(
                "This file is kept in Git LFS, which isn't read.",
                retry=False,
            )
        return Fetched(data)

    def close(self) -> None:
        """Let go of the local copy."""
        self._store.close()

    def _begin(self, place: Place | None) -> tuple[Commit | None, Commit, Place, Place | None]:
        """The two commits to compare, where in their difference to begin, and where it ends.

        A listing that can't go on where it broke off may have named what is gone by now: it ends
        nowhere, so that the next sync lists all once more.
        """
        if place is not None and not place.is_whole:
            old = self._store.find_commit(place.old) if place.old else None
            new = self._store.find_commit(place.new)
            if new is not None and (old is not None or not place.old):
                return old, new, place, Place(new=place.new)
        tip = self._store.load()
        new = self._commit(tip)
        if place is not None and not place.is_whole:
            return None, new, Place(new=tip.commit, seen=0), None
        old = self._store.find_commit(place.new) if place is not None else None
        begin = Place(new=tip.commit, old=place.new if place and old else b"", seen=0)
        return old, new, begin, Place(new=tip.commit)

    def _changes(
        self, old: Commit | None, new: Commit, *, skip: int
    ) -> Iterator[tuple[int, Item | Gone]]:
        """Each change after the first `skip` files, with how many files were looked at by then."""
        with self._store.guarded():
            objects = self._store.objects
            history = read_history(objects, new, most=self._config.history)
            found = list_changes(objects, old, new, self._selection.prefix)
            for seen, change in enumerate(found, start=1):
                if seen <= skip or not self._selection.takes(shown_path(change.path)):
                    continue
                if self._is_readable(change):
                    yield seen, self._item(change, history)
                elif old is not None:
                    yield seen, Gone(identity_of(change.path))

    def _is_readable(self, change: FileChange) -> bool:
        if change.sha is None:
            return False
        # The server leaves out files above the limit, where it can.
        size = self._store.find_size(change.sha)
        return size is not None and size <= self._largest

    def _item(self, change: FileChange, history: History) -> Item:
        touch = history.of(change.path)
        path = shown_path(change.path)
        address = address_of(self._config.url, self._branch(), change.path)
        return Item(
            external_id=identity_of(change.path),
            revision=(change.sha or b"").decode(),
            file_name=PurePosixPath(path).name,
            path=path[:1000],
            url=address if len(address) <= 2000 else "",
            author=touch.author,
            dated_at=touch.dated_at,
        )

    def _branch(self) -> str:
        return self._config.branch or self._store.find_branch()

    def _commit(self, tip: Tip) -> Commit:
        commit = self._store.find_commit(tip.commit)
        if commit is None:
            raise ConnectorError("The branch doesn't lead to a commit.", retry=False)
        return commit

    def _settings_mark(self) -> str:
        """Changes with every setting that decides which files count."""
        chosen = self._config.model_dump(
            include={"url", "branch", "folder", "include", "exclude", "largest_file_mb"}
        )
        return sha256(repr(sorted(chosen.items())).encode()).hexdigest()[:16]
