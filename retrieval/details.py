"""Short texts that describe a source or a document, checked before they are stored.

Promises: what comes out can be stored and fits its column.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypedDict

from kaizen.kernel.errors import Invalid
from kaizen.kernel.text import is_blank, make_storable
from retrieval.models import Document

MOST_TAGS = 50
_LONGEST_KEY_BYTES = 1000


class Details(TypedDict, total=False):
    """What describes a document; a member left out stays as it is."""

    title: str
    path: str
    url: str
    author: str
    tags: list[str]
    dated_at: datetime | None


def check_details(values: Mapping[str, Any]) -> Details:
    """The members of `values` that describe a document, fit to store. Raises Invalid."""
    details: Details = {}
    if "title" in values:
        details["title"] = short_text(values["title"], 300, "title")
    if "path" in values:
        details["path"] = short_text(values["path"], 1000, "path")
    if "author" in values:
        details["author"] = short_text(values["author"], 200, "author")
    if "url" in values:
        details["url"] = _web_address(values["url"])
    if "tags" in values:
        details["tags"] = _tags(values["tags"])
    if "dated_at" in values:
        details["dated_at"] = _moment(values["dated_at"])
    return details


def put_details(document: Document, details: Details) -> list[str]:
    """Set on `document` what differs, without saving; returns the names of what did."""
    changed = [name for name, value in details.items() if getattr(document, name) != value]
    for name in changed:
        setattr(document, name, details[name])  # type: ignore[literal-required]
    return changed


def short_text(text: str, longest: int, what: str) -> str:
    """`text`, fit to store. Raises Invalid above `longest` characters."""
    storable = make_storable(text).text.strip()
    if len(storable) > longest:
        raise Invalid(f"The {what} may have at most {longest:,} characters.")
    return storable


def external_key(text: str) -> str:
    """An external id as it is stored: itself, or one as unmistakable where it is too long, in
    bytes, for an index. Raises Invalid above 1,000 characters.
    """
    key = short_text(text, 1000, "external id")
    if len(key.encode()) <= _LONGEST_KEY_BYTES:
        return key
    return f"{key[:60]}… sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def claimed_type(media_type: str | None) -> str:
    """What the sender said the file is; only a hint, so anything odd is dropped."""
    text = make_storable(media_type or "").text.strip()
    return text if len(text) <= 120 and text.isprintable() else ""


def title_from_name(file_name: str) -> str:
    """The title of a document that nobody has read yet."""
    return (file_name.rpartition(".")[0].strip() or file_name)[:300]


def _web_address(text: str) -> str:
    """A web address, since links are shown to members."""
    address = short_text(text, 2000, "address")
    if address and not address.lower().startswith(("http://", "https://")):
        raise Invalid("The address of a document begins with http:// or https://.")
    return address


def _tags(tags: Iterable[str]) -> list[str]:
    found = list(dict.fromkeys(short_text(tag, 60, "tag") for tag in tags))
    found = [tag for tag in found if not is_blank(tag)]
    if len(found) > MOST_TAGS:
        raise Invalid(f"A document may have at most {MOST_TAGS} tags.")
    return found


def _moment(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise Invalid("That date is out of range.") from None
