"""What a connector yields, checked and made storable before anything here depends on it.

Promises: an `Incoming` fits its columns; a connector that yields nonsense spoils one item, never a
page. What is too long to show is cut; an identity is never cut into another's.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kaizen.kernel.errors import Invalid
from kaizen.kernel.text import make_storable, shown_file_name
from retrieval.connectors.contract import Acl, Gone, Item, Principal, PrincipalKind
from retrieval.details import claimed_type

PART_MARK = "archive:"
_LONGEST_KEY = 1000
_MOST_TAGS = 50


class BadItem(Exception):
    """The connector yielded something that can't be stored. The text is shown to admins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """An item as it is stored; `item` is what the connector gets back to fetch it."""

    key: str
    item: Item
    revision: str
    file_name: str
    title: str
    path: str
    url: str
    author: str
    tags: tuple[str, ...]
    dated_at: datetime | None
    media_type: str
    acl: Acl | None


def read_item(item: Item) -> Incoming:
    """Check and tidy one item. Raises BadItem."""
    dated_at = item.dated_at
    if dated_at is not None and not isinstance(dated_at, datetime):
        raise BadItem("Its date isn't a date.")
    if dated_at is not None and dated_at.tzinfo is None:
        dated_at = dated_at.replace(tzinfo=UTC)
    try:
        file_name = shown_file_name(_text(item.file_name, "file name"))
    except Invalid as error:
        raise BadItem("It has no file name.") from error
    return Incoming(
        key=key_of(item.external_id),
        item=item,
        revision=_revision(item.revision),
        file_name=file_name,
        title=_cut(item.title, 300, "title"),
        path=_cut(item.path, 1000, "path"),
        url=_url(item.url),
        author=_cut(item.author, 200, "author"),
        tags=_tags(item.tags),
        dated_at=dated_at,
        media_type=claimed_type(_text(item.media_type, "media type")),
        acl=_acl(item.acl),
    )


def key_of(external_id: str) -> str:
    """The identity under which an item is stored. Raises BadItem without one."""
    key = _bounded(_text(external_id, "external id"), _LONGEST_KEY)
    if not key:
        raise BadItem("It has no external id.")
    return key


def name_of(change: Item | Gone) -> str:
    """How to speak of something that may be nonsense."""
    return make_storable(str(getattr(change, "external_id", change))).text[:200]


def to_json(item: Item) -> dict[str, Any]:
    """An item for keeping; `from_json` gives it back as it was."""
    values = dataclasses.asdict(item)
    if item.dated_at is not None:
        values["dated_at"] = item.dated_at.isoformat()
    return values


def from_json(values: Mapping[str, Any]) -> Item:
    """The item that was kept."""
    plain = dict(values)
    plain["tags"] = tuple(plain["tags"])
    if plain["dated_at"] is not None:
        plain["dated_at"] = datetime.fromisoformat(plain["dated_at"])
    if plain["acl"] is not None:
        readers = plain["acl"]["readers"]
        plain["acl"] = Acl(
            tuple(Principal(PrincipalKind(reader["kind"]), reader["name"]) for reader in readers)
        )
    return Item(**plain)


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise BadItem(f"Its {what} isn't text.")
    return make_storable(value).text.strip()


def _revision(value: object) -> str:
    """The revision, which may not look like the mark that the parts of an archive carry."""
    text = _text(value, "revision")
    return _bounded(f"= {text}" if text.startswith(PART_MARK) else text, 200)


def _cut(value: object, longest: int, what: str) -> str:
    return _text(value, what)[:longest].rstrip()


def _bounded(text: str, longest: int) -> str:
    """`text`, or one that is as unmistakable where it is too long, in bytes, for an index."""
    if len(text.encode()) <= longest:
        return text
    return f"{text[:60]}… sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _url(value: object) -> str:
    """A web address, or nothing: links are shown to members."""
    text = _text(value, "address")
    is_web = text.lower().startswith(("http://", "https://"))
    return text if is_web and len(text) <= 2000 else ""


def _tags(tags: object) -> tuple[str, ...]:
    if not isinstance(tags, list | tuple | set | frozenset):
        raise BadItem("Its tags aren't a list.")
    short = [_cut(tag, 60, "tag") for tag in tags]
    return tuple(dict.fromkeys(tag for tag in short if tag))[:_MOST_TAGS]


def _acl(acl: object) -> Acl | None:
    if acl is None:
        return None
    if not isinstance(acl, Acl):
        raise BadItem("Its rights aren't an Acl.")
    for reader in acl.readers:
        if not isinstance(reader, Principal) or not isinstance(reader.name, str):
            raise BadItem("Its rights name something that isn't a Principal.")
        if reader.kind not in set(PrincipalKind):
            raise BadItem(f"Its rights name a {reader.kind!r}, which isn't known.")
    return acl
