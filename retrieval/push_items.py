"""What programs push, checked before anything is stored: one document, or the end of one.

Promises: a member that isn't known refuses its item, since a misspelt list of readers must not pass
for none; texts are fit to store. Not for: storing (`retrieval.push`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any

from django.utils.dateparse import parse_date, parse_datetime

from kaizen.kernel.errors import Invalid
from kaizen.kernel.text import make_storable, shown_file_name
from retrieval.blobs import Content, read_content
from retrieval.connectors.contract import Principal, PrincipalKind
from retrieval.details import Details, check_details, claimed_type, external_key

MOST_READERS = 5_000
_TEXTS = ("title", "path", "url", "author")
_KNOWN = frozenset(
    {"external_id", "text", "content", "file_name", "media_type", "tags", "dated_at"}
    | {"acl", "deleted", *_TEXTS}
)


@dataclass(frozen=True, slots=True)
class Inherit:
    """The document follows its source."""


@dataclass(frozen=True, slots=True)
class Readers:
    """Who may read the document; None is unknown, so nobody."""

    names: tuple[Principal, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PushItem:
    """One document as it was pushed. What is None stays as it is."""

    external_id: str
    deleted: bool = False
    file_name: str = ""
    media_type: str = ""
    content: Content | None = None
    details: Details
    acl: Inherit | Readers | None = None


def read_item(raw: object) -> PushItem:
    """Check one item. Raises Invalid, TooLarge."""
    if not isinstance(raw, Mapping):
        raise Invalid("An item is a JSON object.")
    unknown = [str(name) for name in raw if name not in _KNOWN]
    if unknown:
        named = make_storable(", ".join(sorted(unknown))).text[:200]
        raise Invalid(f"There is no member called {named}.", code="unknown_member")
    external_id = external_key(_text(raw, "external_id"))
    if not external_id:
        raise Invalid("An item needs an external_id.")
    if _flag(raw, "deleted"):
        if set(raw) - {"external_id", "deleted"}:
            raise Invalid("An item that is deleted has no other members.")
        return PushItem(external_id=external_id, deleted=True, details={})
    file_name, content = _content(raw, external_id)
    return PushItem(
        external_id=external_id,
        file_name=file_name,
        media_type=claimed_type(_text(raw, "media_type")),
        content=content,
        details=_details(raw),
        acl=_acl(raw["acl"]) if "acl" in raw else None,
    )


def _content(raw: Mapping[str, Any], external_id: str) -> tuple[str, Content | None]:
    """The file's name and bytes; text is a Markdown file where no name says otherwise."""
    name = _text(raw, "file_name")
    if "text" in raw and "content" in raw:
        raise Invalid("An item has text or content, not both.")
    if "text" in raw:
        data = make_storable(_text(raw, "text")).text.encode()
        return shown_file_name(name or f"{_text(raw, 'title') or external_id}.md"), read_content(
            data
        )
    if "content" not in raw:
        return "", None
    if not name:
        raise Invalid("An item with content needs a file_name.")
    try:
        data = base64.b64decode(_text(raw, "content").encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise Invalid("The content isn't base64.", code="base64") from None
    return shown_file_name(name), read_content(data)


def _details(raw: Mapping[str, Any]) -> Details:
    values: dict[str, Any] = {name: _text(raw, name) for name in _TEXTS if name in raw}
    if "tags" in raw:
        if not isinstance(raw["tags"], list) or not all(isinstance(t, str) for t in raw["tags"]):
            raise Invalid("The tags are a list of texts.")
        values["tags"] = raw["tags"]
    if "dated_at" in raw:
        values["dated_at"] = _moment(raw["dated_at"])
    return check_details(values)


def _moment(value: object) -> datetime | None:
    """A date, or a date and time, in ISO 8601; UTC where no zone is given."""
    if value is None:
        return None
    problem = Invalid("The dated_at is a date in ISO 8601, such as 2031-03-04T09:30:00Z.")
    if not isinstance(value, str):
        raise problem
    try:
        day = parse_date(value)
        moment = parse_datetime(value) if day is None else datetime.combine(day, time(), tzinfo=UTC)
    except ValueError:
        raise problem from None
    if moment is None:
        raise problem
    return moment


def _acl(value: object) -> Inherit | Readers:
    if value == "unknown":
        return Readers(None)
    if isinstance(value, Mapping) and set(value) == {"inherit"} and value["inherit"] is True:
        return Inherit()
    if isinstance(value, Mapping) and set(value) == {"readers"}:
        readers = value["readers"]
        if isinstance(readers, list) and len(readers) <= MOST_READERS:
            return Readers(tuple(_reader(reader) for reader in readers))
    raise Invalid(
        'The acl is {"inherit": true}, {"readers": [{"kind": "email", "name": "..."}]} '
        f'with at most {MOST_READERS:,} readers, or "unknown".',
        code="acl",
    )


def _reader(value: object) -> Principal:
    kinds = [kind.value for kind in PrincipalKind]
    if (
        not isinstance(value, Mapping)
        or set(value) - {"kind", "name"}
        or value.get("kind") not in kinds
        or not isinstance(value.get("name", ""), str)
    ):
        raise Invalid(f"A reader has a kind ({', '.join(kinds)}) and a name.", code="acl")
    principal = Principal(PrincipalKind(value["kind"]), value.get("name", ""))
    if principal.kind is not PrincipalKind.EVERYONE and not principal.name.strip():
        raise Invalid("A reader that isn't everyone has a name.", code="acl")
    return principal


def _text(raw: Mapping[str, Any], name: str) -> str:
    value = raw.get(name, "")
    if not isinstance(value, str):
        raise Invalid(f"The {name} is a text.")
    return value


def _flag(raw: Mapping[str, Any], name: str) -> bool:
    value = raw.get(name, False)
    if not isinstance(value, bool):
        raise Invalid(f"The member {name} is true or false.")
    return value
