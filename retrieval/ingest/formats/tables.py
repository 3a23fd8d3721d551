"""Tables as text: Markdown pipe tables, one line a row, so that rows can be split, shown and
searched."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_LINE_BREAKS = re.compile(r"[ \t]*(?:\r\n|[\r\n\x0b\x0c\u2028\u2029])[ \t]*")


def pipe_row(cells: Sequence[str]) -> str:
    """One row. Line breaks inside a cell become `<br>`, a pipe is escaped."""
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def pipe_table(rows: Iterable[Sequence[str]], *, max_characters: int) -> str:
    """A table whose first row is its header; rows without any text are left out.

    Stops after `max_characters`, so that rows may come from an endless reader.
    """
    lines: list[str] = []
    size = 0
    for cells in rows:
        if not any(cell.strip() for cell in cells):
            continue
        line = pipe_row(cells)
        if not lines:
            lines += [line, pipe_rule(len(cells))]
        else:
            lines.append(line)
        size += len(line) + 1
        if size > max_characters:
            break
    return "\n".join(lines)


def pipe_rule(columns: int) -> str:
    """The line under a header."""
    return "|" + " --- |" * columns


def _cell(text: str) -> str:
    return _LINE_BREAKS.sub("<br>", text.strip()).replace("|", "\\|")
