"""A parsed document as passages: pieces of one section, small enough to embed whole.

Promises: no passage is blank or above `max_tokens`; every word of every block is in a passage's
text or in its heading path; a table that is split repeats its header; a passage never spans two
pages or two sections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kaizen.kernel.text import is_blank
from retrieval.ingest.contract import Block, BlockKind, Parsed
from retrieval.ingest.links import without_targets
from retrieval.ingest.split import Measure, last_sentence, split_block

MAX_TOKENS = 220
OVERLAP_TOKENS = 24
_LONGEST_HEADING = 300
# Title and headings share the embedder's window with the text, so they get what the text leaves.
_LONGEST_TITLE = 70
_LONGEST_PATH = 90


@dataclass(frozen=True, slots=True)
class Passage:
    """The unit that is searched, embedded and cited. `ordinal` counts from 0 in reading order."""

    ordinal: int
    text: str
    heading_path: tuple[str, ...]
    page: int | None
    kind: BlockKind
    token_count: int


def chunk(
    parsed: Parsed,
    *,
    count_tokens: Callable[[str], int],
    max_tokens: int = MAX_TOKENS,
    overlap: int = OVERLAP_TOKENS,
) -> list[Passage]:
    """Cut a document into passages of at most `max_tokens`, as `count_tokens` counts.

    A passage that continues a paragraph begins with the last sentence before it, if that has at
    most `overlap` tokens. `count_tokens` may count more for a longer text, never less; the
    addresses of links aren't counted.
    """
    measure = Measure(lambda text: count_tokens(without_targets(text)), max_tokens)
    passages: list[Passage] = []
    for section in _sections(parsed.blocks):
        packer = _Packer(measure, overlap)
        for block in section.blocks:
            packer.add(block)
        if not section.blocks:
            # A heading with nothing below it still says something.
            packer.add(Block("heading", section.path[-1], page=section.page))
        packer.close()
        for text, page, kind in packer.done:
            path = section.path if section.blocks else section.path[:-1]
            passages.append(Passage(len(passages), text, path, page, kind, measure.count(text)))
    return passages


def embedding_text(title: str, passage: Passage) -> str:
    """What is embedded for a passage: title and headings in one line, then the text without the
    addresses of its links.
    """
    return f"{context_line(title, passage.heading_path)}\n{without_targets(passage.text)}"


def context_line(title: str, heading_path: Sequence[str]) -> str:
    """`title > heading > heading`, shortened from the front so that the nearest headings stay
    whole."""
    parts = [part for part in (title, *heading_path) if part]
    if len(parts) > 1 and parts[0] == parts[1]:
        del parts[0]
    kept: list[str] = []
    room = _LONGEST_PATH
    for part in reversed(parts[1:]):
        if kept and len(part) + 3 > room:
            break
        kept.insert(0, part[:_LONGEST_PATH])
        room -= len(part) + 3
    return " > ".join([*(part[:_LONGEST_TITLE] for part in parts[:1]), *kept])


@dataclass(slots=True)
class _Section:
    path: tuple[str, ...]
    page: int | None
    blocks: list[Block]


def _sections(blocks: Iterable[Block]) -> Iterator[_Section]:
    """Blocks under their headings. Sections that only hold deeper sections are left out."""
    levels: list[tuple[int, str]] = []
    current = _Section((), None, [])
    for block in blocks:
        if block.kind != "heading" or len(block.text) > _LONGEST_HEADING:
            if not is_blank(block.text):
                current.blocks.append(block)
            continue
        if is_blank(block.text):
            continue
        level = block.level or 6
        is_parent = bool(levels) and level > levels[-1][0]
        if current.blocks or (current.path and not is_parent):
            yield current
        while levels and levels[-1][0] >= level:
            levels.pop()
        levels.append((level, " ".join(block.text.split())))
        current = _Section(tuple(text for _, text in levels), block.page, [])
    if current.blocks or current.path:
        yield current


class _Packer:
    """Fills passages with the pieces of one section, in order."""

    def __init__(self, measure: Measure, overlap: int) -> None:
        self.done: list[tuple[str, int | None, BlockKind]] = []
        self._measure = measure
        self._overlap = overlap
        self._text = ""
        self._size = 0
        self._page: int | None = None
        self._kind: BlockKind = "paragraph"

    def add(self, block: Block) -> None:
        """Take one block, whole if it fits below what is there, else in pieces."""
        if self._text and self._page != block.page:
            self.close()
        is_first = True
        for piece, joiner in split_block(block, self._measure):
            self._add_piece(piece, block, "\n\n" if is_first else joiner, is_first=is_first)
            is_first = False

    def close(self) -> None:
        """End the passage that is open."""
        if not is_blank(self._text):
            self.done.append((self._text, self._page, self._kind))
        self._text, self._size = "", 0

    def _add_piece(self, piece: str, block: Block, joiner: str, *, is_first: bool) -> None:
        size = self._measure.size(piece)
        if self._text:
            joined = self._measure.joined_size(self._text, self._size, joiner, piece, size)
            if joined is not None:
                self._text, self._size = self._text + joiner + piece, joined
                if self._kind != block.kind:
                    self._kind = "paragraph"
                return
        before = self._text
        self.close()
        self._page, self._kind = block.page, block.kind
        self._text, self._size = piece, size
        if before and not is_first and block.kind == "paragraph":
            self._repeat_sentence(before, joiner)

    def _repeat_sentence(self, before: str, joiner: str) -> None:
        """Begin the open passage with the last sentence of the one before, if that is short."""
        sentence = last_sentence(before)
        if not sentence or self._measure.size(sentence) > self._overlap:
            return
        size = self._measure.size(sentence)
        joined = self._measure.joined_size(sentence, size, joiner, self._text, self._size)
        if joined is not None:
            self._text, self._size = sentence + joiner + self._text, joined
