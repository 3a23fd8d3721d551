"""The form of text that full text search works on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.ingest.lexical import LONGEST_WORD_BYTES, lexical_query_text, lexical_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Plain ASCII & text", "plain ascii & text"),
        ("Café – “Ünder” 20°", "café ünder 20"),
        ("今月の売上", "今月 月の の売 売上 の 上 今 売 月"),
        ("K17上海 x", "k17 上海 x 上 海"),
        ("猫", "猫"),
        ("ＡＢＣ ﾃｽﾄ", "abc テス スト ス テ ト"),
        ("co\u00adoperate", "cooperate"),
        ("הארץ", "הארץ"),
        ("🚀", ""),
    ],
)
def test_stored_text_is_folded_and_runs_become_pairs(text: str, expected: str) -> None:
    assert lexical_text(text).split() == expected.split()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("売上", "売上"),
        ("今月の", "今月 月の"),
        ("猫", "猫"),
        ('"open -Café', '"open -café'),
        ("ภาษา", "ภา าษ ษา"),
    ],
)
def test_a_query_asks_for_pairs(query: str, expected: str) -> None:
    assert lexical_query_text(query).split() == expected.split()


@given(st.text(max_size=40), st.data())
def test_a_piece_of_a_run_finds_the_text(text: str, data: st.DataObject) -> None:
    run = "今月の売上高" + text
    start = data.draw(st.integers(0, 4))
    end = data.draw(st.integers(start + 1, 6))

    assert set(lexical_query_text(run[start:end]).split()) <= set(lexical_text(run[:6]).split())


@given(st.text(st.sampled_from("aé漢🚀 "), max_size=50), st.integers(1, 300))
def test_no_word_is_too_long_for_postgresql(text: str, times: int) -> None:
    for word in lexical_text(text * times).split():
        assert len(word.encode()) <= LONGEST_WORD_BYTES
