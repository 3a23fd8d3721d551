"""The words that parsing and chunking share: what goes in, what comes out, how it fails.

Plain frozen values, so that they can cross the border of the parser process. No logic beyond that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

EXPAND_JOB = "retrieval.expand"
MAX_UPLOAD_BYTES = 50 * 1024 * 1024

FailureCode = Literal[
    "empty",
    "no_text",
    "scanned",
    "encrypted",
    "corrupt",
    "mislabelled",
    "unsupported",
    "too_large",
    "timed_out",
    "too_large_unpacked",
    "nested_archive",
]
BlockKind = Literal["heading", "paragraph", "list", "table", "code"]
TextKind = Literal["markdown", "text", "html", "csv", "email"]
# Containers ("zip", "ole", "tar", "gzip"): what they hold is found out where they are unpacked.
FileKind = Literal["markdown", "text", "html", "csv", "email", "pdf", "zip", "ole", "tar", "gzip"]


class ArchiveFound(Exception):
    """The file holds files: each is to become a document of its own (`ingest.archive`)."""


class ParseFailure(Exception):
    """A file that gives no document; `message` is one sentence for the person who uploaded it."""

    def __init__(self, code: FailureCode, message: str) -> None:
        self.code: FailureCode = code
        self.message = message
        super().__init__(f"{code}: {message}")


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """Bounds on one file. `seconds` is wall time in the parser process, `max_files` what an archive
    may hold to be taken apart; `ocr` names the engine that reads pictures of text, if any.
    """

    max_bytes: int = MAX_UPLOAD_BYTES
    max_characters: int = 10_000_000
    max_blocks: int = 200_000
    max_unpacked_bytes: int = 256 * 1024 * 1024
    max_entries: int = 10_000
    max_ratio: int = 200
    seconds: float = 30.0
    max_files: int = 2_000
    ocr: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a document in reading order.

    `level` is 1 to 6 for headings and 0 otherwise; `page` counts from 1 where the format has pages
    or slides. A table's text is a Markdown pipe table: header row, rule, one line a row.
    """

    kind: BlockKind
    text: str
    level: int = 0
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Parsed:
    """A readable document: at least one block, no blank block, every text storable.

    `author`, `dated_at` and `tags` are what the file says of itself; empty where it says nothing.
    """

    title: str
    language: str
    blocks: tuple[Block, ...]
    encoding: str | None
    media_type: str
    warnings: tuple[str, ...] = ()
    author: str = ""
    dated_at: datetime | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileToParse:
    """What a format reader gets: the bytes, what they look like and what was said about them."""

    data: bytes
    kind: FileKind
    name: str
    charset: str | None
    limits: ParseLimits


@dataclass(slots=True)
class Draft:
    """What a format reader gives back, before titles, limits and storability are settled.

    `dated` is a date in whatever way the format writes it.
    """

    media_type: str
    blocks: Sequence[Block]
    title: str = ""
    encoding: str | None = None
    language: str = ""
    warnings: Sequence[str] = ()
    author: str = ""
    dated: str = ""
    tags: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """The draft as plain lists and strings."""
        return {
            "media_type": self.media_type,
            "blocks": [[b.kind, b.text, b.level, b.page] for b in self.blocks],
            "title": self.title,
            "encoding": self.encoding,
            "language": self.language,
            "warnings": list(self.warnings),
            "author": self.author,
            "dated": self.dated,
            "tags": list(self.tags),
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Draft:
        """The inverse of `as_json`."""
        return cls(
            media_type=raw["media_type"],
            blocks=[Block(kind, text, level, page) for kind, text, level, page in raw["blocks"]],
            title=raw["title"],
            encoding=raw["encoding"],
            language=raw["language"],
            warnings=raw["warnings"],
            author=raw["author"],
            dated=raw["dated"],
            tags=raw["tags"],
        )


class BlockList:
    """Collects blocks in reading order, drops blank ones and stops at the limits of a document.

    List items that directly follow each other on one page become one block. Once `is_full`,
    further text is dropped; a reader may then stop early.
    """

    def __init__(self, limits: ParseLimits) -> None:
        self._limits = limits
        self._blocks: list[Block] = []
        self._items: list[str] = []
        self._items_page: int | None = None
        self._pieces = 0
        self._characters = 0
        self.is_full = False

    def add(self, kind: BlockKind, text: str, *, level: int = 0, page: int | None = None) -> None:
        """Append a block, or one more item to the list that is open."""
        text = self._within_limits(
            text.strip("\n").rstrip() if kind in ("code", "list") else text.strip()
        )
        if not text.strip():
            return
        if kind == "list":
            if self._items and self._items_page != page:
                self._close_list()
            self._items.append(text)
            self._items_page = page
            return
        self._close_list()
        self._blocks.append(Block(kind, text, level if kind == "heading" else 0, page))

    def finish(self) -> list[Block]:
        """All blocks so far; nothing may be added afterwards."""
        self._close_list()
        return self._blocks

    def warnings(self) -> list[str]:
        """The sentence about cut text, if any was cut."""
        if not self.is_full:
            return []
        return [f"Only the first {self._characters:,} characters were read."]

    def _within_limits(self, text: str) -> str:
        if not text.strip():
            return ""
        room = self._limits.max_characters - self._characters
        if self.is_full or self._pieces >= self._limits.max_blocks:
            self.is_full = True
            return ""
        if len(text) > room:
            self.is_full = True
            text = text[:room]
        self._pieces += 1
        self._characters += len(text)
        return text

    def _close_list(self) -> None:
        if self._items:
            self._blocks.append(Block("list", "\n".join(self._items), 0, self._items_page))
            self._items = []
