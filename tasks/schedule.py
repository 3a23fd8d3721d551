"""When a task is due: pure functions over a five-field cron rule and a time zone.

The rule: wall time is kept across clock changes. A wall time that is skipped runs once, at the
first instant after the gap; one that is repeated runs once, the first time. Where minute or hour
begins with `*`, elapsed time is followed instead, so an hourly rule runs 25 times in the longest
day. Every instant here is aware and in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from kaizen.kernel.errors import Invalid

MOST_COUNTED = 1000
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PRESETS: tuple[tuple[str, str], ...] = (
    ("0 * * * *", "Every hour"),
    ("0 8 * * *", "Every day at 08:00"),
    ("0 8 * * 1-5", "Every working day at 08:00"),
    ("0 8 * * 1", "Every Monday at 08:00"),
    ("0 8 1 * *", "On the first of every month at 08:00"),
)
_NUMBER = re.compile(r"\d{1,2}")
_STEP = re.compile(r"\*/(\d{1,2})")
# A zone is a path below the zone database; only names of that shape are looked up.
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """The due times that have passed: the latest one, and how many there were (at most
    `MOST_COUNTED`).
    """

    latest: datetime
    count: int


def parse_cron(cron: str) -> str:
    """`cron` with single spaces and capitals.

    Raises Invalid with a sentence that says what is wrong.
    """
    fields = cron.upper().split()
    if len(fields) != 5:
        raise Invalid(
            "A schedule has five fields: minute, hour, day of the month, month, day of the week. "
            'For example "0 8 * * 1" is every Monday at 08:00.',
            code="cron",
        )
    rule = " ".join(fields)
    try:
        first = next(CronSim(rule, datetime(2024, 1, 1, tzinfo=UTC)), None)
    except CronSimError as error:
        raise Invalid(f"The schedule can't be read: {str(error).lower()}.", code="cron") from None
    if first is None:
        raise Invalid("This schedule never comes due: there is no such day.", code="cron")
    return rule


def parse_zone(name: str) -> ZoneInfo:
    """The time zone called `name`. Raises Invalid when there is none."""
    try:
        if _ZONE.fullmatch(name):
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # OSError: the name of a folder of the zone database.
        pass
    raise Invalid(
        f'There is no time zone called "{name[:60]}". Use a name like "Europe/Amsterdam" or "UTC".',
        code="time_zone",
    )


def next_due(cron: str, zone: str, after: datetime) -> datetime:
    """The first due instant later than `after`.

    Raises Invalid for a rule or zone that can't be used.
    """
    for due in due_after(cron, zone, after):
        return due
    raise Invalid("This schedule never comes due again.", code="cron")


def due_after(cron: str, zone: str, after: datetime) -> Iterator[datetime]:
    """All due instants later than `after`, ascending and without doubles.

    Raises Invalid as `next_due` does.
    """
    rule, place = parse_cron(cron), parse_zone(zone)
    last = after.astimezone(UTC)
    # Several skipped wall times fall on one instant, and in a repeated hour the first ones lie
    # behind `after`: neither may be given (again).
    for wall in CronSim(rule, after.astimezone(place)):
        due = wall.astimezone(UTC)
        if due > last:
            last = due
            yield due


def preview(cron: str, zone: str, after: datetime, *, count: int = 3) -> list[datetime]:
    """The next `count` due instants after `after`. Raises Invalid as `next_due` does."""
    return list(islice(due_after(cron, zone, after), count))


def passed_due(cron: str, zone: str, *, first: datetime, at: datetime) -> Passed:
    """What has passed from the due time `first` up to `at`, both included.

    `first` must not be later than `at`.
    """
    latest, count = first, 1
    while True:
        is_cut = False
        for due in due_after(cron, zone, latest):
            if due > at:
                break
            latest, count = due, count + 1
            if count % MOST_COUNTED == 0:
                is_cut = True
                break
        if not is_cut:
            return Passed(latest=latest, count=min(count, MOST_COUNTED))
        # Enough was counted: halve what remains instead of walking through it.
        middle = latest + (at - latest) / 2
        if at - middle > timedelta(days=1):
            latest = max(latest, next(_until(cron, zone, middle, at), latest))


def _until(cron: str, zone: str, after: datetime, at: datetime) -> Iterator[datetime]:
    for due in due_after(cron, zone, after):
        if due > at:
            return
        yield due


def describe(cron: str) -> str:
    """A common rule in words; any other as it is written.

    Raises Invalid for a rule that can't be used.
    """
    rule = parse_cron(cron)
    minute, hour, day, month, weekday = rule.split()
    if month != "*":
        return rule
    if hour == day == weekday == "*":
        return _describe_within_days(minute, rule)
    if not (_NUMBER.fullmatch(minute) and _NUMBER.fullmatch(hour)):
        return rule
    clock = f"{int(hour):02d}:{int(minute):02d}"
    match day, weekday:
        case "*", "*":
            return f"Every day at {clock}"
        case "*", ("1-5" | "MON-FRI"):
            return f"Every working day at {clock}"
        case "*", name if _NUMBER.fullmatch(name):
            return f"Every {WEEKDAYS[int(name)]} at {clock}"
        case "1", "*":
            return f"On the first of every month at {clock}"
        case number, "*" if _NUMBER.fullmatch(number):
            return f"On day {int(number)} of every month at {clock}"
        case _:
            return rule


def _describe_within_days(minute: str, rule: str) -> str:
    step = _STEP.fullmatch(minute)
    if minute in ("*", "*/1"):
        return "Every minute"
    if step and 60 % int(step[1]) == 0:
        return f"Every {int(step[1])} minutes"
    if minute == "0":
        return "Every hour"
    if _NUMBER.fullmatch(minute):
        return f"Every hour at {int(minute)} minutes past"
    return rule
