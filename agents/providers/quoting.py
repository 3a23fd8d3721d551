"""Chooses which sentences of a passage answer a question. Pure, no model, any script.

Spans are code point offsets into the passage's text and cover whole sentences, list items or table
rows. Words are compared by a rough stem, so "approves" meets "approved"; scripts without spaces are
compared by pairs of characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]

MAX_UNIT = 500
_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_SENTENCE_END = re.compile(r"[.!?…]{1,8}[\"'”’»)\]]{0,4}(?=\s)|[。！？｡]{1,8}[」』”）]{0,4}")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|a\.m|p\.m|cf|vs|no|nr|mr|mrs|ms|dr|st|approx)|\b[A-Z])\.$", re.I
)
_NUMBER = re.compile(r"\d{1,3}\.")
_RULER = re.compile(r"[\s|:+=*_-]*")
_HEADING = re.compile(r"#{1,6}\s")
_ITEM = re.compile(r"\s*(?:[*+>-]|\d{1,3}[.)])\s")
_ROW = re.compile(r"#{1,6}\s|\s*\||.*\t", re.DOTALL)
_SUFFIXES = ("ations", "ation", "ingly", "ments", "ment", "ings", "ing", "edly", "ies", "ers",
             "er", "ed", "ly", "es", "s", "e", "y")  # fmt: skip
_STOP = frozenset(
    """a about after all also am an and any are as at be because been before being but by can could
    did do does doing for from get had has have having he her here hers him his how i if in into is
    it its just may me might more most must my no not of on one only or other our out over own
    please same shall she should so some such tell than that the their them then there these they
    this those to too under until up us very was we were what when where which while who whom whose
    why will with would you your""".split()  # noqa: SIM905 - a word list reads best as words
)


@dataclass(frozen=True, slots=True)
class _Unit:
    start: int
    end: int
    heading: bool


def content_stems(text: str) -> frozenset[str]:
    """The stems of the words in `text` that carry meaning."""
    stems: set[str] = set()
    for match in _WORD.finditer(text.casefold()):
        word = match.group()
        unspaced = _UNSPACED.findall(word)
        for run in unspaced:
            stems.update(run[at : at + 2] for at in range(max(1, len(run) - 1)))
        if not unspaced and word not in _STOP:
            stems.add(_stem(word))
    return frozenset(stems)


def choose_spans(text: str, *, question: str, at_most: int = 3) -> tuple[Span, ...]:
    """The spans of `text` to quote, in reading order, neighbours joined.

    The units that share most stems with the question, none with less than half of the best one's.
    If none shares any, the opening unit; nothing only when the text is blank.
    """
    units = _units(text)
    spoken = [unit for unit in units if not unit.heading] or units
    if not spoken:
        return ()
    wanted = content_stems(question)
    shared = {unit: len(wanted & content_stems(text[unit.start : unit.end])) for unit in spoken}
    best = max(shared.values())
    if best == 0:
        return ((spoken[0].start, spoken[0].end),)
    ranked = sorted(spoken, key=lambda unit: (-shared[unit], unit.start))
    chosen = [unit for unit in ranked if shared[unit] * 2 >= best][:at_most]
    return _joined(sorted((unit.start, unit.end) for unit in chosen), text=text)


def _stem(word: str) -> str:
    if len(word) <= 3 or not word.isalpha():
        return word
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)]
    return word


def _units(text: str) -> list[_Unit]:
    """Sentences, within paragraphs and items; table rows and headings are units of their own."""
    units: list[_Unit] = []
    for start, end in _blocks(text):
        line = text[start:end]
        alone = _ROW.match(line)
        spans = [(start, end)] if alone else _sentences(text, start=start, end=end)
        heading = bool(_HEADING.match(line))
        for span in spans:
            units.extend(_Unit(*piece, heading=heading) for piece in _bounded(text, *span))
    return units


def _blocks(text: str) -> list[Span]:
    """Paragraphs and list items, whose sentences may span lines; rows and headings one by one."""
    blocks: list[Span] = []
    running = False
    at = 0
    for line in text.splitlines(keepends=True):
        start, at = at, at + len(line)
        bare = line.strip()
        row = bool(_ROW.match(line))
        if _RULER.fullmatch(bare):
            bare = ""
        if bare and running and not row and not _ITEM.match(line):
            blocks[-1] = (blocks[-1][0], start + len(line.rstrip()))
        elif bare:
            lead = len(line) - len(line.lstrip())
            blocks.append((start + lead, start + len(line.rstrip())))
        running = bool(bare) and not row
    return blocks


def _sentences(text: str, *, start: int, end: int) -> list[Span]:
    spans: list[Span] = []
    begin = start
    for match in _SENTENCE_END.finditer(text, start, end):
        spoken = text[begin : match.end()]
        if _ABBREVIATION.search(spoken[-8:]) or _NUMBER.fullmatch(spoken):
            continue
        spans.append((begin, match.end()))
        begin = match.end()
        while begin < end and text[begin].isspace():
            begin += 1
    if begin < end:
        spans.append((begin, end))
    return spans


def _bounded(text: str, start: int, end: int) -> list[Span]:
    """A run without any full stop is cut at spaces, so that a quotation stays one."""
    pieces: list[Span] = []
    while end - start > MAX_UNIT:
        space = text.rfind(" ", start + MAX_UNIT // 2, start + MAX_UNIT)
        cut = space if space > start else start + MAX_UNIT
        pieces.append((start, cut))
        start = cut + 1 if cut == space else cut
    if end > start:
        pieces.append((start, end))
    return pieces


def _joined(spans: list[Span], *, text: str) -> tuple[Span, ...]:
    """Neighbours with nothing but a single line break or spaces between them become one span."""
    joined: list[Span] = []
    for start, end in spans:
        gap = text[joined[-1][1] : start] if joined else "-"
        if not gap.strip() and "\n\n" not in gap.replace("\r", ""):
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return tuple(joined)
