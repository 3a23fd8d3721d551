"""Markdown by one pass over its lines: headings, paragraphs, lists, pipe tables and code.

Promises: time grows with the length of the file whatever it holds. Front matter gives title,
author, date and tags and is dropped, as are comments and formatting marks: what is left is what a
reader would see, and the addresses of web links. Not a renderer: nothing here makes HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from retrieval.ingest.charset import decode
from retrieval.ingest.contract import Block, BlockList, Draft, FileToParse, ParseLimits
from retrieval.ingest.formats.front_matter import split_front_matter
from retrieval.ingest.formats.markdown_inline import plain
from retrieval.ingest.formats.tables import pipe_table

_FENCE = re.compile(r"\s*(`{3,}|~{3,})([^`]*)$")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_HEADING_TAIL = re.compile(r"[ \t]+#+[ \t]*$|[ \t]*\{[:#][^{}]{0,200}\}[ \t]*$")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_BREAK = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_ITEM = re.compile(r"([ \t]*)([-*+]|\d{1,9}[.)])(?:[ \t]+(.*)|$)")
_QUOTE = re.compile(r"(?: {0,3}> ?)+")
_TABLE_RULE = re.compile(r"\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?$")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_DROPPED_LINE = re.compile(r" {0,3}(?:\[(?!\^)[^\]]{1,200}\]:[ \t]*\S+.*|\{[:#][^{}]{0,200}\})$")
# Openings of passages that no reader sees, with what closes them.
_HIDDEN = (
    (re.compile(r"\s*<!--"), re.compile(r"-->")),
    (re.compile(r"\s*\{%-?\s*comment\b"), re.compile(r"\{%-?\s*endcomment\s*-?%\}")),
    (re.compile(r"\s*<script\b", re.I), re.compile(r"</script\s*>", re.I)),
    (re.compile(r"\s*<style\b", re.I), re.compile(r"</style\s*>", re.I)),
)
_DEFINITION = re.compile(
    r" {0,3}\[(?!\^)([^\]\n]{1,200})\]:[ \t]*<?(\S{1,2000}?)>?(?:[ \t].*)?$", re.M
)
_MOST_DEFINITIONS = 2_000


def read(file: FileToParse) -> Draft:
    """The blocks of a Markdown file."""
    decoded = decode(file.data, declared=[file.charset])
    text = decoded.text.replace("\r\n", "\n").replace("\r", "\n")
    front, body = split_front_matter(text)
    reader = _LineReader(body, file.limits)
    reader.run()
    blocks = reader.blocks.finish()
    warnings = reader.blocks.warnings()
    shown = [front[key][0] for key in ("title", "redirect_to") if key in front]
    if not blocks and shown:
        # A page that only redirects still answers "where is it?".
        blocks = [Block("paragraph", plain("\n".join(shown)))]
        warnings.append("The file holds nothing but its front matter.")
    if decoded.lost:
        warnings.append(f"{decoded.lost} places couldn't be read as {decoded.encoding}.")
    return Draft(
        "text/markdown",
        blocks,
        title=front.get("title", [""])[0] or reader.first_heading,
        encoding=decoded.encoding,
        warnings=warnings,
        author=", ".join(front.get("author", [])),
        dated=(front.get("updated") or front.get("date") or [""])[0],
        tags=front.get("tags", []),
    )


def _definitions(text: str) -> dict[str, str]:
    """The addresses that labels stand for, by label in lower case."""
    found: dict[str, str] = {}
    if "]:" not in text:
        return found
    for match in _DEFINITION.finditer(text):
        found.setdefault(match[1].strip().lower(), match[2])
        if len(found) == _MOST_DEFINITIONS:
            break
    return found


class _LineReader:
    """A state machine: each line either continues what is open or closes it and opens something
    else."""

    def __init__(self, text: str, limits: ParseLimits) -> None:
        self.blocks = BlockList(limits)
        self._limits = limits
        self.first_heading = ""
        self._lines = text.split("\n")
        self._at = 0
        self._paragraph: list[str] = []
        self._item: list[str] = []
        self._item_mark = ""
        self._after_blank = False
        self._never_closed: set[re.Pattern[str]] = set()
        self._targets = _definitions(text)

    def run(self) -> None:
        while self._at < len(self._lines) and not self.blocks.is_full:
            line = self._lines[self._at]
            self._at += 1
            self._line(line)
        self._close()

    def _line(self, line: str) -> None:
        if not line.strip():
            self._after_blank = True
            self._close_paragraph()
            return
        hidden = self._hidden(line)
        if hidden is not None:
            if not hidden.strip():
                return
            line = hidden
        if (quote := _QUOTE.match(line)) is not None:
            line = line[quote.end() :]
        if not (self._code(line) or self._heading(line) or self._table(line) or self._list(line)):
            self._text(line)
        self._after_blank = False

    def _hidden(self, line: str) -> str | None:
        """Skip a comment or script that begins here; what follows its end, or None if none
        begins."""
        for opening, closing in _HIDDEN:
            start = opening.match(line)
            if start is None or closing in self._never_closed:
                continue
            if (end := closing.search(line, start.end())) is not None:
                return line[end.end() :]
            for at in range(self._at, len(self._lines)):
                if (end := closing.search(self._lines[at])) is not None:
                    self._at = at + 1
                    return self._lines[at][end.end() :]
            # Never closed, so it is text; remembered, or each further opening would search to the
            # end again.
            self._never_closed.add(closing)
        return None

    def _code(self, line: str) -> bool:
        fence = _FENCE.match(line)
        if fence is not None:
            self._close()
            self.blocks.add("code", "\n".join(self._until_fence(fence.group(1))))
            return True
        if line.startswith(("    ", "\t")) and not self._paragraph and not self._item:
            code = [line]
            while self._at < len(self._lines) and self._lines[self._at].startswith(("    ", "\t")):
                code.append(self._lines[self._at])
                self._at += 1
            self.blocks.add("code", "\n".join(code))
            return True
        return False

    def _until_fence(self, mark: str) -> Iterator[str]:
        closing = re.compile(rf"\s*{mark[0]}{{{len(mark)},}}\s*$")
        while self._at < len(self._lines):
            line = self._lines[self._at]
            self._at += 1
            if closing.match(line):
                return
            yield line

    def _heading(self, line: str) -> bool:
        if (heading := _HEADING.match(line)) is not None:
            self._close()
            text = heading.group(2) or ""
            # An anchor and the closing marks, in either order.
            for _ in range(2):
                if (tail := _HEADING_TAIL.search(text[-250:])) is not None:
                    text = text[: len(text) - len(tail.group())]
            self._add_heading(self._plain(text), len(heading.group(1)))
            return True
        if self._paragraph and not self._item and (rule := _SETEXT.match(line)) is not None:
            text = self._plain(" ".join(self._paragraph))
            self._paragraph = []
            self._add_heading(text, 1 if rule.group(1)[0] == "=" else 2)
            return True
        if _BREAK.match(line):
            self._close()
            return True
        return bool(_DROPPED_LINE.match(line[:2000]))

    def _add_heading(self, text: str, level: int) -> None:
        if level == 1 and not self.first_heading:
            self.first_heading = text
        self.blocks.add("heading", text, level=level)

    def _table(self, line: str) -> bool:
        if "|" not in line or self._at >= len(self._lines):
            return False
        rule = self._lines[self._at]
        if "|" not in rule or len(rule) > 5000 or not _TABLE_RULE.match(rule.strip()):
            return False
        self._close()
        rows = [self._cells(line)]
        self._at += 1
        while self._at < len(self._lines) and "|" in self._lines[self._at]:
            rows.append(self._cells(self._lines[self._at]))
            self._at += 1
        self.blocks.add("table", pipe_table(rows, max_characters=self._limits.max_characters))
        return True

    def _cells(self, line: str) -> list[str]:
        inner = line.strip().removeprefix("|")
        if inner.endswith("|") and not inner.endswith("\\|"):
            inner = inner[:-1]
        return [self._plain(cell.replace("\\|", "|")) for cell in _CELL_BORDER.split(inner)]

    def _plain(self, text: str) -> str:
        return plain(text, self._targets)

    def _list(self, line: str) -> bool:
        item = _ITEM.match(line)
        if item is not None and not (self._paragraph and item.group(3) is None):
            self._close()
            depth = min(len(item.group(1).replace("\t", "    ")) // 2, 8)
            mark = item.group(2) if item.group(2)[0].isdigit() else "-"
            self._item_mark = f"{'  ' * depth}{mark} "
            self._item = [item.group(3) or ""]
            return True
        if self._item:
            if self._after_blank and not line.startswith(("  ", "\t")):
                self._close()
                return False
            self._item.append(f"\n{line.strip()}" if self._after_blank else line.strip())
            return True
        return False

    def _text(self, line: str) -> None:
        is_hard_break = line.endswith(("  ", "\\"))
        self._paragraph.append(line.strip().removesuffix("\\") + ("\n" if is_hard_break else ""))

    def _close_paragraph(self) -> None:
        if self._paragraph:
            self.blocks.add("paragraph", self._plain(_join(self._paragraph)))
            self._paragraph = []

    def _close(self) -> None:
        self._close_paragraph()
        if self._item:
            text = self._plain(_join(self._item)).strip()
            if text:
                self.blocks.add("list", self._item_mark + text)
            self._item = []


def _join(lines: list[str]) -> str:
    return re.sub(r" ?\n ?", "\n", " ".join(lines)).strip()
