"""The file cases of the shared log, each named after its row."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest

from kaizen.kernel.errors import Invalid
from kaizen.kernel.text import make_storable, shown_file_name
from retrieval.ingest.chunk import chunk
from retrieval.ingest.contract import Parsed, ParseFailure
from retrieval.ingest.lexical import lexical_query_text, lexical_text
from retrieval.ingest.parse import parse


def words(text: str) -> int:
    return len(text.split())


@pytest.fixture
def cases(shared_data: Path) -> Path:
    return shared_data / "cases"


def read(cases: Path, name: str, *, shown_as: str = "", media_type: str | None = None) -> Parsed:
    return parse((cases / name).read_bytes(), name=shown_as or name, media_type=media_type)


def failure(cases: Path, name: str, *, shown_as: str = "") -> ParseFailure:
    with pytest.raises(ParseFailure) as caught:
        read(cases, name, shown_as=shown_as)
    return caught.value


def test_K23_nul_characters_are_replaced_counted_and_cut_nothing(cases: Path) -> None:
    parsed = read(cases, "nul-in-text.txt")

    assert parsed.blocks[0].text == (
        "Contract\ufffd number 4471\ufffd\nSupplier: Northwind\ufffd Traders"
    )
    assert parsed.warnings == ("3 NUL characters replaced.",)


def test_K23_lone_surrogates_of_a_message_are_replaced(cases: Path) -> None:
    body = json.loads((cases / "surrogate-message.json").read_text())["text"]

    assert make_storable(body).text == "status \ufffd ok \ufffd end"
    assert make_storable(body).replaced == 2


def test_K24_gbk_prices_decode_to_chinese(cases: Path) -> None:
    parsed = read(cases, "prices-gbk.csv")

    assert parsed.encoding == "gb18030"
    assert parsed.language == "zh"
    assert "| 1001 | 智能报销 | 每月五日付款 |" in parsed.blocks[0].text.split("\n")


def test_K24_windows_1251_page_decodes_by_its_meta_tag(cases: Path) -> None:
    parsed = read(cases, "page-windows-1251.html")

    assert parsed.title == "Договор"
    assert parsed.blocks[0].text == "Договор поставки № 58 действует до марта."


@pytest.mark.parametrize("charset", ["utf-8", "windows-1252", "iso-8859-1", "no-such-charset"])
def test_K24_a_header_that_contradicts_the_page_does_not_win(cases: Path, charset: str) -> None:
    parsed = read(cases, "page-windows-1251.html", media_type=f"text/html; charset={charset}")

    assert "Договор поставки № 58" in parsed.blocks[0].text


def test_K24_utf8_content_wins_over_two_wrong_declarations() -> None:
    page = '<html><head><meta charset="windows-1251"></head><p>Café – naïve €40</p></html>'.encode()

    parsed = parse(page, name="page.html", media_type="text/html; charset=iso-8859-1")

    assert parsed.encoding == "utf-8"
    assert parsed.blocks[0].text == "Café – naïve €40"


def test_K24_cp1252_quotes_and_euro_are_kept(cases: Path) -> None:
    parsed = read(cases, "quotes-cp1252.csv")

    assert parsed.encoding == "cp1252"
    assert parsed.blocks[0].text.split("\n")[2:] == [
        "| 1 | “Terms apply” – see annex |",
        "| 2 | Café Zürich €40 |",
    ]


def test_K24_ragged_rows_are_kept_and_reported(cases: Path) -> None:
    parsed = read(cases, "ragged-semicolon.csv")

    assert parsed.blocks[0].text.split("\n") == [
        "| Ref | Subject | Body |",
        "| --- | --- | --- |",
        '| 7 | Late; delivery | First line<br>second "quoted" line |',
        "| 8 | Short row |  |",
        "| 9 | Extra | x | y | z |",
    ]
    assert parsed.warnings == ("Row 3 has 2 extra cells beyond the header.",)


def test_K25_a_scanned_pdf_fails_and_the_message_names_scanning(cases: Path) -> None:
    found = failure(cases, "scan-no-text.pdf")

    assert found.code == "scanned"
    assert "scanned" in found.message


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("zero-byte.pdf", "empty"),
        ("only-whitespace.md", "no_text"),
        ("empty-body.docx", "no_text"),
    ],
)
def test_K25_files_without_text_fail(cases: Path, name: str, code: str) -> None:
    assert failure(cases, name).code == code


def test_K25_a_blank_paragraph_stops_nothing() -> None:
    paragraphs = [f"Paragraph number {at}." for at in range(1, 10)]
    paragraphs[4] = "   \u200b  "

    parsed = parse("\n\n".join(paragraphs).encode(), name="nine.md")
    passages = chunk(parsed, count_tokens=words, max_tokens=3)

    assert [passage.text for passage in passages] == [
        text for text in paragraphs if "number" in text
    ]


@pytest.mark.parametrize("name", ["a.docx", "a.zip", "a.doc", "a.xlsx"])
def test_K26_a_file_that_inflates_is_refused_before_unpacking(cases: Path, name: str) -> None:
    started = time.monotonic()

    found = failure(cases, "inflates-40mb.docx", shown_as=name)

    assert found.code == "too_large_unpacked"
    assert "too large when unpacked" in found.message
    assert time.monotonic() - started < 10
    assert parse(b"next,file\n1,2", name="next.csv").blocks[0].kind == "table"


@pytest.mark.parametrize("name", ["a.docx", "a.zip"])
def test_K26_entities_are_never_expanded(cases: Path, name: str) -> None:
    found = failure(cases, "entity-expansion.docx", shown_as=name)

    assert found.code == "corrupt"
    assert "entities" in found.message
    assert socket.gethostname() not in found.message


@pytest.mark.parametrize("name", ["a.xml", "a.svg"])
def test_K26_xml_and_svg_uploads_are_refused(name: str) -> None:
    root = name.partition(".")[2]
    source = f'<?xml version="1.0"?><!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/hostname">]><{root}>&x;</{root}>'

    with pytest.raises(ParseFailure) as caught:
        parse(source.encode(), name=name)

    assert caught.value.code == "unsupported"


def test_K27_claimed_sheet_size_is_ignored(cases: Path) -> None:
    started = time.monotonic()

    parsed = read(cases, "two-rows-claims-full-sheet.xlsx")

    assert [block.text for block in parsed.blocks] == [
        "Stock",
        "| Item | Shelf |\n| --- | --- |\n| Copper valve | K-17 |",
    ]
    assert time.monotonic() - started < 15


def test_K28_a_giant_word_is_cut_and_the_word_after_it_is_found(cases: Path) -> None:
    parsed = read(cases, "one-line-45k.txt")

    passages = chunk(parsed, count_tokens=words, max_tokens=220)

    assert max(len(passage.text) for passage in passages) <= 220 * 8
    assert sum("LASTWORDQX" in passage.text.split() for passage in passages) == 1
    whole = (cases / "one-line-45k.txt").read_text().split()
    assert "".join("".join(passage.text.split()) for passage in passages) == "".join(whole)
    assert max(len(word) for word in lexical_text(parsed.blocks[0].text).split()) <= 2_000
    assert "lastwordqx" in lexical_text(parsed.blocks[0].text).split()


@pytest.mark.parametrize("query", ["今月", "売上", "上海", "번역"])
def test_K36_words_inside_a_run_share_their_lexemes_with_the_query(cases: Path, query: str) -> None:
    parsed = read(cases, "cjk-report.md")
    lexemes = {word for block in parsed.blocks for word in lexical_text(block.text).split()}

    assert parsed.language == "ja"
    assert set(lexical_query_text(query).split()) <= lexemes


def test_K73_names_are_the_last_path_part_and_blank_ones_are_refused(cases: Path) -> None:
    shown = []
    for name in json.loads((cases / "upload-names.json").read_text()):
        try:
            shown.append(shown_file_name(name))
        except Invalid as error:
            shown.append(error.code)

    assert shown == [
        "outside.txt",
        "evil.txt",
        "c.md",
        "win.txt",
        "normal name.pdf",
        "blank_name",
        "blank_name",
        ".htaccess",
    ]


@pytest.mark.parametrize("name", ["badge.svg", "badge", "badge.md"])
def test_K73_svg_is_refused_under_any_name(cases: Path, name: str) -> None:
    expected = "mislabelled" if name.endswith(".md") else "unsupported"

    assert failure(cases, "badge.svg", shown_as=name).code == expected
