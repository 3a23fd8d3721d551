"""Cuts a block that is too large for a passage: rows, lines, sentences, words, and at last
characters.

Promises: each piece fits the measure; pieces joined by their joiners give the block again, apart
from white space at the seams and the header that is repeated in front of later rows of a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from retrieval.ingest.contract import Block

# A tokenizer may count a very long word as one unknown token, so length bounds a passage too.
CHARACTERS_PER_TOKEN = 8

_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’)\]]{0,3}\s+(?=\S)|(?<=[。！？])(?=\S)|[ \t]{0,20}\n\s*")
_LAST_SENTENCE = re.compile(r"(?:[.!?…][\"'”’)\]]{0,3}\s|[。！？]|\n)(?=\S)")
_RULE = re.compile(r"\|(?: --- \|)+$")
_LONGEST_SENTENCE_TO_REPEAT = 400


class Measure:
    """How large a text is, in tokens; cheap where a bound is enough, exact near the limit."""

    def __init__(self, count_tokens: Callable[[str], int], max_tokens: int) -> None:
        if max_tokens < 1:
            raise ValueError("max_tokens must be at least 1")
        self._count_tokens = count_tokens
        self._last = ("", 0)
        self.max_tokens = max_tokens
        self.max_characters = CHARACTERS_PER_TOKEN * max_tokens

    def size(self, text: str) -> int:
        """Exact tokens, or the size by length where that is larger."""
        by_length = -(-len(text) // CHARACTERS_PER_TOKEN)
        return by_length if by_length > self.max_tokens else max(by_length, self.count(text))

    def fits(self, text: str) -> bool:
        """Whether the text may be a passage."""
        return self.size(text) <= self.max_tokens

    def joined_size(
        self, first: str, first_size: int, joiner: str, second: str, second_size: int
    ) -> int | None:
        """The size of two texts of known sizes as one, or None if they don't fit together.

        Far below the limit the answer is an upper bound, near it the joined text is counted.
        """
        bound = first_size + len(joiner) + second_size
        if bound <= 0.8 * self.max_tokens:
            return bound
        if bound > 1.3 * self.max_tokens + 8:
            return None
        exact = self.size(first + joiner + second)
        return exact if exact <= self.max_tokens else None

    def count(self, text: str) -> int:
        """Exact tokens. The last answer is kept, since a piece is asked about several times."""
        if text is not self._last[0]:
            self._last = (text, self._count_tokens(text))
        return self._last[1]


def _grouped(pieces: Iterable[tuple[str, str]], measure: Measure) -> Iterator[tuple[str, str]]:
    """Tiny neighbours as one piece, so that counting is paid per group, not per row or dot."""
    # No script takes more than three tokens a character, so what is this short always fits.
    shortest = measure.max_tokens // 4
    group, group_joiner = "", ""
    for piece, joiner in pieces:
        if group and len(group) + len(joiner) + len(piece) <= shortest:
            group += joiner + piece
            continue
        if group:
            yield group, group_joiner
        group, group_joiner = piece, joiner
    if group:
        yield group, group_joiner


def split_block(block: Block, measure: Measure) -> Iterator[tuple[str, str]]:
    """Pieces of a block, each with what joins it to the piece before."""
    if measure.fits(block.text):
        yield block.text, "\n\n"
    elif block.kind == "table":
        yield from _split_table(block.text, measure)
    elif block.kind in ("list", "code"):
        yield from _grouped(_split_lines(block.text.split("\n"), measure), measure)
    else:
        yield from _grouped(_split_prose(block.text, measure), measure)


def last_sentence(text: str) -> str:
    """The last sentence of a text, or "" if it is long or has no clear start."""
    tail = text[-_LONGEST_SENTENCE_TO_REPEAT:]
    starts = [match.end() for match in _LAST_SENTENCE.finditer(tail, 0, max(0, len(tail) - 2))]
    return tail[starts[-1] :].strip() if starts else ""


def _split_table(text: str, measure: Measure) -> Iterator[tuple[str, str]]:
    lines = text.split("\n")
    header = lines[:2] if len(lines) > 2 and _RULE.match(lines[1]) else []
    # A header that fills half a passage says less than the rows it would push out.
    head = "\n".join(header)
    if not header or measure.size(head) > measure.max_tokens // 2:
        yield from _split_lines(lines, measure)
        return
    head_size = measure.size(head)
    table, size = head, head_size
    rows = ((line, "\n") for line in lines[2:])
    for row, _ in _grouped(rows, measure):
        row_size = measure.size(row)
        joined = measure.joined_size(table, size, "\n", row, row_size)
        if joined is None and table != head:
            yield table, "\n\n"
            table, size = head, head_size
            joined = measure.joined_size(table, size, "\n", row, row_size)
        if joined is None:
            yield from _split_prose(row, measure)
        else:
            table, size = f"{table}\n{row}", joined
    if table != head:
        yield table, "\n\n"


def _split_lines(lines: Iterable[str], measure: Measure) -> Iterator[tuple[str, str]]:
    for line in lines:
        if not line.strip():
            continue
        if 4 * len(line) <= measure.max_tokens or measure.fits(line):
            yield line, "\n"
        else:
            joiner = "\n"
            for piece, next_joiner in _split_prose(line, measure):
                yield piece, joiner
                joiner = next_joiner


def _split_prose(text: str, measure: Measure) -> Iterator[tuple[str, str]]:
    at = 0
    joiner = " "
    for boundary in _SENTENCE.finditer(text):
        # Quotes and brackets that close a sentence belong to it.
        seam = boundary.group()
        end = boundary.start() + len(seam.rstrip())
        yield from _split_words(text[at:end], joiner, measure)
        joiner = "\n" if "\n" in seam else (" " if seam else "")
        at = boundary.end()
    yield from _split_words(text[at:], joiner, measure)


def _split_words(sentence: str, joiner: str, measure: Measure) -> Iterator[tuple[str, str]]:
    """A sentence whole, or in runs of words that fit."""
    sentence = sentence.strip()
    if not sentence:
        return
    if 4 * len(sentence) <= measure.max_tokens or measure.fits(sentence):
        yield sentence, joiner
        return
    run: list[str] = []
    run_size = 0
    for word in sentence.split():
        # An estimate: counting each word would cost more than halving the few runs that turn out
        # too large.
        size = -(-len(word) // 4)
        if run and run_size + size > measure.max_tokens:
            yield from _checked(" ".join(run), joiner, measure)
            joiner, run, run_size = " ", [], 0
        run.append(word)
        run_size += size
    if run:
        yield from _checked(" ".join(run), joiner, measure)


def _checked(text: str, joiner: str, measure: Measure) -> Iterator[tuple[str, str]]:
    """The text if it fits, else halves of it, cut between words where there are any."""
    if measure.fits(text) or len(text) == 1:
        yield text, joiner
        return
    if " " in text:
        middle = text.rfind(" ", 0, len(text) // 2 + 1)
        middle = middle if middle > 0 else text.find(" ")
        yield from _checked(text[:middle], joiner, measure)
        yield from _checked(text[middle + 1 :], " ", measure)
        return
    step = measure.max_characters
    while step > 1 and not measure.fits(text[:step]):
        step //= 2
    for at in range(0, len(text), step):
        piece = text[at : at + step]
        own_joiner = joiner if at == 0 else ""
        # Parts of one word differ in tokens; what doesn't fit is halved again.
        if measure.fits(piece) or len(piece) == 1:
            yield piece, own_joiner
        else:
            half = len(piece) // 2
            yield from _checked(piece[:half], own_joiner, measure)
            yield from _checked(piece[half:], "", measure)
