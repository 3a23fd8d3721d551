"""What a commit holds, in the words of a connector: files, their names, addresses, authors, dates.

Promises: any path is told apart from any other and can be found again by its identity; a tree that
unfolds without end is refused; nothing here talks to a server.
"""

from __future__ import annotations

import heapq
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from itertools import islice
from urllib.parse import quote, unquote_to_bytes, urlsplit

from dulwich.diff_tree import TreeChange, tree_changes
from dulwich.errors import NotTreeError
from dulwich.object_store import BaseObjectStore
from dulwich.objects import Commit, ObjectID, SubmoduleEncountered, Tree, TreeEntry

from kaizen.kernel.text import make_storable
from retrieval.connectors.contract import ConnectorError

MOST_ENTRIES = 500_000
MOST_LOOKS = 50_000

# Blanks at either end too: who keeps the identity may strip them.
_UNSAFE = re.compile("[%\x00-\x1f\x7f\udc80-\udcff]|^\\s|\\s$")
_HOSTS = {
    "github": "/blob/{branch}/{path}",
    "gitlab": "/-/blob/{branch}/{path}",
    "codeberg": "/src/branch/{branch}/{path}",
    "gitea": "/src/branch/{branch}/{path}",
    "forgejo": "/src/branch/{branch}/{path}",
    "bitbucket": "/src/{branch}/{path}",
}


@dataclass(frozen=True, slots=True)
class Selection:
    """Which paths count. A pattern's * stands for anything, slashes too."""

    prefix: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]

    def takes(self, path: str) -> bool:
        """Whether a file at this path is wanted."""
        if self.include and not any(fnmatchcase(path, pattern) for pattern in self.include):
            return False
        return not any(fnmatchcase(path, pattern) for pattern in self.exclude)


@dataclass(frozen=True, slots=True)
class Touch:
    """Who changed a file last, as far as the loaded history tells."""

    author: str
    dated_at: datetime | None


@dataclass(frozen=True, slots=True)
class History:
    """The last touches, and what is said of a file that none of the loaded commits touched: it is
    at least as old as the oldest of them.
    """

    touches: dict[bytes, Touch]
    older: Touch

    def of(self, path: bytes) -> Touch:
        """Who touched this path last."""
        return self.touches.get(path, self.older)


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that stands at a path now, or no longer does (`sha` None)."""

    path: bytes
    sha: bytes | None


def identity_of(path: bytes) -> str:
    """A path as text, unlike that of any other path. Bytes that aren't text stand as %XX."""
    text = path.decode("utf-8", "surrogateescape")
    return _UNSAFE.sub(_percent, text)


def path_of(identity: str) -> bytes:
    """The path that an identity names."""
    return unquote_to_bytes(identity)


def shown_path(path: bytes) -> str:
    """A path as people read it."""
    return make_storable(path.decode("utf-8", "replace")).text


def list_changes(
    store: BaseObjectStore, old: Commit | None, new: Commit, prefix: str
) -> Iterator[FileChange]:
    """The regular files that differ between two commits, all of `new` where there is no `old`.

    Links and submodules are no files. Raises ConnectorError for a tree without end.
    """
    base = prefix.encode() + b"/" if prefix else b""
    old_tree = None if old is None else _find_tree(store, old, prefix)
    new_tree = _find_tree(store, new, prefix)
    if new_tree is None and old is None:
        raise ConnectorError(f"The folder {prefix} isn't in the repository.", retry=False)
    # Folders are counted too: a few objects can unfold to folders without number.
    for seen, change in enumerate(tree_changes(store, old_tree, new_tree, include_trees=True)):
        if seen >= MOST_ENTRIES:
            raise ConnectorError(
                f"The repository holds more than {MOST_ENTRIES} files and folders. Choose a folder "
                "in it.",
                retry=False,
            )
        if (found := _file_change(change, base)) is not None:
            yield found


def find_file(store: BaseObjectStore, commit: Commit, path: bytes) -> bytes | None:
    """The object that stands at a path, None where no regular file does."""
    mode, sha = _look_up(store, commit, path)
    return bytes(sha) if stat.S_ISREG(mode) else None


