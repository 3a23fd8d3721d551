"""The room that local copies of repositories take, and who uses which.

Each copy is a folder; a file beside it, of the same name with `.lock`, is locked by its users and
shows when it was last asked for.
"""

from __future__ import annotations

import fcntl
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

UNUSED_DAYS = 30
COPIES_BYTES = 4 * 1024**3


def may_lock(file: IO[bytes], kind: int) -> bool:
    """Take a lock of this kind, or change to it. False while somebody else holds it."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def size_on_disk(folder: Path) -> int:
    """Bytes in a folder, 0 where there is none."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            total += path.lstat().st_size
    return total


def remove_unused(home: Path, *, but: Path) -> None:
    """Remove copies that nobody asked for lately, and the eldest while all take too much room."""
    locks = sorted(home.glob("*.lock"), key=lambda lock: lock.stat().st_mtime, reverse=True)
    oldest = time.time() - UNUSED_DAYS * 86_400
    total = 0
    for lock in locks:
        copy = lock.with_suffix("")
        total += size_on_disk(copy)
        if copy == but or not copy.exists():
            continue
        if total <= COPIES_BYTES and lock.stat().st_mtime > oldest:
            continue
        with lock.open("ab") as file:
            if may_lock(file, fcntl.LOCK_EX):
                shutil.rmtree(copy, ignore_errors=True)
