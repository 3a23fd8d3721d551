"""Text from outside: storable, complete, and shown under a safe name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaizen.kernel.errors import Invalid
from kaizen.kernel.text import is_blank, make_storable, shown_file_name

ANY_TEXT = st.text(st.characters() | st.sampled_from("\x00\ud83d\ude00a"))


@given(ANY_TEXT)
def test_the_result_can_be_stored_and_stays_as_it_is(text: str) -> None:
    storable = make_storable(text)

    storable.text.encode("utf-8")
    assert "\x00" not in storable.text
    assert make_storable(storable.text).text == storable.text
    assert make_storable(storable.text).replaced == 0
    assert (storable.text == text) == (storable.replaced == 0 and "\ud83d\ude00" not in text)


def test_nothing_is_normalised() -> None:
    assert make_storable("e\u0301 ﬁ").text == "e\u0301 ﬁ"


def test_surrogates_that_belong_together_become_their_character() -> None:
    storable = make_storable("\ud83d\ude00 \ude00\ud83d")

    assert (storable.text, storable.replaced) == ("\U0001f600 \ufffd\ufffd", 2)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a/b\\c.md", "c.md"),
        ("re\u202eport\u2066.pdf", "report.pdf"),
        ("two\r\nlines\t.txt", "two lines .txt"),
        ("  spaced  .txt ", "spaced .txt"),
        ("報告.pdf", "報告.pdf"),
        ("x" * 300 + ".pdf", "x" * 196 + ".pdf"),
        ("x" * 300, "x" * 200),
    ],
)
def test_a_name_is_shown_as_its_last_part(name: str, shown: str) -> None:
    assert shown_file_name(name) == shown


@pytest.mark.parametrize("name", ["", "  ", "a/", "..", "C:\\", "\u200b", "\x00\u202e", "."])
def test_a_name_without_anything_to_read_is_refused(name: str) -> None:
    with pytest.raises(Invalid):
        shown_file_name(name)


@given(ANY_TEXT)
def test_a_shown_name_has_no_separators_and_no_controls(name: str) -> None:
    try:
        shown = shown_file_name(name)
    except Invalid:
        return
    assert 0 < len(shown) <= 200
    assert not set(shown) & set("/\\\x00\r\n\u202e")


@pytest.mark.parametrize(
    ("text", "blank"),
    [(" \u200b\n\ufeff", True), ("\u00a0", True), ("\u200bx", False), ("🚀", False)],
)
def test_invisible_text_is_blank(text: str, blank: bool) -> None:
    assert is_blank(text) is blank