def read_history(store: BaseObjectStore, tip: Commit, *, most: int) -> History:
    """Who touched which path last within `most` commits. Merges count for nobody."""
    touches: dict[bytes, Touch] = {}
    waiting = [(-tip.commit_time, bytes(tip.id))]
    met = {bytes(tip.id)}
    oldest = tip
    looks = MOST_LOOKS
    for _commit in range(most):
        if not waiting or looks <= 0:
            break
        commit = _find_commit(store, heapq.heappop(waiting)[1])
        if commit is None:
            continue
        oldest = commit
        # Where the loaded history ends, the parents are named but absent.
        parents = [parent for sha in commit.parents if (parent := _find_commit(store, sha))]
        if len(commit.parents) <= 1 and len(parents) == len(commit.parents):
            before = parents[0].tree if parents else None
            changes = tree_changes(store, before, commit.tree, include_trees=True)
            looks -= _note(touches, islice(changes, looks), touch_of(commit))
        for parent in parents:
            if (sha := bytes(parent.id)) not in met:
                met.add(sha)
                heapq.heappush(waiting, (-parent.commit_time, sha))
    return History(touches, Touch("", touch_of(oldest).dated_at))


def touch_of(commit: Commit) -> Touch:
    """Author and date of a commit."""
    text = make_storable(commit.author.decode("utf-8", "replace")).text
    name, _, rest = text.partition("<")
    author = " ".join(name.split()) or rest.partition(">")[0].strip()
    try:
        dated_at = datetime.fromtimestamp(0, UTC) + timedelta(seconds=commit.author_time)
    except OverflowError:
        dated_at = None
    return Touch(author[:200], dated_at)


def address_of(repository: str, branch: str, path: bytes) -> str:
    """Where a browser shows the file; empty for servers whose addresses aren't known."""
    parts = urlsplit(repository)
    labels = (parts.hostname or "").split(".")
    form = next((_HOSTS[label] for label in labels if label in _HOSTS), None)
    if form is None:
        return ""
    base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
    return base.removesuffix(".git") + form.format(branch=quote(branch), path=quote(path))


def _note(touches: dict[bytes, Touch], changes: Iterable[TreeChange], touch: Touch) -> int:
    """Note a touch where no later one is known. Returns how many changes there were."""
    count = 0
    for change in changes:
        count += 1
        if change.new is not None and change.new.path is not None and _is_file(change.new):
            touches.setdefault(change.new.path, touch)
    return count


def _file_change(change: TreeChange, base: bytes) -> FileChange | None:
    if _is_file(change.new) and change.new is not None:
        return FileChange(base + (change.new.path or b""), bytes(change.new.sha or b""))
    if _is_file(change.old) and change.old is not None:
        return FileChange(base + (change.old.path or b""), None)
    return None


def _is_file(entry: TreeEntry | None) -> bool:
    return entry is not None and entry.mode is not None and stat.S_ISREG(entry.mode)


def _find_tree(store: BaseObjectStore, commit: Commit, prefix: str) -> ObjectID | None:
    mode, sha = _look_up(store, commit, prefix.encode())
    return sha if stat.S_ISDIR(mode) else None


def _look_up(store: BaseObjectStore, commit: Commit, path: bytes) -> tuple[int, ObjectID]:
    """Mode and name of what stands at a path; mode 0 for nothing."""
    root = store[commit.tree]
    if not isinstance(root, Tree):
        return 0, ObjectID(b"")
    try:
        return root.lookup_path(store.__getitem__, path)
    except (KeyError, ValueError, NotTreeError, SubmoduleEncountered):
        return 0, ObjectID(b"")


def _find_commit(store: BaseObjectStore, name: bytes) -> Commit | None:
    try:
        found = store[ObjectID(name)]
    except KeyError:
        return None
    return found if isinstance(found, Commit) else None


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found.group().encode("utf-8", "surrogateescape"))
