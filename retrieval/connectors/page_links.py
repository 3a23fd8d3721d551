"""What a web page says to a crawler: where it leads, what its own address is, what it forbids.

Not for: the text of a page, which the reader of HTML takes out (`retrieval.ingest.formats.html`).
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from email.message import Message
from urllib.parse import urljoin

from lxml import etree

from kaizen.kernel.egress import Refused
from retrieval.web.address import normal_url

_LARGEST = 4 * 1024 * 1024
_MOST_LINKS = 5_000


@dataclass(frozen=True, slots=True)
class PageLinks:
    """Addresses in their one spelling; `canonical` is empty where the page names none."""

    links: tuple[str, ...] = ()
    canonical: str = ""
    may_index: bool = True


def read_links(data: bytes, *, url: str, content_type: str = "", robots_tag: str = "") -> PageLinks:
    """Read a page from `url`. `robots_tag` is its X-Robots-Tag header."""
    root = _parse(data[:_LARGEST], content_type)
    if root is None:
        return PageLinks()
    base = url
    canonical = ""
    orders = {word.strip().lower() for word in robots_tag.split(",")}
    hrefs: list[str] = []
    for element in root.iter("base", "link", "meta", "a", "area"):
        rel = (element.get("rel") or "").lower().split()
        href = (element.get("href") or "").strip()
        match element.tag:
            case "base" if href:
                base = _join(url, href) or url
            case "link" if "canonical" in rel and not canonical:
                canonical = normal_link(base, href)
            case "meta" if (element.get("name") or "").lower() in ("robots", "kaizen"):
                orders |= {w.strip().lower() for w in (element.get("content") or "").split(",")}
            case "a" | "area" if href and "nofollow" not in rel and len(hrefs) < _MOST_LINKS:
                hrefs.append(href)
    follows = orders.isdisjoint({"nofollow", "none"})
    links = dict.fromkeys(normal_link(base, href) for href in hrefs if follows)
    links.pop("", None)
    return PageLinks(tuple(links), canonical, orders.isdisjoint({"noindex", "none"}))


def normal_link(base: str, href: str) -> str:
    """Where a link of a page at `base` leads, in one spelling; empty if nowhere on the web."""
    # Authors break lines and leave blanks inside addresses, and browsers forgive them.
    joined = _join(base, "".join(href.splitlines()).replace("\t", "").replace(" ", "%20"))
    try:
        return normal_url(joined) if joined else ""
    except Refused:
        return ""


def _parse(data: bytes, content_type: str) -> etree._Element | None:
    if not data.strip():
        return None
    parser = etree.HTMLParser(
        encoding=_charset(content_type), no_network=True, remove_comments=True, remove_pis=True
    )
    try:
        return etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError):
        return None


def _charset(content_type: str) -> str | None:
    message = Message()
    message["Content-Type"] = content_type
    charset = message.get_content_charset()
    try:
        return codecs.lookup(charset).name if charset else None
    except (LookupError, ValueError):
        return None


def _join(base: str, href: str) -> str:
    try:
        return urljoin(base, href)
    except ValueError:
        return ""
