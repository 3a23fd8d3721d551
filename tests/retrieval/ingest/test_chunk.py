"""Passages: bounded, complete, never blank, and aware of where they stand."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaizen.kernel.text import is_blank
from retrieval.embedders.local import local_embedder
from retrieval.ingest.chunk import Passage, chunk, context_line, embedding_text
from retrieval.ingest.contract import Block, Parsed
from retrieval.ingest.parse import parse


def words(text: str) -> int:
    return len(text.split())


def letters(text: str) -> int:
    return len(text)


def document(*blocks: Block) -> Parsed:
    return Parsed("Title", "en", blocks, "utf-8", "text/markdown")


def paragraph(text: str, page: int | None = None) -> Block:
    return Block("paragraph", text, 0, page)


def heading(text: str, level: int = 1) -> Block:
    return Block("heading", text, level)


def cut(
    *blocks: Block,
    max_tokens: int,
    overlap: int = 0,
    count_tokens: Callable[[str], int] = words,
) -> list[Passage]:
    return chunk(
        document(*blocks), count_tokens=count_tokens, max_tokens=max_tokens, overlap=overlap
    )


def test_passages_carry_their_heading_path_and_page() -> None:
    passages = cut(
        heading("A"),
        paragraph("intro", page=1),
        heading("B", 2),
        paragraph("body", page=2),
        heading("C", 1),
        paragraph("end", page=3),
        max_tokens=10,
    )

    assert [(p.ordinal, p.text, p.heading_path, p.page) for p in passages] == [
        (0, "intro", ("A",), 1),
        (1, "body", ("A", "B"), 2),
        (2, "end", ("C",), 3),
    ]


def test_small_neighbours_share_a_passage_until_it_is_full() -> None:
    passages = cut(*(paragraph(f"w{at} x y") for at in range(4)), max_tokens=8)

    assert [p.text for p in passages] == ["w0 x y\n\nw1 x y", "w2 x y\n\nw3 x y"]
    assert [p.token_count for p in passages] == [6, 6]


def test_pages_are_never_mixed() -> None:
    passages = cut(paragraph("one", page=1), paragraph("two", page=2), max_tokens=50)

    assert [(p.text, p.page) for p in passages] == [("one", 1), ("two", 2)]


def test_a_long_paragraph_splits_between_sentences() -> None:
    text = "One two three. Four five six! Seven eight nine? Ten."

    assert [p.text for p in cut(paragraph(text), max_tokens=6)] == [
        "One two three. Four five six!",
        "Seven eight nine? Ten.",
    ]


def test_the_last_sentence_is_repeated_when_it_is_short() -> None:
    text = "One two three. Four five. Six seven eight. Nine ten."

    assert [p.text for p in cut(paragraph(text), max_tokens=6, overlap=2)] == [
        "One two three. Four five.",
        "Four five. Six seven eight.",
        "Nine ten.",
    ]


def test_a_split_table_repeats_its_header() -> None:
    rows = [f"| k{at} | v{at} |" for at in range(4)]
    table = Block("table", "\n".join(["| K | V |", "| --- | --- |", *rows]))
    head = "| K | V |\n| --- | --- |\n"

    assert [(p.text, p.kind) for p in cut(table, max_tokens=22)] == [
        (head + "\n".join(rows[:2]), "table"),
        (head + "\n".join(rows[2:]), "table"),
    ]


def test_a_heading_without_text_below_is_a_passage() -> None:
    passages = cut(heading("A"), heading("B", 2), heading("C", 2), max_tokens=9)

    assert [(p.text, p.heading_path, p.kind) for p in passages] == [
        ("B", ("A",), "heading"),
        ("C", ("A",), "heading"),
    ]


def test_embedding_text_names_title_and_headings_once() -> None:
    passage = Passage(0, "body", ("Leave", "Sick leave"), None, "paragraph", 1)

    assert embedding_text("Handbook", passage) == "Handbook > Leave > Sick leave\nbody"
    assert embedding_text("Leave", passage) == "Leave > Sick leave\nbody"


def test_a_long_heading_path_keeps_the_nearest_headings() -> None:
    line = context_line("T" * 200, ("a" * 80, "b" * 80, "near"))

    assert line == f"{'T' * 70} > {'b' * 80} > near"


def test_a_megabyte_in_one_line_is_cut_quickly() -> None:
    started = time.monotonic()
    embedder = local_embedder()

    parsed = parse(b"lorem ipsum dolor sit amet " * 40_000, name="line.txt")
    passages = chunk(parsed, count_tokens=embedder.count_tokens)

    assert max(p.token_count for p in passages) <= 220
    assert sum(words(p.text) for p in passages) == 200_000
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(
    "text", ["\U0001f680" * 5_000, "漢" * 5_000, "שלום " * 2_000, "各地。" * 900]
)
def test_any_script_stays_below_the_limit(text: str) -> None:
    count_tokens = local_embedder().count_tokens
    passages = cut(paragraph(text), max_tokens=220, count_tokens=count_tokens)

    assert "".join("".join(p.text.split()) for p in passages) == "".join(text.split())
    assert max(p.token_count for p in passages) <= 220


TEXTS = st.text(
    st.sampled_from("ab. !?\n漢。|é\u200b\U0001f680") | st.characters(codec="utf-8"), max_size=60
) | st.text(st.sampled_from("abc de.\n"), max_size=400)
COUNTERS = st.sampled_from([words, letters])


@given(texts=st.lists(TEXTS, max_size=6), max_tokens=st.integers(1, 40), count_tokens=COUNTERS)
@settings(max_examples=150, deadline=None)
def test_prose_is_covered_exactly(
    texts: list[str], max_tokens: int, count_tokens: Callable[[str], int]
) -> None:
    passages = cut(*map(paragraph, texts), max_tokens=max_tokens, count_tokens=count_tokens)

    # White space and invisible characters may fall away at a seam, nothing else.
    expected = [char for text in texts for char in text if is_shown(char)]
    assert [char for p in passages for char in p.text if is_shown(char)] == expected
    assert all(count_tokens(p.text) <= max_tokens for p in passages if len(p.text) > 1)


@given(
    blocks=st.lists(
        st.builds(
            Block,
            kind=st.sampled_from(["heading", "paragraph", "list", "table", "code"]),
            text=TEXTS,
            level=st.integers(1, 6),
            page=st.none() | st.integers(1, 3),
        ),
        max_size=8,
    ),
    max_tokens=st.integers(1, 40),
    overlap=st.integers(0, 10),
    count_tokens=COUNTERS,
)
@settings(max_examples=150, deadline=None)
def test_every_word_of_every_block_is_somewhere(
    blocks: list[Block], max_tokens: int, overlap: int, count_tokens: Callable[[str], int]
) -> None:
    passages = cut(*blocks, max_tokens=max_tokens, overlap=overlap, count_tokens=count_tokens)

    everything = "".join("".join((*p.heading_path, p.text)) for p in passages)
    shown = {char for char in everything if not char.isspace()}
    assert all(is_shown(p.text) for p in passages)
    assert [p.ordinal for p in passages] == list(range(len(passages)))
    assert all(p.token_count == count_tokens(p.text) for p in passages)
    assert all(p.token_count <= max_tokens for p in passages if len(p.text) > 1)
    assert {c for b in blocks if is_shown(b.text) for c in b.text if is_shown(c)} <= shown


def is_shown(text: str) -> bool:
    return not is_blank(text)


def test_the_handbook_becomes_passages(shared_data: Path) -> None:
    count_tokens = local_embedder().count_tokens
    files = sorted((shared_data / "data" / "handbook").rglob("*.md"))
    passages = [
        passage
        for file in files
        for passage in chunk(parse(file.read_bytes(), name=file.name), count_tokens=count_tokens)
    ]

    assert len(files) == 246
    assert 2_000 < len(passages) < 3_000
    assert max(passage.token_count for passage in passages) <= 220
    assert {passage.kind for passage in passages} >= {"paragraph", "list", "table"}
