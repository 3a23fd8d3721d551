"""The entries of an RSS 2.0, RSS 1.0 or Atom feed, in one shape.

Promises: hostile XML is refused, not expanded; an entry without a usable identity gets the address
it links to, and is left out without either. Nothing is fetched.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from hashlib import sha256
from xml.etree.ElementTree import Element, tostring

from retrieval.connectors.page_links import normal_link
from retrieval.connectors.safe_xml import NotXml, local_name, parse_xml

MOST_ENTRIES = 1_000

_XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"
_ROOTS = {"rss", "rdf", "feed"}


class NotAFeed(ValueError):
    """Neither RSS nor Atom."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry. `content` is HTML; `summary` too, for feeds that give no more."""

    identity: str
    title: str
    url: str
    content: str
    summary: str
    author: str
    tags: tuple[str, ...]
    dated_at: datetime | None
    updated: str

    @property
    def revision(self) -> str:
        """Changes when anything of the entry does, whether or not its date tells."""
        parts = (
            self.title,
            self.url,
            self.content,
            self.summary,
            self.author,
            *self.tags,
            self.dated_at.isoformat() if self.dated_at else "",
        )
        digest = sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:24]
        return f"{self.updated[:60]} {digest}".strip()


def read_feed(data: bytes, *, url: str) -> list[Entry]:
    """The entries in the order of the feed, each identity once. Raises NotAFeed."""
    try:
        root = parse_xml(data)
    except NotXml as error:
        raise NotAFeed(str(error)) from None
    if local_name(root) not in _ROOTS:
        raise NotAFeed(local_name(root))
    base = normal_link(url, root.get(_XML_BASE) or "") or url
    found: dict[str, Entry] = {}
    for element in _entries(root):
        entry = _read_entry(element, base)
        if entry.identity and entry.identity not in found:
            found[entry.identity] = entry
        if len(found) >= MOST_ENTRIES:
            break
    return list(found.values())


def _entries(root: Element) -> Iterator[Element]:
    """`item` in a channel or beside it, `entry` in a feed."""
    for element in root:
        name = local_name(element)
        if name in ("item", "entry"):
            yield element
        elif name == "channel":
            yield from (inner for inner in element if local_name(inner) == "item")


def _read_entry(element: Element, base: str) -> Entry:
    base = normal_link(base, element.get(_XML_BASE) or "") or base
    parts: dict[str, list[Element]] = {}
    for part in element:
        parts.setdefault(local_name(part), []).append(part)
    url = _link(parts, base)
    about = next((value for key, value in element.attrib.items() if key.endswith("}about")), "")
    identity = _text(parts, "guid", "id") or about.strip() or url
    published = _text(parts, "published", "pubdate", "date", "issued")
    updated = _text(parts, "updated", "modified") or published
    return Entry(
        identity=identity,
        title=_plain(_text(parts, "title")),
        url=url,
        content=_markup(parts, "encoded") or _markup(parts, "content"),
        summary=_markup(parts, "description") or _markup(parts, "summary"),
        author=_author(parts),
        tags=_tags(parts),
        dated_at=read_date(published) or read_date(updated),
        updated=updated,
    )


def read_date(text: str) -> datetime | None:
    """A date of RFC 822 or ISO 8601, in UTC where it names no zone; None for anything else."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        try:
            found = parsedate_to_datetime(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _text(parts: dict[str, list[Element]], *names: str) -> str:
    """The text of the first of these that has any."""
    for name in names:
        for element in parts.get(name, ()):
            text = "".join(element.itertext()).strip()
            if text:
                return text
    return ""


def _plain(text: str) -> str:
    """A title without the entities that many feeds escape twice."""
    return " ".join(html.unescape(text).split())


def _link(parts: dict[str, list[Element]], base: str) -> str:
    """The address of the entry itself; a permanent guid where there is no link."""
    for element in parts.get("link", ()):
        if (element.get("rel") or "alternate") == "alternate":
            href = (element.get("href") or element.text or "").strip()
            url = normal_link(base, href) if href else ""
            if url:
                return url
    for element in parts.get("guid", ()):
        if (element.get("isPermaLink") or "true").lower() == "true":
            return normal_link("", (element.text or "").strip())
    return ""


def _markup(parts: dict[str, list[Element]], name: str) -> str:
    """The longest of the elements of this name, as HTML."""
    return max((_html(element) for element in parts.get(name, ())), key=len, default="")


def _html(element: Element) -> str:
    kind = (element.get("type") or "").lower()
    if kind == "xhtml" or len(element):
        return "".join([html.escape(element.text or ""), *(_serialize(part) for part in element)])
    text = element.text or ""
    return html.escape(text) if kind in ("text", "text/plain") else text


def _serialize(element: Element) -> str:
    """An element as HTML, its namespaces taken off."""
    for part in element.iter():
        if isinstance(part.tag, str):
            part.tag = part.tag.rpartition("}")[2]
        part.attrib = {key: value for key, value in part.attrib.items() if "}" not in key}
    return tostring(element, encoding="unicode", method="html")


def _author(parts: dict[str, list[Element]]) -> str:
    for name in ("author", "creator"):
        for element in parts.get(name, ()):
            names = [part for part in element if local_name(part) == "name"]
            text = " ".join("".join((names[0] if names else element).itertext()).split())
            # RSS writes `address (Name)`.
            if text.endswith(")") and "@" in text.partition("(")[0]:
                text = text.partition("(")[2][:-1]
            if text:
                return text[:200]
    return ""


def _tags(parts: dict[str, list[Element]]) -> tuple[str, ...]:
    elements = [*parts.get("category", ()), *parts.get("subject", ())]
    found = (
        _plain(element.get("label") or element.get("term") or element.text or "")[:60]
        for element in elements
    )
    return tuple(dict.fromkeys(tag for tag in found if tag))[:50]
