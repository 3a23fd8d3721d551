"""Each format as its own software writes it, and each named kind of bad file."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from retrieval.ingest.contract import MAX_UPLOAD_BYTES, ParseFailure, ParseLimits
from retrieval.ingest.parse import parse
from tests.retrieval.ingest import samples

OFFICE = "application/vnd.openxmlformats-officedocument."


def outline(data: bytes, name: str) -> list[tuple[str, str]]:
    return [(block.kind, block.text) for block in parse(data, name=name).blocks]


def code_of(data: bytes, name: str, **more: object) -> str:
    with pytest.raises(ParseFailure) as caught:
        parse(data, name=name, **more)  # type: ignore[arg-type]
    return caught.value.code


def code_or_ok(data: bytes) -> str:
    try:
        parse(data, name="file")
    except ParseFailure as failure:
        return failure.code
    return "ok"


MARKDOWN = """---
title: "Leave"
keywords: a, b
---
Intro with a [link](https://example.org/a_(b)) and **bold** `co_de*`.
<!-- hidden
note -->

# Leave

Setext
------

* one
* two [![pic](x.png)](y)
  goes on

    * nested

1. first

| A | B |
|---|:-:|
| 1 \\| 2 | **x** |

```python
if a:
    pass
```

> quoted *words*

---
Last line\\#1 &amp; more<br>next
"""


def test_markdown_becomes_what_its_reader_sees() -> None:
    parsed = parse(MARKDOWN.encode(), name="leave.md")

    assert parsed.title == "Leave"
    assert [(block.kind, block.level, block.text) for block in parsed.blocks] == [
        ("paragraph", 0, "Intro with a link <https://example.org/a_(b)> and bold co_de*."),
        ("heading", 1, "Leave"),
        ("heading", 2, "Setext"),
        ("list", 0, "- one\n- two pic goes on\n    - nested\n1. first"),
        ("table", 0, "| A | B |\n| --- | --- |\n| 1 \\| 2 | x |"),
        ("code", 0, "if a:\n    pass"),
        ("paragraph", 0, "quoted words"),
        ("paragraph", 0, "Last line#1 & more\nnext"),
    ]


def test_a_page_of_front_matter_only_keeps_title_and_target() -> None:
    parsed = parse(b"---\ntitle: Org chart\nredirect_to: https://example.org/o\n---\n", name="o.md")

    assert parsed.title == "Org chart"
    assert parsed.blocks[0].text == "Org chart\nhttps://example.org/o"


def test_text_keeps_lines_and_splits_at_blank_lines() -> None:
    assert outline(b"one\r\ntwo\r\n\r\n\r\nthree\x0cfour", "notes.txt") == [
        ("paragraph", "one\ntwo"),
        ("paragraph", "three"),
        ("paragraph", "four"),
    ]


def test_html_loses_scripts_menus_and_hidden_parts() -> None:
    page = b"""<html lang="de-CH"><head><title>My  page</title><style>p{}</style></head><body>
    <nav>Menu</nav><main><h1>Top <i>one</i></h1><p>First<br>second <script>x()</script></p>
    <ul><li>a<ul><li>b</li></ul></li><li><p>c</p></li></ul>
    <table><tr><th>K</th><th>V</th></tr><tr><td>1</td><td>two<br>lines</td></tr></table>
    <pre>  code
    here</pre><p hidden>secret</p><p style="display: none">secret</p></main>
    <footer>Imprint</footer></body></html>"""
    parsed = parse(page, name="page.html")

    assert (parsed.title, parsed.language) == ("My page", "de")
    assert [(block.kind, block.text) for block in parsed.blocks] == [
        ("heading", "Top one"),
        ("paragraph", "First\nsecond"),
        ("list", "- a\n  - b\n- c"),
        ("table", "| K | V |\n| --- | --- |\n| 1 | two lines |"),
        ("code", "  code\n    here"),
    ]


def test_html_nested_a_hundred_thousand_deep_is_read_as_far_as_it_goes() -> None:
    page = b"<p>before</p>" + b"<div>" * 100_000 + b"deep"

    parsed = parse(page, name="deep.html")

    assert [block.text for block in parsed.blocks] == ["before"]
    assert parsed.warnings == ("The page is nested too deeply; not all of it was read.",)


def test_html_with_a_thousand_tags_left_open_is_read_to_its_end() -> None:
    page = b"<p>before</p>" + b"<div>" * 1_000 + b"deep"

    assert outline(page, "open.html") == [("paragraph", "before"), ("paragraph", "deep")]


def test_long_markdown_is_read_in_the_parser_process() -> None:
    parsed = parse(b"# A\n\n" + b"Some words here.\n\n" * 70_000, name="long.md")

    assert (parsed.title, len(parsed.blocks)) == ("A", 70_001)
    with pytest.raises(ParseFailure, match="timed_out"):
        parse(b"**a " * 2_000_000, name="hostile.md", limits=ParseLimits(seconds=0.1))


@pytest.mark.parametrize("make", [samples.docx, samples.pptx, samples.xlsx, samples.eml])
def test_damaged_files_fail_with_a_code_or_are_read(make: Callable[[], bytes]) -> None:
    whole = make()
    for at in range(40, len(whole), max(1, len(whole) // 25)):
        for damaged in (whole[:at], whole[:at] + b"\xff\x00<" + whole[at + 3 :]):
            assert code_or_ok(damaged) in ("ok", "corrupt", "unsupported", "no_text", "encrypted")


def test_pdf_has_pages_and_a_title() -> None:
    parsed = parse(samples.pdf("Alpha page.", "Beta page.", title="Two pages"), name="a.pdf")

    assert parsed.title == "Two pages"
    assert parsed.media_type == "application/pdf"
    assert [(block.text, block.page) for block in parsed.blocks] == [
        ("Alpha page.", 1),
        ("Beta page.", 2),
    ]


def test_pdf_with_a_password_is_encrypted() -> None:
    assert code_of(samples.encrypted_pdf(user_password="x"), "a.pdf") == "encrypted"


def test_pdf_locked_against_changes_only_is_read() -> None:
    assert outline(samples.encrypted_pdf(user_password=""), "a.pdf") == [
        ("paragraph", "The vault code is 4471.")
    ]


def test_pdf_that_breaks_off_is_corrupt() -> None:
    assert code_of(samples.pdf("Alpha")[:80], "a.pdf") == "corrupt"


def test_pdf_with_blank_pages_only_has_no_text() -> None:
    assert code_of(samples.pdf(""), "a.pdf") == "no_text"


def test_pdf_pages_of_too_many_strokes_are_left_out_and_said_so() -> None:
    strokes = b"1 0 0 1 5 5 Tm\n" * 300_000
    assert code_of(samples.pdf(content=strokes), "a.pdf") == "too_large"


def test_a_charset_that_is_no_text_encoding_is_passed_over() -> None:
    page = b"<html><meta charset='base64_codec'><p>Caf\xe9 words</p>"
    assert outline(page, "a.html") == [("paragraph", "Café words")]


def test_a_mail_with_a_hundred_thousand_addresses_is_read_at_once() -> None:
    mail = b"From: a@example.org\nTo: " + b"<a@b>," * 100_000 + b"\nSubject: s\n\nWords.\n"
    parsed = parse(mail, name="a.eml", limits=ParseLimits(seconds=5))
    assert (parsed.title, parsed.blocks[-1].text) == ("s", "Words.")


def test_docx_keeps_order_headings_lists_and_tables() -> None:
    parsed = parse(samples.docx(), name="rules.docx")

    assert parsed.title == "Travel rules"
    assert parsed.media_type == OFFICE + "wordprocessingml.document"
    assert [(block.kind, block.level, block.text) for block in parsed.blocks] == [
        ("heading", 1, "Booking"),
        ("paragraph", 0, "Book trains two weeks ahead."),
        ("heading", 2, "Hotels"),
        ("list", 0, "- Keep the bill\n- Send it to accounting"),
        ("table", 0, "| City | Limit |\n| --- | --- |\n| Zürich | 180 \\| night |"),
        ("paragraph", 0, "After the table."),
    ]


def test_pptx_slides_are_pages_with_notes_and_tables() -> None:
    parsed = parse(samples.pptx(), name="review.pptx")

    assert parsed.title == "Quarterly review"
    assert [(block.kind, block.text, block.page) for block in parsed.blocks] == [
        ("heading", "Results", 1),
        ("list", "- Revenue rose\n- Costs fell", 1),
        ("paragraph", "Notes: Thank the team.", 1),
        ("heading", "Regions", 2),
        ("table", "| Region | Share |\n| --- | --- |\n| North | 40 % |", 2),
    ]


def test_xlsx_sheets_are_headings_and_tables() -> None:
    assert outline(samples.xlsx(), "stock.xlsx") == [
        ("heading", "Stock"),
        (
            "table",
            "| Item | Count | Since | Fresh |\n| --- | --- | --- | --- |\n"
            "| Copper valve | 3 |  | TRUE |\n| Gasket | 0.25 |",
        ),
    ]


@pytest.mark.parametrize("html_only", [False, True])
def test_email_has_headers_first_and_names_attachments(html_only: bool) -> None:
    parsed = parse(samples.eml(html_only=html_only), name="mail.eml")

    assert parsed.title == "Möbel für Raum 12"
    assert parsed.blocks[0].text == (
        "Subject: Möbel für Raum 12\nFrom: Ana <ana@example.org>\nTo: team@example.org\n"
        "Date: Mon, 02 Nov 2026 10:00:00 +0100"
    )
    rest = ["Desks arrive Tuesday."] + ([] if html_only else ["Please clear the room."])
    assert [block.text for block in parsed.blocks[1:]] == rest
    assert parsed.warnings == ("Attachments not read: plan.png.",)


def test_email_without_an_ending_is_recognised_by_its_headers() -> None:
    assert parse(samples.eml(), name="message").media_type == "message/rfc822"


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [("a,b\n1,2\n", ","), ("a\tb\n1\t2\n", "tab"), ("sep=|\na|b\n1|2\n", "|")],
)
def test_csv_delimiter_is_found(text: str, delimiter: str) -> None:
    assert outline(text.encode(), "a.csv")[0][1] == "| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_content_decides_over_the_name() -> None:
    assert parse(samples.pdf("Alpha"), name="a.docx").media_type == "application/pdf"
    assert parse(samples.docx(), name="a.xlsx").media_type == OFFICE + "wordprocessingml.document"


@pytest.mark.parametrize(
    ("data", "name", "code"),
    [
        (samples.PNG, "a.md", "mislabelled"),
        (samples.PNG, "a.png", "unsupported"),
        (b"just words", "a.pdf", "mislabelled"),
        (b"just words", "a.docx", "mislabelled"),
        (bytes(range(256)) * 9, "a.txt", "mislabelled"),
        (b"{\\rtf1 words}", "a.rtf", "unsupported"),
        (b"\x7fELF\x02\x01\x01" + bytes(50), "a", "unsupported"),
        (samples.docx()[:900], "a.docx", "corrupt"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "a.doc", "unsupported"),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
            "a.docx",
            "encrypted",
        ),
        (b"", "a.txt", "empty"),
        (b" \n\t\r\n ", "a.txt", "no_text"),
    ],
)
def test_bad_files_fail_with_their_code(data: bytes, name: str, code: str) -> None:
    assert code_of(data, name) == code


def test_more_than_fifty_megabytes_are_too_large() -> None:
    assert code_of(b"a" * (MAX_UPLOAD_BYTES + 1), "a.txt") == "too_large"


def test_text_beyond_the_limit_is_cut_with_a_warning() -> None:
    parsed = parse(b"word " * 100, name="a.txt", limits=ParseLimits(max_characters=50))

    assert len(parsed.blocks[0].text) <= 50
    assert parsed.warnings == ("Only the first 50 characters were read.",)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "gb18030", "utf-8"])
def test_encodings_are_recognised(encoding: str) -> None:
    text = "今天的会议在三点开始，请大家准时参加。会议室在二楼。\nplain words follow here"

    assert outline(text.encode(encoding), "a.txt") == [("paragraph", text)]


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Привет, коллеги! Встреча в пятницу.", "windows-1251"),
        ("Größe und Qualität der Möbel, à la carte", "cp1252"),
        ("本日の会議は三時からです。よろしくお願いします。", "shift_jis"),
        ("안녕하세요. 오늘 회의는 세 시에 시작합니다.", "euc_kr"),
    ],
)
def test_undeclared_old_code_pages_are_told_apart(text: str, encoding: str) -> None:
    assert outline(text.encode(encoding), "a.txt") == [("paragraph", text)]


def test_utf8_with_a_broken_character_stays_utf8() -> None:
    parsed = parse("Zürich, Genève, Köln und Bogotá ✓".encode()[:-1], name="a.txt")

    assert parsed.encoding == "utf-8"
    assert parsed.blocks[0].text == "Zürich, Genève, Köln und Bogotá \ufffd"
    assert parsed.warnings == ("1 places couldn't be read as utf-8.",)


def test_surrogates_written_out_in_utf8_are_replaced() -> None:
    parsed = parse(b"bad \xed\xa0\xbd end", name="a.txt")

    assert parsed.blocks[0].text == "bad \ufffd end"
    assert parsed.warnings == ("1 lone surrogate replaced.",)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("שלום עולם, נפגש ב-RTL", "he"),
        ("مرحبا بالعالم", "ar"),
        ("Hello 🌍🚀", "en"),
        ("สวัสดีชาวโลก", "th"),
    ],
)
def test_any_script_is_kept_as_it_is(text: str, language: str) -> None:
    parsed = parse(text.encode(), name="a.md")

    assert (parsed.blocks[0].text, parsed.language) == (text, language)
