"""When a task is due: clock changes, wrong rules, and what passed meanwhile."""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kaizen.kernel.errors import Invalid
from tasks.schedule import (
    PRESETS,
    Passed,
    describe,
    due_after,
    next_due,
    parse_cron,
    parse_zone,
    passed_due,
    preview,
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def due_between(cron: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    found = []
    for due in due_after(cron, zone, start - timedelta(seconds=1)):
        if due >= end:
            return found
        found.append(due)
    return found


def test_k60_clock_changes_neither_skip_nor_double_a_run(shared_data: Path) -> None:
    rows = list(csv.DictReader((shared_data / "cases" / "cron-expect.csv").open()))
    assert [row["case"] for row in rows] == ["c1", "c2", "c3", "c4", "c5"]
    for row in rows:
        expected = row["expected_due_utc"].split()
        if row["case"] == "c4":
            first = datetime.fromisoformat("2027-11-07T04:00Z")
            expected = [f"{first + timedelta(hours=n):%Y-%m-%dT%H:%MZ}" for n in range(25)]
        start, end = (
            datetime.fromisoformat(row[name]) for name in ("window_start_utc", "window_end_utc")
        )
        found = due_between(row["cron"], row["zone"], start, end)
        assert [f"{due:%Y-%m-%dT%H:%MZ}" for due in found] == expected, row["case"]


def test_two_wall_times_in_one_gap_run_once() -> None:
    found = due_between(
        "0,30 2 * * *", "Europe/Paris", at("2027-03-28T00:00"), at("2027-03-29T00:00")
    )
    assert found == [at("2027-03-28T01:00")]


def test_in_the_repeated_hour_the_first_occurrence_is_not_given_again() -> None:
    in_second_pass = at("2027-10-31T01:10")  # 02:10 for the second time
    assert next_due("30 2 * * *", "Europe/Paris", in_second_pass) == at("2027-11-01T01:30")


def test_minute_steps_follow_elapsed_time_through_the_repeated_hour() -> None:
    found = due_between(
        "*/30 2 * * *", "Europe/Paris", at("2027-10-31T00:00"), at("2027-10-31T12:00")
    )
    assert found == [
        at("2027-10-31T00:00"),
        at("2027-10-31T00:30"),
        at("2027-10-31T01:00"),
        at("2027-10-31T01:30"),
    ]


def test_a_gap_of_half_an_hour_is_followed_too() -> None:
    # Lord Howe Island goes from 02:00 to 02:30.
    found = due_between(
        "15 2 * * *", "Australia/Lord_Howe", at("2027-10-02T00:00"), at("2027-10-03T12:00")
    )
    assert found == [at("2027-10-02T15:30")]


def test_next_due_is_later_than_now_even_at_the_due_instant() -> None:
    monday = at("2031-03-03T07:00")
    assert next_due("0 8 * * 1", "Europe/Amsterdam", monday) == at("2031-03-10T07:00")


def test_the_preview_shows_the_due_times_that_will_be_used() -> None:
    assert preview("30 2 * * *", "Europe/Paris", at("2027-03-27T12:00")) == [
        at("2027-03-28T01:00"),
        at("2027-03-29T00:30"),
        at("2027-03-30T00:30"),
    ]


@pytest.mark.parametrize(
    ("cron", "message"),
    [
        ("60 * * * *", "The schedule can't be read: bad minute."),
        ("0 24 * * *", "The schedule can't be read: bad hour."),
        ("*/0 * * * *", "The schedule can't be read: bad minute."),
        ("0 0 30 2 *", "The schedule can't be read: bad day-of-month."),
        ("0 0 * * MOO", "The schedule can't be read: bad day-of-week."),
    ],
)
def test_a_wrong_rule_is_refused_with_the_field(cron: str, message: str) -> None:
    with pytest.raises(Invalid) as refusal:
        parse_cron(cron)
    assert (refusal.value.message, refusal.value.code) == (message, "cron")


@pytest.mark.parametrize("cron", ["", "@daily", "0 8 * *", "0 0 8 * * 1", "every monday"])
def test_a_rule_without_five_fields_is_refused_with_an_example(cron: str) -> None:
    with pytest.raises(Invalid) as refusal:
        parse_cron(cron)
    assert refusal.value.message.startswith("A schedule has five fields: minute, hour, day")


@pytest.mark.parametrize(
    "zone", ["", "Nowhere/Land", "Europe", "../../etc/passwd", "UTC\0", "/etc/localtime", "Mars"]
)
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(Invalid) as refusal:
        parse_zone(zone)
    assert refusal.value.code == "time_zone"


def test_common_rules_are_told_in_words_and_others_as_they_are() -> None:
    assert [describe(cron) for cron, words in PRESETS] == [words for cron, words in PRESETS]
    assert [
        describe(cron)
        for cron in (
            "* * * * *",
            "*/15 * * * *",
            "7 * * * *",
            "5 9 * * 7",
            "0 8 31 * *",
            "1 2 3 4 *",
        )
    ] == [
        "Every minute",
        "Every 15 minutes",
        "Every hour at 7 minutes past",
        "Every Sunday at 09:05",
        "On day 31 of every month at 08:00",
        "1 2 3 4 *",
    ]


def test_passed_due_times_are_counted_up_to_the_latest() -> None:
    passed = passed_due(
        "0 * * * *", "Europe/Paris", first=at("2026-01-01T13:00"), at=at("2026-01-01T17:10")
    )
    assert passed == Passed(latest=at("2026-01-01T17:00"), count=5)


def test_a_year_of_missed_minutes_is_not_walked_through() -> None:
    passed = passed_due(
        "* * * * *", "Europe/Paris", first=at("2025-01-01T00:00"), at=at("2026-03-01T00:00:30")
    )
    assert passed == Passed(latest=at("2026-03-01T00:00"), count=1000)
