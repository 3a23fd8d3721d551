"""PPTX: each slide is a page, its title a heading; tables stay tables and speaker notes are
kept."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any

from pptx import Presentation
from pptx.exc import PythonPptxError
from pptx.util import Length

from retrieval.ingest.contract import BlockList, Draft, FileToParse, ParseFailure
from retrieval.ingest.formats.package import core_properties
from retrieval.ingest.formats.tables import pipe_table
from retrieval.ingest.links import link_target

MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
_DEEPEST_GROUP = 20


def read(file: FileToParse, package: zipfile.ZipFile, _main_part: str) -> Draft:
    """The slides of a presentation. The package was checked by the caller."""
    blocks = BlockList(file.limits)
    try:
        presentation = Presentation(io.BytesIO(file.data))
        for number, slide in enumerate(presentation.slides, start=1):
            _add_slide(slide, number, blocks, file)
            if blocks.is_full:
                break
    except (
        PythonPptxError,
        KeyError,
        ValueError,
        AttributeError,
        IndexError,
        TypeError,
        SyntaxError,
    ) as error:
        # python-pptx lets all of these escape for damaged files (XML errors are SyntaxErrors).
        raise ParseFailure("corrupt", "This presentation is damaged and can't be read.") from error
    said = core_properties(package)
    return Draft(
        MEDIA_TYPE,
        blocks.finish(),
        # What the library writes when nobody gave a title.
        title="" if said.title == "PowerPoint Presentation" else said.title,
        warnings=blocks.warnings(),
        author=said.author,
        dated=said.dated,
        tags=said.tags,
    )


# python-pptx carries no types, so its objects are Any here.
def _add_slide(slide: Any, number: int, blocks: BlockList, file: FileToParse) -> None:
    title = slide.shapes.title
    if title is not None and title.has_text_frame:
        blocks.add("heading", " ".join(title.text_frame.text.split()), level=2, page=number)
    for shape in sorted(_flat(slide.shapes), key=_place):
        if title is not None and shape.shape_id == title.shape_id:
            continue
        if getattr(shape, "has_table", False):
            rows = ([cell.text_frame.text for cell in row.cells] for row in shape.table.rows)
            table = pipe_table(rows, max_characters=file.limits.max_characters)
            blocks.add("table", table, page=number)
        elif shape.has_text_frame:
            _add_frame(shape.text_frame, number, blocks)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.strip()
        blocks.add("paragraph", f"Notes: {notes}" if notes else "", page=number)


def _add_frame(frame: Any, number: int, blocks: BlockList) -> None:
    paragraphs = [(item.level, _words(item)) for item in frame.paragraphs]
    filled = [(level, text) for level, text in paragraphs if text]
    if len(filled) == 1:
        blocks.add("paragraph", filled[0][1], page=number)
        return
    for level, text in filled:
        blocks.add("list", f"{'  ' * level}- {text}", page=number)


def _words(paragraph: Any) -> str:
    """A paragraph's text, the addresses of its links after their labels."""
    text = str(paragraph.text)
    for run in paragraph.runs:
        if run.text and run.hyperlink.address:
            label = str(run.text)
            text = text.replace(label, label + link_target(run.hyperlink.address, label), 1)
    return text.replace("\v", "\n").strip()


def _flat(shapes: Any, depth: int = 0) -> Iterator[Any]:
    for shape in shapes:
        if hasattr(shape, "shapes") and depth < _DEEPEST_GROUP:
            yield from _flat(shape.shapes, depth + 1)
        else:
            yield shape


def _place(shape: Any) -> tuple[int, int]:
    """Reading order: rows of about a centimetre from the top, then from the left."""
    top: Length | None = shape.top
    left: Length | None = shape.left
    return (int(top or 0) // 360_000, int(left or 0))
