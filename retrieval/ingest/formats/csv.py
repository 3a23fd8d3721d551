"""CSV: one table, the first row its header. Delimiter and encoding are found, ragged rows are
kept."""

from __future__ import annotations

import csv
import io
import itertools
from collections import Counter
from collections.abc import Iterator

from retrieval.ingest.charset import decode
from retrieval.ingest.contract import BlockList, Draft, FileToParse, ParseFailure
from retrieval.ingest.formats.tables import pipe_table

_DELIMITERS = ",;\t|"
_SAMPLE_ROWS = 50
_LONGEST_CELL = 10_000_000
_RAGGED_ROWS_NAMED = 5


def read(file: FileToParse) -> Draft:
    """The rows of a CSV file; cells beyond the header stay in their row and are reported."""
    decoded = decode(file.data, declared=[file.charset])
    text, delimiter = _find_delimiter(decoded.text)
    csv.field_size_limit(_LONGEST_CELL)
    ragged: list[tuple[int, int]] = []
    blocks = BlockList(file.limits)
    try:
        table = pipe_table(
            _even_rows(_rows(text, delimiter), ragged),
            max_characters=file.limits.max_characters + 1,
        )
    except csv.Error as error:
        raise ParseFailure("corrupt", "This CSV file can't be read: a cell never ends.") from error
    blocks.add("table", table)
    warnings = [*_ragged_warnings(ragged), *blocks.warnings()]
    if decoded.lost:
        warnings.append(f"{decoded.lost} places couldn't be read as {decoded.encoding}.")
    return Draft("text/csv", blocks.finish(), encoding=decoded.encoding, warnings=warnings)


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)


def _find_delimiter(text: str) -> tuple[str, str]:
    """The text without Excel's `sep=` line, and the delimiter that splits most rows alike."""
    first, _, rest = text.partition("\n")
    if first.strip().lower().startswith("sep=") and len(first.strip()) == 5:
        return rest, first.strip()[4]
    sample = text[:65_536]
    return text, max(_DELIMITERS, key=lambda delimiter: _evenness(sample, delimiter))


def _evenness(sample: str, delimiter: str) -> tuple[int, int]:
    counts: Counter[int] = Counter()
    try:
        for row in itertools.islice(_rows(sample, delimiter), _SAMPLE_ROWS):
            if len(row) > 1:
                counts[len(row)] += 1
    except csv.Error:
        return (0, 0)
    if not counts:
        return (0, 0)
    width, rows = counts.most_common(1)[0]
    return (sum(counts.values()) + rows, width)


def _even_rows(rows: Iterator[list[str]], ragged: list[tuple[int, int]]) -> Iterator[list[str]]:
    """Rows filled up to the header's width; (row number, extra cells) of longer ones go to
    `ragged`."""
    width = 0
    number = 0
    for row in rows:
        if not any(cell.strip() for cell in row):
            continue
        if width == 0:
            width = len(row)
        elif len(row) < width:
            row = row + [""] * (width - len(row))
        elif len(row) > width and any(cell.strip() for cell in row[width:]):
            ragged.append((number, len(row) - width))
        number += 1
        yield row


def _ragged_warnings(ragged: list[tuple[int, int]]) -> list[str]:
    named = [
        f"Row {number} has {extra} extra {'cell' if extra == 1 else 'cells'} beyond the header."
        for number, extra in ragged[:_RAGGED_ROWS_NAMED]
    ]
    if len(ragged) > _RAGGED_ROWS_NAMED:
        named.append(f"{len(ragged) - _RAGGED_ROWS_NAMED} more rows have extra cells.")
    return named
