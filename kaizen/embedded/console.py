"""The one writer to the terminal while everything runs: whole lines, each with its writer's name.

Every line also goes to the log file. A terminal that went away is not an error.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import sys
import threading
from pathlib import Path
from typing import TextIO

logger = logging.getLogger("kaizen.up")

COLOURS = (36, 33, 35, 32, 34, 96, 93, 95)
NAME_WIDTH = 8
PLAIN = "kaizen"


class Console:
    """Writes lines of several processes without mixing them."""

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._colour_of: dict[str, int] = {}
        self._gone = False
        self._has_colour = stream.isatty() and "NO_COLOR" not in os.environ

    def say(self, text: str) -> None:
        """Write a line of the supervisor's own."""
        logger.info("%s", text)
        self._write(text)

    def line(self, name: str, text: str) -> None:
        """Write a line of one of the processes."""
        logger.info("%s| %s", name.ljust(NAME_WIDTH), text)
        self._write(f"{self._prefix(name)} {text}")

    def _prefix(self, name: str) -> str:
        padded = f"{name.ljust(NAME_WIDTH)}|"
        if not self._has_colour:
            return padded
        colour = self._colour_of.setdefault(name, COLOURS[len(self._colour_of) % len(COLOURS)])
        return f"\033[{colour}m{padded}\033[0m"

    def _write(self, text: str) -> None:
        with self._lock:
            if self._gone:
                return
            try:
                self._stream.write(f"{text}\n")
                self._stream.flush()
            except (OSError, ValueError):
                self._gone = True


def log_to(path: Path) -> None:
    """Send the launcher's log to a file that is kept small; a full disk must not stop Kaizen."""
    logging.raiseExceptions = False
    handler = logging.handlers.RotatingFileHandler(
        path, maxBytes=5_000_000, backupCount=2, encoding="utf-8", errors="replace"
    )
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
