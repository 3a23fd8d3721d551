"""XLSX: each sheet a heading and one table of shown values.

Never believes the size a sheet claims to have: rows are read one by one as they stand in the file.
"""

from __future__ import annotations

import datetime as dt
import io
import zipfile
from collections.abc import Iterator
from typing import Any

from openpyxl import load_workbook
from openpyxl.utils.exceptions import InvalidFileException

from retrieval.ingest.contract import BlockList, Draft, FileToParse, ParseFailure
from retrieval.ingest.formats.package import core_properties
from retrieval.ingest.formats.tables import pipe_table

MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_DAMAGES = (
    InvalidFileException,
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    IndexError,
    SyntaxError,
)


def read(file: FileToParse, package: zipfile.ZipFile, _main_part: str) -> Draft:
    """The sheets of a workbook. The package was checked by the caller."""
    blocks = BlockList(file.limits)
    warnings: list[str] = []
    try:
        workbook = load_workbook(
            io.BytesIO(file.data), read_only=True, data_only=True, keep_links=False
        )
        for sheet in workbook.worksheets:
            if sheet.sheet_state != "visible":
                warnings.append(f"The hidden sheet “{sheet.title}” was read too.")
            sheet.reset_dimensions()
            table = pipe_table(_rows(sheet), max_characters=file.limits.max_characters)
            if table:
                blocks.add("heading", sheet.title, level=2)
                blocks.add("table", table)
            if blocks.is_full:
                break
        workbook.close()
    except _DAMAGES as error:
        # openpyxl lets all of these escape for damaged files (XML errors are SyntaxErrors).
        raise ParseFailure("corrupt", "This workbook is damaged and can't be read.") from error
    said = core_properties(package)
    return Draft(
        MEDIA_TYPE,
        blocks.finish(),
        title=said.title,
        warnings=[*warnings, *blocks.warnings()],
        author=said.author,
        dated=said.dated,
        tags=said.tags,
    )


def _rows(sheet: Any) -> Iterator[list[str]]:
    """Rows as text, without the blank cells at their end."""
    for row in sheet.iter_rows(values_only=True):
        cells = [_shown(value) for value in row]
        while cells and not cells[-1].strip():
            cells.pop()
        if cells:
            yield cells


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, dt.datetime):
        return (
            value.date().isoformat()
            if value.time() == dt.time()
            else value.isoformat(" ", "minutes")
        )
    return str(value)
