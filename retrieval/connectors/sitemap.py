"""A site's map: the pages it names, and the further maps it is made of."""

from __future__ import annotations

from dataclasses import dataclass

from kaizen.kernel.egress import decompress
from kaizen.kernel.errors import KaizenError
from retrieval.connectors.safe_xml import NotXml, local_name, parse_xml

LARGEST = 50 * 1024 * 1024
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Sitemap:
    """Addresses as they stand there; nobody has checked them."""

    pages: tuple[str, ...] = ()
    maps: tuple[str, ...] = ()


def read_sitemap(data: bytes) -> Sitemap:
    """Read a map or an index of maps, packed or not. What is neither is an empty map."""
    try:
        root = parse_xml(decompress(data, max_bytes=LARGEST) if data[:2] == _GZIP else data)
    except (NotXml, KaizenError):
        return Sitemap()
    found = tuple(
        (element.text or "").strip()
        for entry in root
        for element in entry
        if local_name(element) == "loc" and local_name(entry) in ("url", "sitemap")
    )
    is_index = local_name(root) == "sitemapindex"
    return Sitemap(maps=found) if is_index else Sitemap(pages=found)
