"""From the bytes of one file to a document of blocks, or one sentence why not.

Promises: the content decides what a file is, never its name alone; short Markdown and text are read
here, everything else in the limited parser process; a result has text, all of it storable, within
the limits.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Generator
from dataclasses import replace
from email.message import Message
from pathlib import PurePosixPath

from django.conf import settings

from kaizen.kernel.text import is_blank, make_storable
from retrieval.ingest.archive import MEDIA_TYPES, Entry, Refused
from retrieval.ingest.contract import (
    MAX_UPLOAD_BYTES,
    ArchiveFound,
    Block,
    Draft,
    FileToParse,
    Parsed,
    ParseFailure,
    ParseLimits,
)
from retrieval.ingest.language import guess_language
from retrieval.ingest.ocr import SECONDS as OCR_SECONDS
from retrieval.ingest.ocr import list_engines
from retrieval.ingest.parser_pool import ParserPool, parser_pool
from retrieval.ingest.parser_process import read_file
from retrieval.ingest.properties import clean_author, clean_tags, find_date
from retrieval.ingest.sniff import find_kind

__all__ = [
    "MAX_UPLOAD_BYTES",
    "ArchiveFound",
    "Block",
    "Entry",
    "ParseFailure",
    "ParseLimits",
    "Parsed",
    "Refused",
    "parse",
    "unpack",
]

_IN_PROCESS = {"markdown", "text"}
# Reading Markdown takes linear time, but a hostile megabyte takes seconds: larger ones get the
# clock of the parser process too.
_LARGEST_IN_PROCESS = 1_000_000
_LONGEST_HEADING = 300
_LONGEST_TITLE = 300
_DEFAULT_LIMITS = ParseLimits()
logger = logging.getLogger(__name__)


def parse(
    data: bytes,
    *,
    name: str,
    media_type: str | None = None,
    limits: ParseLimits = _DEFAULT_LIMITS,
    pool: ParserPool | None = None,
) -> Parsed:
    """Read one file. `media_type` is what the sender claimed; its charset counts as a hint.

    Raises:
        ArchiveFound: it holds files, each a document of its own: `unpack` gives them.
        ParseFailure: with a code and a sentence for the person who uploaded it.
    """
    file = _file(data, name=name, media_type=media_type, limits=limits)
    if file.kind == "pdf" and limits is _DEFAULT_LIMITS and (engine := ocr_engine()):
        file = replace(file, limits=replace(limits, ocr=engine, seconds=OCR_SECONDS))
    if file.kind in _IN_PROCESS and len(data) <= _LARGEST_IN_PROCESS:
        draft = read_file(file)
    else:
        draft = (pool or parser_pool()).parse(file)
    return _settle(draft, name=name)


def unpack(
    data: bytes,
    *,
    name: str,
    limits: ParseLimits = _DEFAULT_LIMITS,
    pool: ParserPool | None = None,
) -> Generator[Entry | Refused, None, None]:
    """The files in an archive, one after another. Raises ParseFailure, also on the way."""
    file = _file(data, name=name, media_type=None, limits=limits)
    yield from (pool or parser_pool()).unpack(file)


def ocr_engine() -> str:
    """The engine that reads scanned pages, empty where none is wanted or the one wanted is
    missing.
    """
    wanted: str = settings.KAIZEN_OCR
    if not wanted or wanted in list_engines():
        return wanted
    logger.warning("KAIZEN_OCR names %s, which isn't installed", wanted)
    return ""


def archive_media_type(data: bytes, *, name: str) -> str:
    """The media type of an archive, empty for any other file."""
    try:
        kind = find_kind(data, name=name, media_type=None)
    except ParseFailure:
        return ""
    return MEDIA_TYPES.get(kind, "")


def _file(data: bytes, *, name: str, media_type: str | None, limits: ParseLimits) -> FileToParse:
    """The file with its kind. Raises ParseFailure."""
    if len(data) > limits.max_bytes:
        raise ParseFailure(
            "too_large", f"The file is larger than {limits.max_bytes // (1024 * 1024)} MB."
        )
    if not data.strip(b" \t\r\n\x0b\x0c\x00"):
        raise ParseFailure("empty" if not data else "no_text", "The file is empty.")
    kind = find_kind(data, name=name, media_type=media_type)
    return FileToParse(data, kind, name, _charset_of(media_type), limits)


def _settle(draft: Draft, *, name: str) -> Parsed:
    """Make every text storable, drop what is blank, and give the document its title."""
    nuls = surrogates = 0
    blocks: list[Block] = []
    for block in draft.blocks:
        storable = make_storable(block.text)
        text = storable.text
        if storable.replaced:
            found = block.text.count("\x00")
            nuls += found
            surrogates += storable.replaced - found
        if is_blank(text):
            continue
        if block.kind == "heading" and len(text) > _LONGEST_HEADING:
            blocks.append(Block("paragraph", text, 0, block.page))
        elif text is block.text:
            blocks.append(block)
        else:
            blocks.append(Block(block.kind, text, block.level, block.page))
    if not blocks:
        raise ParseFailure("no_text", "The file holds no text.")
    warnings = [make_storable(warning).text for warning in draft.warnings]
    for count, what in ((nuls, "NUL character"), (surrogates, "lone surrogate")):
        if count:
            warnings.append(f"{count} {what}{'' if count == 1 else 's'} replaced.")
    return Parsed(
        title=_title(draft.title, name),
        language=guess_language(blocks, declared=draft.language),
        blocks=tuple(blocks),
        encoding=draft.encoding,
        media_type=draft.media_type,
        warnings=tuple(warnings),
        author=clean_author(draft.author),
        dated_at=find_date(draft.dated),
        tags=clean_tags(draft.tags),
    )


def _title(found: str, name: str) -> str:
    """The document's own title, else the file's name without its ending."""
    title = " ".join(make_storable(found).text.split())
    if not title:
        last = re.split(r"[/\\]", name)[-1]
        title = " ".join(make_storable(PurePosixPath(last).stem).text.split()) or "Untitled"
    return title if len(title) <= _LONGEST_TITLE else f"{title[: _LONGEST_TITLE - 1]}…"


def _charset_of(media_type: str | None) -> str | None:
    if not media_type or ";" not in media_type:
        return None
    header = Message()
    header["content-type"] = media_type.replace("\r", " ").replace("\n", " ")
    return header.get_content_charset()
