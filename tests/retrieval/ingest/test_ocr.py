"""Scanned pages: said to be such, or read by an engine that another package brings."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter

from retrieval.ingest import parser_pool
from retrieval.ingest.contract import ParseFailure
from retrieval.ingest.ocr import list_engines
from retrieval.ingest.parse import parse
from retrieval.ingest.parser_pool import ParserPool
from tests.retrieval.ingest import samples

PACKAGE = Path(__file__).resolve().parents[2] / "ocr_engine"


def scan(*, pages: int, text_page: str = "") -> bytes:
    """A PDF of pages that are one picture each, and a page with text at its end."""
    picture = samples.pdf(content=b"/Im Do").replace(
        b"/Resources<</Font<</F 3 0 R>>>>", b"/Resources<</XObject<</Im 3 0 R>>>>"
    )
    writer = PdfWriter()
    for _ in range(pages):
        writer.append(PdfReader(io.BytesIO(picture)))
    if text_page:
        writer.append(PdfReader(io.BytesIO(samples.pdf(text_page))))
    stream = io.BytesIO()
    writer.write(stream)
    return stream.getvalue()


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, settings: object) -> ParserPool:
    """The engine installed and wanted, and a pool whose processes find it."""
    monkeypatch.syspath_prepend(str(PACKAGE))
    known = parser_pool._environment()
    monkeypatch.setattr(parser_pool, "_environment", lambda: {**known, "PYTHONPATH": str(PACKAGE)})
    settings.KAIZEN_OCR = "tiny"  # type: ignore[attr-defined]
    pool = ParserPool()
    yield pool
    pool.close()


def test_without_an_engine_a_scan_is_said_to_be_one() -> None:
    with pytest.raises(ParseFailure) as caught:
        parse(scan(pages=2), name="a.pdf")
    assert caught.value.code == "scanned"


def test_an_engine_reads_scanned_pages_in_the_parser_process(engine: ParserPool) -> None:
    parsed = parse(scan(pages=4, text_page="Printed words."), name="a.pdf", pool=engine)
    assert [(block.text, block.page) for block in parsed.blocks] == [
        ("Recognised words of page 1, True.", 1),
        ("Recognised words of page 2, True.", 2),
        ("Printed words.", 5),
    ]
    assert parsed.warnings == (
        "2 pages were read by text recognition, which makes mistakes.",
        "1 page couldn't be read by text recognition.",
        "2 of 5 pages hold no text (blank or scanned): 3, 4.",
    )


def test_an_engine_that_is_not_installed_is_as_none(settings: object) -> None:
    settings.KAIZEN_OCR = "missing"  # type: ignore[attr-defined]
    assert "missing" not in list_engines()
    with pytest.raises(ParseFailure) as caught:
        parse(scan(pages=1), name="a.pdf")
    assert caught.value.code == "scanned"
