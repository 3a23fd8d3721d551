"""PDF: the text layer, page by page, with web links. Pictures of text are left to an OCR engine, or
said to be such.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Mapping

from pypdf import PageObject, PdfReader
from pypdf.errors import DependencyError, PyPdfError

from retrieval.ingest.contract import Block, BlockList, Draft, FileToParse, ParseFailure
from retrieval.ingest.links import link_target
from retrieval.ingest.ocr import Recogniser
from retrieval.ingest.properties import split_tags

_HYPHEN_AT_END = re.compile(r"(?<=[a-zà-ÿ])[-\u00ad]$")
_ITEM_START = re.compile(r"\s*(?:[•◦▪●–-]\s|\(?\d{1,3}[.)]\s|\([a-z]\)\s)")
_ENDS_SENTENCE = (".", "!", "?", ":", "。", "！", "？", ".”", '."')
_PAGES_NAMED = 10
_MOST_ANNOTATIONS = 1_000
_MOST_LINKS = 20
_MOST_CONTENT = 4_000_000


def read(file: FileToParse) -> Draft:
    """Paragraphs with page numbers.

    Raises:
        ParseFailure: encrypted, scanned, no_text or corrupt.
    """
    try:
        return _read(file)
    except (DependencyError, NotImplementedError) as error:
        raise ParseFailure(
            "encrypted", "This PDF is encrypted in a way that can't be read here."
        ) from error
    except (
        PyPdfError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        RecursionError,
    ) as error:
        # pypdf lets all of these escape for damaged files.
        raise ParseFailure("corrupt", "This PDF is damaged and can't be read.") from error


def _read(file: FileToParse) -> Draft:
    reader = PdfReader(io.BytesIO(file.data))
    # Many PDFs are locked against changes only; those open with an empty password.
    if reader.is_encrypted and not reader.decrypt(""):
        raise ParseFailure(
            "encrypted", "This PDF is protected by a password. Remove it and upload the file again."
        )
    pages = _Pages(file, len(reader.pages))
    for number, page in enumerate(reader.pages, start=1):
        pages.add(page, number)
        if pages.blocks.is_full:
            break
    found, warnings = pages.finish()
    said: Mapping[str, object] = reader.metadata or {}

    def info(key: str) -> str:
        return str(said.get(key) or "").strip()

    return Draft(
        "application/pdf",
        found,
        title=info("/Title"),
        warnings=warnings,
        author=info("/Author"),
        dated=info("/ModDate") or info("/CreationDate"),
        tags=split_tags(info("/Keywords")),
    )


class _Pages:
    """Collects the paragraphs of one page after another, and what was left out."""

    def __init__(self, file: FileToParse, count: int) -> None:
        self.blocks = BlockList(file.limits)
        self._count = count
        self._recogniser = _recogniser(file)
        self._blank: list[int] = []
        self._busy = 0
        self._has_pictures = False

    def add(self, page: PageObject, number: int) -> None:
        """Take one page."""
        text = _text_of(page)
        if text is None:
            self._busy += 1
            return
        if not text.strip() and "/XObject" in (page.get("/Resources") or {}):
            self._has_pictures = True
            text = self._recogniser.read(number) if self._recogniser else ""
        if not text.strip():
            self._blank.append(number)
        for paragraph in [*_paragraphs(text), _links(page, text)]:
            self.blocks.add("paragraph", paragraph, page=number)

    def finish(self) -> tuple[list[Block], list[str]]:
        """The blocks and the warnings. Raises ParseFailure when there is no text."""
        found = self.blocks.finish()
        if found:
            return found, self._warnings()
        if self._has_pictures:
            raise ParseFailure(
                "scanned",
                "This PDF holds scanned images and no text. "
                "Run text recognition (OCR) on it and upload the result.",
            )
        if self._busy:
            raise ParseFailure("too_large", "The pages of this PDF are too complex to be read.")
        raise ParseFailure("no_text", "This PDF holds no text.")

    def _warnings(self) -> list[str]:
        said = self.blocks.warnings()
        if self._recogniser:
            said += self._recogniser.warnings()
        if self._blank:
            more = "…" if len(self._blank) > _PAGES_NAMED else ""
            named = ", ".join(map(str, self._blank[:_PAGES_NAMED])) + more
            said.append(
                f"{len(self._blank)} of {self._count} pages hold no text (blank or scanned): "
                f"{named}."
            )
        if self._busy:
            said.append(f"{self._busy} of {self._count} pages are too complex to be read.")
        return said


def _text_of(page: PageObject) -> str | None:
    """The text of a page; None for one of so many strokes that reading them would take too long
    and too much memory.
    """
    contents = page.get_contents()
    if contents is not None and len(contents.get_data()) > _MOST_CONTENT:
        return None
    return page.extract_text() or ""


def _recogniser(file: FileToParse) -> Recogniser | None:
    if not file.limits.ocr:
        return None
    try:
        return Recogniser(file.limits.ocr, file.data, seconds=file.limits.seconds)
    except LookupError:
        return None


def _links(page: PageObject, text: str) -> str:
    """The web addresses that a page links to without showing them."""
    found: dict[str, str] = {}
    for note in itertools.islice(page.get("/Annots") or (), _MOST_ANNOTATIONS):
        action = note.get_object().get("/A")
        address = str(action.get_object().get("/URI") or "") if action is not None else ""
        target = link_target(address, "link")
        if target and address not in text:
            found.setdefault(address, target)
        if len(found) == _MOST_LINKS:
            break
    return f"Links:{''.join(found.values())}" if found else ""


def _paragraphs(text: str) -> list[str]:
    """Lines of a page joined into paragraphs.

    A line ends a paragraph when the next is blank, begins an item, or when it is short and ends a
    sentence.
    """
    lines = [line.rstrip() for line in text.split("\n")]
    lengths = sorted(len(line) for line in lines if line)
    usual = lengths[int(len(lengths) * 0.8)] if lengths else 0
    paragraphs: list[str] = []
    current = ""
    before = 0
    for line in lines:
        if not line or (current and _ITEM_START.match(line)):
            paragraphs.append(current)
            current = ""
        if not line:
            continue
        current = _joined(current, line.strip(), is_flowing=before >= 0.6 * usual)
        before = len(line)
        if len(line) < 0.7 * usual and line.endswith(_ENDS_SENTENCE):
            paragraphs.append(current)
            current = ""
    paragraphs.append(current)
    return [paragraph for paragraph in paragraphs if paragraph.strip()]


def _joined(current: str, line: str, *, is_flowing: bool) -> str:
    """Lines of running text meet with a space, short ones (addresses, tables) stay lines."""
    if not current:
        return line
    if _HYPHEN_AT_END.search(current[-2:]) and line[:1].islower():
        return _HYPHEN_AT_END.sub("", current) + line
    return f"{current} {line}" if is_flowing else f"{current}\n{line}"
