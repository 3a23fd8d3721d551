"""What files say of themselves, and the links they hold, in each format."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest
from docx import Document
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from openpyxl import Workbook
from pptx import Presentation
from pypdf import PdfReader, PdfWriter
from pypdf.annotations import Link
from pypdf.generic import DictionaryObject, NameObject, TextStringObject

from retrieval.ingest.chunk import chunk, embedding_text
from retrieval.ingest.links import link_target, without_targets
from retrieval.ingest.parse import Parsed, parse
from retrieval.ingest.properties import clean_author, clean_tags, find_date
from tests.retrieval.ingest import samples

WHEN = datetime(2025, 3, 4, 9, 30, tzinfo=UTC)


def said(parsed: Parsed) -> tuple[str, datetime | None, tuple[str, ...]]:
    return parsed.author, parsed.dated_at, parsed.tags


def office(kind: str) -> bytes:
    """A file whose core properties are set."""
    stream = io.BytesIO()
    if kind == "xlsx":
        workbook = Workbook()
        workbook.active.append(["a", "b"])
        properties = workbook.properties
        properties.creator = "Ana Blum"
        save = workbook.save
    else:
        file = Document() if kind == "docx" else Presentation()
        if kind == "docx":
            file.add_paragraph("Words.")
        else:
            file.slides.add_slide(file.slide_layouts[5]).shapes.title.text = "Words"
        properties = file.core_properties
        properties.author = "Ana Blum"
        save = file.save
    properties.modified = WHEN.replace(tzinfo=None)
    properties.keywords = "travel; rules"
    save(stream)
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["docx", "pptx", "xlsx"])
def test_office_files_name_author_date_and_tags(kind: str) -> None:
    author, dated_at, tags = said(parse(office(kind), name=f"a.{kind}"))
    # openpyxl writes the moment of saving.
    assert (author, tags) == ("Ana Blum", ("travel", "rules"))
    assert dated_at == WHEN or (kind == "xlsx" and dated_at is not None)


def test_pdf_info_names_author_date_and_tags() -> None:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(samples.pdf("Words."))))
    writer.add_metadata(
        {"/Author": "Ana Blum", "/ModDate": "D:20250304103000+01'00'", "/Keywords": "travel, rules"}
    )
    stream = io.BytesIO()
    writer.write(stream)
    assert said(parse(stream.getvalue(), name="a.pdf")) == ("Ana Blum", WHEN, ("travel", "rules"))


def test_html_names_author_date_and_tags() -> None:
    page = b"""<html><head><meta name="Author" content="Ana Blum"><meta name="keywords"
    content="travel, rules"><meta property="article:published_time" content="2020-01-01">
    <meta property="article:modified_time" content="2025-03-04T09:30:00Z"></head><p>Words.</p>"""
    assert said(parse(page, name="a.html")) == ("Ana Blum", WHEN, ("travel", "rules"))


def test_email_is_by_its_sender_at_its_date() -> None:
    assert said(parse(samples.eml(), name="a.eml")) == (
        "Ana <ana@example.org>",
        datetime(2026, 11, 2, 9, tzinfo=UTC),
        (),
    )


@pytest.mark.parametrize(
    "tags", ["tags: travel, rules", "tags: [travel, 'rules']", 'tags:\n  - travel\n  - "rules"']
)
def test_front_matter_names_author_date_and_tags(tags: str) -> None:
    text = f"---\ntitle: T\nauthor: Ana Blum\ndate: 2025-03-04 09:30:00Z\n{tags}\n---\nWords."
    parsed = parse(text.encode(), name="a.md")
    assert said(parsed) == ("Ana Blum", WHEN, ("travel", "rules"))
    assert [block.text for block in parsed.blocks] == ["Words."]


def test_csv_and_text_say_nothing_of_themselves() -> None:
    assert said(parse(b"a,b\n1,2", name="a.csv")) == ("", None, ())
    assert said(parse(b"Words.", name="a.txt")) == ("", None, ())


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2025-03-04T09:30:00+00:00", WHEN),
        ("D:20250304093000Z", WHEN),
        ("D:2025", datetime(2025, 1, 1, tzinfo=UTC)),
        ("Tue, 04 Mar 2025 10:30:00 +0100", WHEN),
        ("2025/3/4", datetime(2025, 3, 4, tzinfo=UTC)),
        ("1601-01-01T00:00:00Z", None),
        ("2999-01-01", None),
        ("yesterday", None),
        ("20259999999999", None),
        ("0001-01-01T00:00:00+23:59", None),
        ("9" * 70, None),
        ("\x00", None),
    ],
)
def test_dates_are_read_in_every_notation_and_nonsense_is_dropped(
    text: str, moment: datetime | None
) -> None:
    assert find_date(text) == moment


def test_a_date_in_the_future_is_not_believed() -> None:
    assert find_date((datetime.now(tz=UTC) + timedelta(days=2)).isoformat()) is None


def test_authors_and_tags_are_bounded() -> None:
    assert clean_author("  Ana\x00\u202e \n Blum ") == "Ana\ufffd Blum"
    assert (clean_author("python-docx"), len(clean_author("x" * 999))) == ("", 200)
    tags = clean_tags(["A", "a", " ", "x" * 61, *(f"t{n}" for n in range(50))])
    assert (len(tags), tags[:2]) == (20, ("A", "t0"))


def docx_with_link() -> bytes:
    document = Document()
    paragraph = document.add_paragraph("See ")
    link = OxmlElement("w:hyperlink")
    key = paragraph.part.relate_to("https://example.org/x", RELATIONSHIP_TYPE.HYPERLINK, True)
    link.set(qn("r:id"), key)
    run = OxmlElement("w:r")
    words = OxmlElement("w:t")
    words.text = "the rules"
    run.append(words)
    link.append(run)
    paragraph._p.append(link)
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def pptx_with_link() -> bytes:
    presentation = Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    frame = slide.placeholders[1].text_frame
    frame.text = "See "
    run = frame.paragraphs[0].add_run()
    run.text, run.hyperlink.address = "the rules", "https://example.org/x"
    stream = io.BytesIO()
    presentation.save(stream)
    return stream.getvalue()


def pdf_with_link() -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(samples.pdf("See the rules"))))
    note = Link(rect=(0, 0, 9, 9), url="https://example.org/x")
    writer.add_annotation(0, note)
    writer.pages[0]["/Annots"].append(
        DictionaryObject(
            {
                NameObject("/A"): DictionaryObject(
                    {NameObject("/URI"): TextStringObject("javascript:x()")}
                )
            }
        )
    )
    stream = io.BytesIO()
    writer.write(stream)
    return stream.getvalue()


KEPT = "See the rules <https://example.org/x>"


@pytest.mark.parametrize(
    ("data", "name", "text"),
    [
        (b"See [the rules](https://example.org/x 'T')", "a.md", KEPT),
        (b"See [the rules][r]\n\n[r]: https://example.org/x", "a.md", KEPT),
        (b"See [*the* rules](https://example.org/x)", "a.md", KEPT),
        (b"![the rules](https://example.org/x)", "a.md", "the rules"),
        (b"See [the rules](/inside.md)", "a.md", "See the rules"),
        (b"See [a_b_c](https://example.org/a_b_c?x=1&y=2)", "a.md",
         "See a_b_c <https://example.org/a_b_c?x=1&y=2>"),
        (b"<https://example.org/x>", "a.md", "https://example.org/x"),
        (b"<p>See <a href='https://example.org/x'>the <b>rules</b></a></p>", "a.html", KEPT),
        (b"<p>See <a href='javascript:x()'>the rules</a></p>", "a.html", "See the rules"),
        (b"<p>See <a href='https://example.org/x'>example.org/x</a></p>", "a.html",
         "See example.org/x"),
        (b"<a href='https://example.org/x'><h2>Card</h2></a><p>Words</p>", "a.html", "Card"),
        (docx_with_link(), "a.docx", KEPT),
        (pptx_with_link(), "a.pptx", KEPT),
    ],
)  # fmt: skip
def test_web_links_follow_their_labels(data: bytes, name: str, text: str) -> None:
    assert parse(data, name=name).blocks[0].text == text


def test_a_link_in_a_table_stays_in_its_cell() -> None:
    page = b"<table><tr><td>a</td><td><a href='https://example.org/x'>b</a></td></tr></table>"
    assert "| a | b <https://example.org/x> |" in parse(page, name="a.html").blocks[0].text


def test_the_links_of_a_pdf_page_stand_below_it() -> None:
    parsed = parse(pdf_with_link(), name="a.pdf")
    assert [(block.text, block.page) for block in parsed.blocks] == [
        ("See the rules", 1),
        ("Links: <https://example.org/x>", 1),
    ]


def test_addresses_are_neither_counted_nor_embedded() -> None:
    address = f"https://example.org/{'x' * 250}"
    parsed = parse(f"See [the rules]({address}) today.".encode(), name="a.md")
    (passage,) = chunk(parsed, count_tokens=len, max_tokens=40)
    assert passage.text == f"See the rules <{address}> today."
    assert embedding_text("Title", passage) == "Title\nSee the rules today."


def test_only_short_absolute_addresses_are_kept() -> None:
    assert link_target("https://example.org", "label") == " <https://example.org>"
    for address in (None, "", "/x", "file:///etc/passwd", "https://a b", f"https://{'x' * 300}"):
        assert link_target(address, "label") == ""
    assert without_targets("a <b> <https://x.org> c") == "a <b> c"
