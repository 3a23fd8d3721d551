"""What one watcher has been shown of an answer that is being written: pure, no database, no socket.

Text arrives twice, live and from the journal, each at an offset in code points. Whatever overlaps
is shown once; whatever would leave a gap is refused, so that the watcher reads the journal instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kaizen.kernel.html import render_markdown, split_blocks, without_open_marker


@dataclass(slots=True)
class TextProgress:
    """How much of one message's text was sent."""

    message: str
    sent: int = 0

    def take(self, *, offset: int, text: str) -> str | None:
        """The part of `text` at `offset` that is new, or None when something before it is
        missing.
        """
        if offset > self.sent:
            return None
        new = text[self.sent - offset :]
        self.sent += len(new)
        return new


class BlockProgress:
    """The same for a page: text becomes Markdown blocks, each finished one rendered once."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.progress = TextProgress(message)
        self.text = ""
        self._closed = 0
        self._dirty = False

    @property
    def dirty(self) -> bool:
        """Whether there is something that hasn't been rendered."""
        return self._dirty

    def take(self, *, offset: int, text: str) -> bool:
        """Add what is new. False when something before it is missing."""
        new = self.progress.take(offset=offset, text=text)
        if new is None:
            return False
        self.text += new
        self._dirty = self._dirty or bool(new)
        return True

    def frames(self, marker: Callable[[str], str]) -> list[dict[str, Any]]:
        """The block frames that bring the watcher up to date."""
        self._dirty = False
        blocks = split_blocks(self.text)
        frames = []
        for number, block in enumerate(blocks):
            if number < self._closed:
                continue
            source = self.text[block.start : block.end]
            if not block.closed:
                source = without_open_marker(source)
            frames.append(
                {
                    "type": "block",
                    "message": self.message,
                    "block": number,
                    "html": render_markdown(source, inline_marker=marker),
                    "offset": block.end,
                    "open": not block.closed,
                }
            )
            if block.closed:
                self._closed = number + 1
        return frames
