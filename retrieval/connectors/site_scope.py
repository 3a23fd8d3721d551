"""Which pages a crawl is about: its configuration, and whether an address belongs to it.

Decides by addresses and types alone. Not for: robots.txt, which needs asking.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, StringConstraints, field_validator

from kaizen.kernel.egress import Refused, read_url
from retrieval.connectors.crawl import LONGEST_URL
from retrieval.connectors.polite import is_contact
from retrieval.web.address import FILE_ENDINGS, HTML_TYPES, normal_url

_FILES = (*FILE_ENDINGS.values(), ".markdown")
# What no reader takes, known by its name alone.
_NO_DOCUMENTS = (
    ".png", ".jpg", ".jpeg", ".gif", ".webp", ".avif", ".svg", ".ico", ".bmp", ".tif", ".tiff",
    ".css", ".js", ".mjs", ".map", ".json", ".xml", ".rss", ".atom", ".zip", ".gz", ".tgz", ".tar",
    ".bz2", ".xz", ".7z", ".rar", ".exe", ".msi", ".dmg", ".deb", ".rpm", ".iso", ".apk", ".jar",
    ".mp3", ".mp4", ".m4a", ".mov", ".avi", ".mkv", ".webm", ".ogg", ".wav", ".woff", ".woff2",
    ".ttf", ".otf", ".eot",
)  # fmt: skip


class WebsiteConfig(BaseModel):
    """Which pages of which site."""

    start_urls: list[str] = Field(
        title="Start addresses",
        description="One a line. The crawl stays on their hosts.",
        min_length=1,
        max_length=20,
    )
    path_prefixes: list[Annotated[str, StringConstraints(pattern=r"^/", max_length=500)]] = Field(
        default_factory=list,
        title="Only paths that begin with",
        description="One a line, such as /docs/. Empty for all.",
        max_length=100,
    )
    use_sitemap: bool = Field(
        True,
        title="Use the site's map",
        description="The sitemaps that robots.txt names, or /sitemap.xml.",
    )
    max_pages: int = Field(
        500, title="Pages at most", description="Pages beyond are left out.", ge=1, le=5_000
    )
    max_depth: int = Field(
        5, title="Links deep", description="How many links away from a start.", ge=0, le=50
    )
    with_files: bool = Field(
        False,
        title="Files too",
        description="PDF, Word, PowerPoint, Excel, CSV, Markdown and text that pages link to.",
    )
    delay_seconds: float = Field(
        1.0,
        title="Seconds between requests",
        description="A longer Crawl-delay of robots.txt counts, up to 60 seconds.",
        ge=0,
        le=60,
    )
    contact: str = Field(
        "",
        title="Contact",
        description="An e-mail or web address for the site's owner, sent with every request.",
        max_length=200,
    )

    @field_validator("start_urls")
    @classmethod
    def _are_addresses(cls, urls: list[str]) -> list[str]:
        try:
            return list(dict.fromkeys(normal_url(url) for url in urls))
        except Refused as error:
            raise ValueError(error.message) from None

    @field_validator("contact")
    @classmethod
    def _is_contact(cls, contact: str) -> str:
        if not is_contact(contact):
            raise ValueError("Write an e-mail or web address without blanks.")
        return contact

    def is_named(self, url: str, hosts: Collection[str]) -> bool:
        """Whether an address may give a page: here, not too long, and of a kind that is read."""
        path = urlsplit(url).path.lower()
        if len(url) > LONGEST_URL or read_url(url).authority not in hosts:
            return False
        if path.endswith(_NO_DOCUMENTS):
            return False
        return self.with_files or not path.endswith(_FILES)

    def is_wanted(self, url: str) -> bool:
        """Whether the path of an address is among those to be taken."""
        prefixes = tuple(self.path_prefixes)
        return not prefixes or urlsplit(url).path.startswith(prefixes)

    def is_kind(self, url: str, media_type: str) -> bool:
        """Whether this is a page, or a file that is wanted too."""
        if media_type in HTML_TYPES:
            return True
        named = urlsplit(url).path.lower().endswith(_FILES)
        is_file = media_type in FILE_ENDINGS or (media_type == "application/octet-stream" and named)
        return self.with_files and is_file
