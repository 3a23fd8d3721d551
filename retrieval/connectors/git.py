"""Files of a Git repository, read over HTTPS from one branch.

Promises: after the first sync only the difference between two commits is looked at, also when the
branch was rewritten; each file's revision is its content. A file is identified by its path, so a
renamed one is a new item with the same bytes. Not for: SSH, submodules, links, Git LFS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import PurePosixPath
from typing import ClassVar
from urllib.parse import quote, urlsplit

from dulwich.objects import Commit
from pydantic import BaseModel, Field, SecretStr, field_validator

from retrieval.connectors.contract import ConnectorError, Fetched, Gone, Item, Page
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
from retrieval.connectors.git_wire import not_https

PAGE_SIZE = 200

_MEGABYTE = 1024 * 1024
_SSH = re.compile(r"(?:ssh|git\+ssh|git)://|[^/@:\s]+@[^/:\s]+:(?!//)", re.I)
_NAME = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\]*")
_BLOB = re.compile(r"[0-9a-f]{40}")
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_DOCUMENTS = ["*.md", "*.markdown", "*.txt", "*.rst", "*.adoc", "*.html", "*.htm"]
_DOCUMENTS += ["*.pdf", "*.docx", "*.pptx", "*.xlsx", "*.csv"]


class GitConfig(BaseModel):
    """Which files of which repository."""

    url: str = Field(
        title="Address",
        description="The https:// address that the repository is cloned from.",
        max_length=1000,
    )
    branch: str = Field(
        "", title="Branch", description="Empty for the default branch.", max_length=250
    )
    user: str = Field(
        "",
        title="User name",
        description="Only for servers that ask for one beside the token.",
        max_length=200,
    )
    token: SecretStr = Field(
        SecretStr(""),
        title="Access token",
        description="With the right to read this repository. Empty for a public one.",
    )
    folder: str = Field(
        "",
        title="Folder",
        description="Only files below this folder. Empty for the whole repository.",
        max_length=500,
    )
    include: list[str] = Field(
        default_factory=_DOCUMENTS.copy,
        title="Include",
        description="Only paths that match one of these patterns; * stands for anything. "
        "Empty for all files.",
        max_length=100,
    )
    exclude: list[str] = Field(
        default_factory=list,
        title="Exclude",
        description="No paths that match one of these patterns.",
        max_length=100,
    )
    largest_file_mb: int = Field(
        10, title="Largest file (MB)", description="Larger files are left out.", ge=1, le=50
    )
    largest_repository_mb: int = Field(
        500,
        title="Largest download (MB)",
        description="A sync that would have to load more fails.",
        ge=1,
        le=4000,
    )
    history: int = Field(
        50,
        title="Commits of history",
        description="How far back authors and dates of files are looked for.",
        ge=1,
        le=500,
    )

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        if _SSH.match(value.strip()):
            raise ValueError(not_https().message)
        parts = urlsplit(value.strip())
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise ValueError(not_https().message)
        if "@" in parts.netloc:
            raise ValueError("Leave user name and token out of the address: they have own fields.")
        if parts.query or parts.fragment or re.search(r"[\x00-\x20\x7f]", parts.netloc):
            raise ValueError("This isn't the address of a repository.")
        path = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
        return f"{parts.scheme}://{parts.netloc}{path}"

    @field_validator("branch")
    @classmethod
    def _check_branch(cls, value: str) -> str:
        value = value.strip().removeprefix("refs/heads/")
        if _NAME.fullmatch(value) is None or ".." in value:
            raise ValueError("No branch can have this name.")
        return value

    @field_validator("folder")
    @classmethod
    def _check_folder(cls, value: str) -> str:
        parts = [part for part in value.strip().split("/") if part not in ("", ".")]
        if ".." in parts:
            raise ValueError("The folder must lie in the repository.")
        return "/".join(parts)


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

        Only the last page moves the checkpoint: a stretch that broke off is read again.
        """
        if checkpoint and checkpoint == self._mark(self._store.find_tip()):
            yield Page(changes=(), checkpoint=checkpoint)
            return
        tip = self._store.load()
        new = self._commit(tip)
        old = self._find_old(checkpoint)
        start = (checkpoint or "") if old is not None else ""
        page: list[Item | Gone] = []
        for change in self._changes(tip, old, new):
            page.append(change)
            if len(page) == PAGE_SIZE:
                yield Page(changes=page, checkpoint=start, is_listing=old is None)
                page = []
        yield Page(changes=page, checkpoint=self._mark(tip), is_listing=old is None)

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

    def _changes(self, tip: Tip, old: Commit | None, new: Commit) -> Iterator[Item | Gone]:
        with self._store.guarded():
            objects = self._store.objects
            history = read_history(objects, new, most=self._config.history)
            for change in list_changes(objects, old, new, self._selection.prefix):
                if not self._selection.takes(shown_path(change.path)):
                    continue
                if self._is_readable(change):
                    yield self._item(change, tip, history)
                elif old is not None:
                    yield Gone(identity_of(change.path))

    def _is_readable(self, change: FileChange) -> bool:
        if change.sha is None:
            return False
        # The server leaves out files above the limit, where it can.
        size = self._store.find_size(change.sha)
        return size is not None and size <= self._largest

    def _item(self, change: FileChange, tip: Tip, history: History) -> Item:
        touch = history.of(change.path)
        path = shown_path(change.path)
        address = address_of(self._config.url, tip.branch, change.path)
        return Item(
            external_id=identity_of(change.path),
            revision=(change.sha or b"").decode(),
            file_name=PurePosixPath(path).name,
            path=path[:1000],
            url=address if len(address) <= 2000 else "",
            author=touch.author,
            dated_at=touch.dated_at,
        )

    def _commit(self, tip: Tip) -> Commit:
        commit = self._store.find_commit(tip.commit)
        if commit is None:
            raise ConnectorError("The branch doesn't lead to a commit.", retry=False)
        return commit

    def _find_old(self, checkpoint: str | None) -> Commit | None:
        """The commit of a checkpoint, None where it is unknown or was made for other settings."""
        commit, _, settings = (checkpoint or "").partition(" ")
        if not _BLOB.fullmatch(commit) or settings != self._settings_mark():
            return None
        return self._store.find_commit(commit.encode())

    def _mark(self, tip: Tip) -> str:
        return f"{tip.commit.decode()} {self._settings_mark()}"

    def _settings_mark(self) -> str:
        """Changes with every setting that decides which files count."""
        chosen = self._config.model_dump(
            include={"url", "branch", "folder", "include", "exclude", "largest_file_mb"}
        )
        return sha256(repr(sorted(chosen.items())).encode()).hexdigest()[:16]
