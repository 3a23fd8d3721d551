"""Which sentences are quoted."""

from __future__ import annotations

import time

import pytest

from agents.providers.quoting import MAX_UNIT, choose_spans, content_stems


def quotes(text: str, question: str, *, at_most: int = 3) -> list[str]:
    spans = choose_spans(text, question=question, at_most=at_most)
    return [text[start:end] for start, end in spans]


def test_stems_meet_across_endings_and_leave_out_small_words() -> None:
    assert content_stems("Who approves the expenses?") == content_stems("approved expense")


def test_the_sentence_that_shares_words_is_quoted_whole() -> None:
    text = "We like cats. Holidays are requested in the portal! Ask Mia."
    assert quotes(text, "How do I request holidays?") == ["Holidays are requested in the portal!"]


def test_neighbouring_sentences_become_one_quotation() -> None:
    text = "Holiday requests go in early. A holiday request needs a date. Cats purr."
    assert quotes(text, "holiday request") == [
        "Holiday requests go in early. A holiday request needs a date."
    ]


def test_a_sentence_may_span_lines() -> None:
    text = "Intro.\nHoliday requests\ngo in early. Other."
    assert quotes(text, "holiday requests") == ["Holiday requests\ngo in early."]


def test_three_sentences_at_most() -> None:
    text = "\n\n".join(f"Holiday rule {number}." for number in range(9))
    assert len(quotes(text, "holiday rule")) == 3


def test_abbreviations_and_decimals_do_not_end_a_sentence() -> None:
    text = "Use e.g. the holiday form, at 3.50 euro or 9 a.m. sharp. Then wait."
    assert quotes(text, "holiday form") == [
        "Use e.g. the holiday form, at 3.50 euro or 9 a.m. sharp."
    ]


def test_table_rows_are_quoted_whole_without_the_ruler() -> None:
    text = "| City | Rate |\n|------|------|\n| Oslo | 80 |\n| Bern | 95 |"
    assert quotes(text, "What is the rate for Oslo?")[-1].endswith("| Oslo | 80 |")
    assert quotes(text, "Bern") == ["| Bern | 95 |"]
    assert "---" not in "".join(quotes(text, "rate Oslo Bern city"))


def test_list_items_stand_alone() -> None:
    assert quotes("- feed the cat\n- water the plants\n", "plants") == ["- water the plants"]


def test_an_item_goes_on_in_its_next_lines() -> None:
    text = "1. Feed the cat\n   and the dog. Then rest.\n2. Water the plants\n"
    assert quotes(text, "cat and dog") == ["1. Feed the cat\n   and the dog."]


def test_headings_are_not_quoted_when_there_is_text() -> None:
    assert quotes("# Holidays\n\nAsk the lead.", "holidays") == ["Ask the lead."]


def test_no_shared_word_quotes_the_opening() -> None:
    assert quotes("The opening. The rest.", "zebra") == ["The opening."]


def test_chinese_is_compared_by_pairs_and_cut_at_its_own_full_stop() -> None:
    text = "我们喜欢猫。差旅费用由组长批准。请保留收据。"
    assert quotes(text, "差旅费用谁批准？") == ["差旅费用由组长批准。"]


def test_offsets_are_code_points() -> None:
    text = "🌍 first. Holidays here."
    assert choose_spans(text, question="holidays") == ((9, 23),)


def test_an_endless_line_is_bounded() -> None:
    text = "word " * 9000
    [(start, end)] = choose_spans(text, question="zebra")
    assert (start, end <= MAX_UNIT) == (0, True)


@pytest.mark.parametrize("unit", [".", "a.", "|", "> ", "\n", '."', "。"])
def test_repetition_takes_no_time(unit: str) -> None:
    started = time.monotonic()
    choose_spans(unit * 20_000, question="a")
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("text", ["", " \n\t ", "|---|---|"])
def test_blank_text_gives_nothing(text: str) -> None:
    assert choose_spans(text, question="anything") == ()
