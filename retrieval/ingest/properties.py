"""What a file says of itself (author, date, tags), made fit to store; nonsense is dropped, not
refused.

Promises: an author has at most 200 characters, there are at most 20 tags of 60, and a date is a
real one between 1900 and tomorrow. No Django, so that both sides of the parser border may use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from kaizen.kernel.text import is_blank, make_storable

LONGEST_AUTHOR = 200
LONGEST_TAG = 60
MOST_TAGS = 20
_LONGEST_DATE = 80
_EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
# What libraries write when nobody gave a name.
_NOBODY = {"python-docx", "openpyxl", "unknown", "user", "admin", "administrator", "anonymous"}
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]+")
# As PDF writes it: D:20260131120000+01'00', each part after the year optional.
_PDF_DATE = re.compile(
    r"D?:?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:(Z)|([+-])(\d\d)'?(?:(\d\d)'?)?)?\d*$"
)
_DAY = re.compile(r"(\d{4})[-/.](\d{1,2})(?:[-/.](\d{1,2}))?$")


def clean_author(text: str) -> str:
    """One line, empty for the names that software gives itself."""
    name = _one_line(text)[:LONGEST_AUTHOR].rstrip()
    return "" if name.lower() in _NOBODY or is_blank(name) else name


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Each once, in their order; what is too long to be a tag is left out."""
    found: dict[str, str] = {}
    for tag in tags:
        text = _one_line(tag)
        if len(text) <= LONGEST_TAG and not is_blank(text):
            found.setdefault(text.lower(), text)
        if len(found) == MOST_TAGS:
            break
    return tuple(found.values())


def split_tags(text: str) -> list[str]:
    """The parts of a line of keywords, by semicolons if there are any, else by commas."""
    return text[:4_000].split(";" if ";" in text else ",")


def find_date(text: str) -> datetime | None:
    """The moment that `text` names: ISO, PDF or e-mail notation, a day alone; UTC where no zone is
    given. None for anything else and for dates that can't be true.
    """
    given = text.strip()
    if not given or len(given) > _LONGEST_DATE:
        return None
    for read in (_iso, _day, _pdf, _mail):
        try:
            found = read(given)
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
        if found is not None:
            return within_reason(found)
    return None


def within_reason(moment: datetime) -> datetime | None:
    """The moment in UTC, None for one before 1900 or after tomorrow."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        utc = aware.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return utc if _EARLIEST <= utc <= datetime.now(tz=UTC) + timedelta(days=1) else None


def _iso(text: str) -> datetime | None:
    # Digits alone are how PDF writes a date.
    return None if text.isdigit() else datetime.fromisoformat(text)


def _day(text: str) -> datetime | None:
    match = _DAY.match(text)
    return datetime(int(match[1]), int(match[2]), int(match[3] or 1), tzinfo=UTC) if match else None


def _pdf(text: str) -> datetime | None:
    match = _PDF_DATE.match(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[at] or 0) for at in range(1, 7))
    moment = datetime(year, month or 1, day or 1, hour, minute, second, tzinfo=UTC)
    away = timedelta(hours=int(match[9] or 0), minutes=int(match[10] or 0))
    return moment - away if match[8] == "+" else moment + away


def _mail(text: str) -> datetime | None:
    return parsedate_to_datetime(text)


def _one_line(text: str) -> str:
    return " ".join(_CONTROLS.sub(" ", make_storable(text).text).split())
