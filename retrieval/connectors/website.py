"""Pages of a web site: those its map names, and those its links lead to.

Promises: stays on the hosts of the start addresses and does what robots.txt says; asks again only
for what changed; one page that fails blocks no other and loses nothing; a page that is gone is
named no more, so that the engine deletes it at the end of the pass. Not for: pages that only a
script or a signed-in visitor sees.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from hashlib import sha256
from typing import ClassVar

from pydantic import BaseModel

from kaizen.kernel.egress import INTERNET, Network, Refused, Reply, read_url
from kaizen.kernel.errors import KaizenError, TooLarge
from retrieval.connectors.contract import ConnectorError, Fetched, Item, Page
from retrieval.connectors.crawl import Crawl, Seen, make_seen
from retrieval.connectors.page_links import PageLinks, normal_link, read_links
from retrieval.connectors.polite import (
    Polite,
    as_connector_error,
    read_http_date,
    retry_after,
)
from retrieval.connectors.site_scope import WebsiteConfig
from retrieval.connectors.sitemap import LARGEST as LARGEST_SITEMAP
from retrieval.connectors.sitemap import read_sitemap
from retrieval.web.address import (
    HTML_TYPES,
    file_name_of,
    media_type_of,
    normal_url,
    path_of,
)

LARGEST_PAGE = 20 * 1024 * 1024

_PAGE_ITEMS = 20
_PAGE_BYTES = 8 * 1024 * 1024
_PAGE_SECONDS = 10.0
_MOST_SITEMAPS = 50
_MOST_FAILURES = 5
_MOST_WAITS = 3
_GONE = frozenset({404, 410})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class WebsiteConnector:
    """Reads the pages of a site."""

    slug: ClassVar[str] = "website"
    title: ClassVar[str] = "Web site"
    description: ClassVar[str] = "Pages of a site, by its map and by following links."
    Config: ClassVar[type[BaseModel]] = WebsiteConfig
    mirrors_acl: ClassVar[bool] = False

    def __init__(self, config: BaseModel, *, network: Network = INTERNET) -> None:
        self._config = WebsiteConfig.model_validate(config.model_dump())
        self._web = Polite(
            contact=self._config.contact, delay=self._config.delay_seconds, network=network
        )
        # The pages named last, which the engine fetches next.
        self._bodies: dict[str, Fetched] = {}

    def check(self) -> None:
        """Ask for the first start page. Raises ConnectorError."""
        url = self._config.start_urls[0]
        self._check_robots(url)
        try:
            reply = self._web.get(url, max_bytes=LARGEST_PAGE, redirects=5)
        except KaizenError as error:
            raise as_connector_error(error) from error
        if not 200 <= reply.status < 300:
            raise ConnectorError(f"{url} answers with status {reply.status}.", retry=False)

    def list_changes(self, checkpoint: str | None) -> Iterator[Page]:
        """One pass over the site, naming every page that there is. Raises ConnectorError."""
        crawl = Crawl.load(checkpoint)
        if not crawl.is_running:
            self._begin(crawl)
        items: list[Item] = []
        begun = time.monotonic()
        try:
            while entry := crawl.take(most_pages=self._config.max_pages):
                try:
                    item = self._visit(crawl, *entry)
                except ConnectorError:
                    crawl.put_back(*entry)
                    raise
                if item is not None:
                    items.append(item)
                if self._is_full(items) or time.monotonic() - begun > _PAGE_SECONDS:
                    yield Page(changes=items, checkpoint=crawl.dump(), is_listing=crawl.is_whole)
                    items, begun = [], time.monotonic()
                    self._bodies.clear()
        except ConnectorError as pause:
            yield Page(changes=items, checkpoint=crawl.dump(), is_listing=crawl.is_whole)
            raise pause from None
        if not crawl.found:
            # Nothing at all is a fault of the site or of the configuration, hardly a site of none.
            crawl.is_running = False
            yield Page(changes=(), checkpoint=crawl.dump())
            raise ConnectorError(f"No page could be read. {crawl.trouble}".strip())
        crawl.finish()
        yield Page(changes=items, checkpoint=crawl.dump(), is_listing=crawl.is_whole)

    def fetch(self, item: Item) -> Fetched | None:
        """The page as it was when it was named, else as it is now. Raises ConnectorError."""
        kept = self._bodies.pop(item.external_id, None)
        if kept is not None:
            return kept
        try:
            reply = self._web.get(item.url, max_bytes=LARGEST_PAGE)
        except KaizenError as error:
            raise as_connector_error(error) from error
        if reply.status in _GONE:
            return None
        if not 200 <= reply.status < 300:
            message = f"The page answers with status {reply.status}."
            later = retry_after(reply) if reply.status in (429, 503) else None
            raise ConnectorError(message, retry_after=later)
        return Fetched(reply.body, reply.headers.get("content-type", ""))

    def close(self) -> None:
        """Nothing stays open between requests."""
        self._bodies.clear()

    def _begin(self, crawl: Crawl) -> None:
        starts = self._config.start_urls
        known = [(url, seen.depth) for url, seen in {**crawl.before, **crawl.found}.items()]
        crawl.begin(list(dict.fromkeys(read_url(url).authority for url in starts)))
        for url in starts:
            self._check_robots(url)
            self._add(crawl, url, 0)
        if self._config.use_sitemap:
            for url in self._pages_of_maps():
                self._add(crawl, url, 1)
        for url, depth in known:
            self._add(crawl, url, depth)

    def _check_robots(self, url: str) -> None:
        target = read_url(url)
        if not self._web.robots_of(url).may_fetch(target.path):
            raise ConnectorError(f"The robots.txt of {target.host} forbids {url}.", retry=False)

    def _pages_of_maps(self) -> Iterator[str]:
        """The addresses in the site's maps. A map that can't be read is passed over."""
        waiting: list[str] = []
        for url in self._config.start_urls:
            target = read_url(url)
            own = f"{target.scheme}://{target.authority}/sitemap.xml"
            waiting += self._web.robots_of(url).sitemaps or (own,)
        for count, address in enumerate(waiting):
            if count >= _MOST_SITEMAPS:
                return
            try:
                reply = self._web.get(address, max_bytes=LARGEST_SITEMAP, redirects=5)
            except KaizenError:
                continue
            if reply.status == 200:
                found = read_sitemap(reply.body)
                waiting += (url for url in found.maps if url not in waiting)
                yield from found.pages

    def _add(self, crawl: Crawl, url: str, depth: int, *, first: bool = False) -> None:
        """Queue an address that belongs to this crawl."""
        try:
            url = normal_url(url)
        except Refused:
            return
        if depth <= self._config.max_depth and self._may_visit(crawl, url, depth):
            crawl.add(url, depth, most_pages=self._config.max_pages, first=first)

    def _may_visit(self, crawl: Crawl, url: str, depth: int) -> bool:
        if not self._config.is_named(url, crawl.hosts):
            return False
        if depth > 0 and not self._config.is_wanted(url):
            return False
        return self._web.robots_of(url).may_fetch(read_url(url).path)

    def _visit(self, crawl: Crawl, url: str, depth: int) -> Item | None:
        """Ask for one address: the page it gives, if any.

        Raises ConnectorError when it is better to come back to it later.
        """
        if not self._may_visit(crawl, url, depth):
            crawl.leave(url)
            return None
        known = crawl.before.get(url)
        try:
            reply = self._web.get(
                url,
                max_bytes=LARGEST_PAGE,
                headers=_conditions(known),
                delay=self._web.robots_of(url).delay,
            )
        except (TooLarge, Refused) as error:
            crawl.leave(url)
            crawl.trouble = crawl.trouble or error.message
            return None
        except KaizenError as error:
            return self._fail(crawl, url, error.message)
        if reply.status in (429, 503) and self._must_wait(crawl, reply):
            message = f"The site asks to come back later (status {reply.status})."
            raise ConnectorError(message, retry_after=retry_after(reply))
        if reply.status >= 400 and reply.status not in _GONE:
            return self._fail(crawl, url, f"{url} answers with status {reply.status}.")
        crawl.failures = crawl.waits = 0
        return self._judge(crawl, url, depth, reply, known)

    def _judge(
        self, crawl: Crawl, url: str, depth: int, reply: Reply, known: Seen | None
    ) -> Item | None:
        """What a site that works says of one address."""
        if reply.status == 304 and known is not None:
            return _item(url, known) if crawl.keep(url, known) else None
        if reply.status in _REDIRECTS:
            crawl.leave(url)
            self._follow(crawl, url, depth, reply)
            return None
        if not 200 <= reply.status < 300:
            crawl.leave(url)
            crawl.trouble = crawl.trouble or f"{url} answers with status {reply.status}."
            return None
        return self._take(crawl, url, depth, reply)

    def _fail(self, crawl: Crawl, url: str, why: str) -> Item | None:
        crawl.waits = 0
        crawl.failures += 1
        if crawl.failures >= _MOST_FAILURES:
            crawl.failures = 0
            raise ConnectorError(f"The site fails again and again. {why}")
        known = crawl.fail(url, why)
        return _item(url, known) if known else None

    def _must_wait(self, crawl: Crawl, reply: Reply) -> bool:
        crawl.waits += 1
        asked = reply.status == 429 or retry_after(reply) is not None
        return asked and crawl.waits < _MOST_WAITS

    def _follow(self, crawl: Crawl, url: str, depth: int, reply: Reply) -> None:
        """Queue where a redirect leads; one of a start address may name the site's real host."""
        location = reply.headers.get("location", "")
        onward = normal_link(url, location.encode("latin-1", "replace").decode(errors="replace"))
        if onward and depth == 0:
            crawl.hosts = list(dict.fromkeys([*crawl.hosts, read_url(onward).authority]))
        self._add(crawl, onward, depth, first=True)

    def _take(self, crawl: Crawl, url: str, depth: int, reply: Reply) -> Item | None:
        content_type = reply.headers.get("content-type", "")
        media_type = media_type_of(content_type)
        page = PageLinks()
        if media_type in HTML_TYPES:
            robots_tag = reply.headers.get("x-robots-tag", "")
            page = read_links(reply.body, url=url, content_type=content_type, robots_tag=robots_tag)
            for link in page.links:
                self._add(crawl, link, depth + 1)
        is_page = self._config.is_kind(url, media_type) and self._config.is_wanted(url)
        if not (is_page and page.may_index and reply.body.strip()):
            crawl.leave(url)
            return None
        seen = make_seen(
            depth,
            revision=sha256(reply.body).hexdigest()[:40],
            etag=reply.headers.get("etag", ""),
            modified=reply.headers.get("last-modified", ""),
            identity=self._identity(crawl, url, page),
            media_type=media_type,
        )
        if not crawl.keep(url, seen):
            return None
        item = _item(url, seen)
        self._bodies[item.external_id] = Fetched(reply.body, content_type)
        return item

    def _identity(self, crawl: Crawl, url: str, page: PageLinks) -> str:
        """The canonical address if it is another one of this site, else empty."""
        canonical = page.canonical
        if not canonical or canonical == url:
            return ""
        is_here = self._config.is_named(canonical, crawl.hosts)
        return canonical if is_here and self._config.is_wanted(canonical) else ""

    def _is_full(self, items: list[Item]) -> bool:
        size = sum(len(body.data) for body in self._bodies.values())
        return len(items) >= _PAGE_ITEMS or size >= _PAGE_BYTES


def _conditions(known: Seen | None) -> dict[str, str]:
    if known is None:
        return {}
    found = {"If-None-Match": known.etag, "If-Modified-Since": known.modified}
    return {name: value for name, value in found.items() if value}


def _item(url: str, seen: Seen) -> Item:
    identity = seen.identity or url
    return Item(
        external_id=identity,
        revision=seen.revision,
        file_name=file_name_of(identity, seen.media_type),
        path=path_of(identity),
        url=url,
        dated_at=read_http_date(seen.modified),
        media_type=seen.media_type,
    )
