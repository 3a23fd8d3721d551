"""Entries of an RSS or Atom feed as documents: what the feed says, or the pages it links to.

Promises: an entry is the same one as long as the feed gives it the same identity; one that leaves
the feed stays a document, since feeds only show what is new. Linked pages are asked for only when
robots.txt allows it.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import BaseModel, Field, field_validator

from kaizen.kernel.egress import INTERNET, Network, Refused, Reply, read_url
from kaizen.kernel.errors import KaizenError
from retrieval.connectors.contract import ConnectorError, Fetched, Item, Page
from retrieval.connectors.feed_entries import Entry, NotAFeed, read_feed
from retrieval.connectors.polite import (
    Polite,
    as_connector_error,
    is_contact,
    retry_after,
)
from retrieval.web.address import file_name_of, path_of

LARGEST_FEED = 10 * 1024 * 1024
LARGEST_PAGE = 20 * 1024 * 1024

_PAGE_ITEMS = 50
_GONE = frozenset({404, 410})
_ACCEPT = "application/atom+xml, application/rss+xml, application/xml;q=0.9, */*;q=0.5"


class FeedConfig(BaseModel):
    """Which feed, and what of it."""

    url: str = Field(title="Address", description="Of the feed itself.", max_length=2_000)
    content: Literal["entry", "linked_page"] = Field(
        "entry",
        title="Take",
        description="What the feed says of each entry, or the page that the entry links to.",
    )
    delay_seconds: float = Field(
        1.0, title="Seconds between requests", description="For linked pages.", ge=0, le=60
    )
    contact: str = Field(
        "",
        title="Contact",
        description="An e-mail or web address for the site's owner, sent with every request.",
        max_length=200,
    )

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        try:
            return read_url(url).url
        except Refused as error:
            raise ValueError(error.message) from None

    @field_validator("contact")
    @classmethod
    def _is_contact(cls, contact: str) -> str:
        if not is_contact(contact):
            raise ValueError("Write an e-mail or web address without blanks.")
        return contact


class FeedConnector:
    """Reads a feed."""

    slug: ClassVar[str] = "feed"
    title: ClassVar[str] = "RSS or Atom feed"
    description: ClassVar[str] = "Entries of a feed, or the pages they link to."
    Config: ClassVar[type[BaseModel]] = FeedConfig
    mirrors_acl: ClassVar[bool] = False

    def __init__(self, config: BaseModel, *, network: Network = INTERNET) -> None:
        self._config = FeedConfig.model_validate(config.model_dump())
        self._web = Polite(
            contact=self._config.contact, delay=self._config.delay_seconds, network=network
        )
        self._entries: dict[str, Entry] = {}

    def check(self) -> None:
        """Read the feed once. Raises ConnectorError."""
        self._read(self._get_feed({}))

    def list_changes(self, checkpoint: str | None) -> Iterator[Page]:
        """The entries that the feed shows now; none when it says that it is unchanged.

        Raises ConnectorError.
        """
        reply = self._get_feed(_conditions(checkpoint))
        if reply.status == 304:
            yield Page(changes=(), checkpoint=checkpoint or "")
            return
        entries = self._read(reply)
        # The conditions count once all entries are stored.
        for start in range(0, len(entries), _PAGE_ITEMS):
            items = [self._item(entry) for entry in entries[start : start + _PAGE_ITEMS]]
            yield Page(changes=items, checkpoint=checkpoint or "")
        yield Page(changes=(), checkpoint=_checkpoint(reply))

    def fetch(self, item: Item) -> Fetched | None:
        """The entry, or the page it links to. Raises ConnectorError."""
        if self._config.content == "linked_page" and item.url:
            return self._fetch_page(item.url)
        if item.external_id not in self._entries:
            self._read(self._get_feed({}))
        entry = self._entries.get(item.external_id)
        if entry is None:
            raise ConnectorError("The feed shows this entry no more.", retry=False)
        return Fetched(_as_page(entry), "text/html; charset=utf-8")

    def close(self) -> None:
        """Nothing stays open between requests."""
        self._entries.clear()

    def _get_feed(self, conditions: dict[str, str]) -> Reply:
        try:
            reply = self._web.get(
                self._config.url,
                max_bytes=LARGEST_FEED,
                headers={"Accept": _ACCEPT, **conditions},
                redirects=5,
            )
        except KaizenError as error:
            raise as_connector_error(error) from error
        if reply.status == 304 and conditions:
            return reply
        if not 200 <= reply.status < 300:
            raise ConnectorError(
                f"The feed answers with status {reply.status}.", retry_after=retry_after(reply)
            )
        return reply

    def _read(self, reply: Reply) -> list[Entry]:
        try:
            entries = read_feed(reply.body, url=reply.url)
        except NotAFeed:
            raise ConnectorError("What is there isn't an RSS or Atom feed.") from None
        self._entries = {entry.identity: entry for entry in entries}
        return entries

    def _item(self, entry: Entry) -> Item:
        takes_page = self._config.content == "linked_page" and entry.url
        name = file_name_of(entry.url or self._config.url, "" if takes_page else "text/html")
        return Item(
            external_id=entry.identity,
            revision=entry.revision,
            file_name=name,
            title=entry.title[:300],
            path=path_of(entry.url) if entry.url else "",
            url=entry.url,
            author=entry.author,
            tags=entry.tags,
            dated_at=entry.dated_at,
            media_type="" if takes_page else "text/html",
        )

    def _fetch_page(self, url: str) -> Fetched | None:
        robots = self._web.robots_of(url)
        if not robots.may_fetch(read_url(url).path):
            raise ConnectorError("The site's robots.txt forbids this page.", retry=False)
        try:
            reply = self._web.get(url, max_bytes=LARGEST_PAGE, redirects=5, delay=robots.delay)
        except KaizenError as error:
            raise as_connector_error(error) from error
        if reply.status in _GONE:
            return None
        if not 200 <= reply.status < 300:
            raise ConnectorError(f"The page answers with status {reply.status}.")
        return Fetched(reply.body, reply.headers.get("content-type", ""))


def _conditions(checkpoint: str | None) -> dict[str, str]:
    """What to ask the server with; nothing for a checkpoint that can't be read."""
    try:
        kept = json.loads(checkpoint or "{}")
    except ValueError:
        return {}
    if not isinstance(kept, dict):
        return {}
    names = {"etag": "If-None-Match", "modified": "If-Modified-Since"}
    return {names[key]: value for key, value in kept.items() if key in names and value}


def _checkpoint(reply: Reply) -> str:
    kept = {"etag": reply.headers.get("etag"), "modified": reply.headers.get("last-modified")}
    return json.dumps({key: value for key, value in kept.items() if value and len(value) <= 500})


def _as_page(entry: Entry) -> bytes:
    title = html.escape(entry.title)
    return (
        f'<!doctype html><html><head><meta charset="utf-8"><title>{title}</title></head>'
        f"<body><h1>{title}</h1>{entry.content or entry.summary}</body></html>"
    ).encode("utf-8", "replace")
