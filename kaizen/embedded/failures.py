"""How starting can fail, told to a newcomer: one sentence that says what to do, details in the log.

Not for refusals while serving: those are `kaizen.kernel.errors`.
"""

from __future__ import annotations

import errno
import logging
import sys
from pathlib import Path
from types import TracebackType

logger = logging.getLogger("kaizen.up")


class LaunchError(Exception):
    """Something needed can't be started; the text is shown as it stands."""


def disk_is_full(place: Path) -> str:
    """Return the sentence for a full disk."""
    return f"The disk that holds {place} is full. Free some space and start again."


def explain_refusal(error: OSError, *, home: Path) -> str:
    """Turn what the operating system said into a sentence with a next step."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_is_full(home)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{error.filename or home} can't be used by this account ({error.strerror})."
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "Too many open files. Raise the limit (ulimit -n 4096) and start again."
    if error.errno in (errno.EAGAIN, errno.ENOMEM):
        return "This machine has no memory or processes left to start another one."
    return f"The operating system refused: {error}."


def show_plainly(*, home: Path, log: Path) -> None:
    """From here on show an unforeseen error as one sentence; its traceback goes to the log."""

    def tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        logger.critical("unforeseen", exc_info=(kind, error, trace))
        if isinstance(error, OSError):
            text = f"{explain_refusal(error, home=home)} Details: {log}"
        else:
            text = f"Kaizen stopped because of an error in itself ({kind.__name__}). Details: {log}"
        sys.stderr.write(f"{text}\n")

    sys.excepthook = tell


def tail(path: Path, *, lines: int = 8) -> str:
    """Return the last lines of a log, for the details of a failure."""
    if not path.exists():
        return ""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - 8000))
        return "\n".join(stream.read().decode("utf-8", "replace").splitlines()[-lines:])
