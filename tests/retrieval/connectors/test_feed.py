"""Feeds: three dialects in one shape, nothing hostile expanded, nothing lost when entries leave."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from retrieval.connectors.contract import ConnectorError, Item, Page
from retrieval.connectors.feed import FeedConfig, FeedConnector
from retrieval.connectors.feed_entries import NotAFeed, read_date, read_feed
from retrieval.ingest.contract import ParseLimits
from retrieval.ingest.formats.html import read_markup
from tests.websites import Asked, Served, Site, website

RSS = """<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/"
     xmlns:dc="http://purl.org/dc/elements/1.1/">
<channel><title>News</title><link>https://example.org/</link>
<item><title>Fish &amp;amp; chips</title><link>/one?utm_source=rss</link>
  <guid isPermaLink="false">tag:one</guid><pubDate>Tue, 03 Mar 2026 10:00:00 +0100</pubDate>
  <author>eva@example.org (Eva Adam)</author><category>Food</category><category>Sea</category>
  <category>Food</category><description>&lt;p&gt;Short&lt;/p&gt;</description>
  <content:encoded><![CDATA[<p>The whole <b>story</b>.</p>]]></content:encoded></item>
<item><title>Two</title><guid>https://example.org/two</guid><dc:creator>Adam</dc:creator>
  <description>Only &lt;i&gt;this&lt;/i&gt;</description></item>
<item><title>Nameless, linkless</title></item>
</channel></rss>"""

RDF = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
 xmlns="http://purl.org/rss/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/">
<channel rdf:about="https://example.org/"><title>Old</title></channel>
<item rdf:about="urn:x:1"><title>First</title><link>https://example.org/1</link>
 <dc:date>2026-03-03T10:00:00Z</dc:date><dc:creator>Eva</dc:creator><dc:subject>Law</dc:subject>
 <description>Text</description></item></rdf:RDF>"""

ATOM = """<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://example.org/blog/">
<title>Blog</title>
<entry><id>urn:uuid:1</id><title type="html">A &lt;b&gt;title</title>
 <link rel="self" href="https://example.org/self"/><link href="post"/>
 <published>2026-03-03T10:00:00Z</published><updated>2026-03-04T10:00:00Z</updated>
 <author><name>Eva</name><email>eva@example.org</email></author>
 <category term="x" label="Ex"/><category term="why"/>
 <content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>One <em>two</em> three</p>
 </div></content></entry>
<entry><id>urn:uuid:2</id><title>Plain</title><link href="https://example.org/2"/>
 <updated>2026-03-05</updated><summary>5 &lt; 6</summary></entry>
</feed>"""


@pytest.fixture
def site(settings: Any) -> Iterator[Site]:
    with website() as running:
        settings.EGRESS_ALLOW = (running.allowed,)
        yield running


def reader(site: Site, **config: Any) -> FeedConnector:
    values = {"url": f"{site.origin}/feed", "delay_seconds": 0, **config}
    return FeedConnector(FeedConfig.model_validate(values))


def pages_of(connector: FeedConnector, checkpoint: str | None = None) -> list[Page]:
    return list(connector.list_changes(checkpoint))


def items_of(pages: list[Page]) -> list[Item]:
    return [item for page in pages for item in page.changes if isinstance(item, Item)]


# --- reading


def test_rss_2_is_read() -> None:
    one, two = read_feed(RSS.encode(), url="https://example.org/rss.xml")
    assert one.identity == "tag:one"
    assert one.title == "Fish & chips"
    assert one.url == "https://example.org/one"
    assert one.author == "Eva Adam"
    assert one.tags == ("Food", "Sea")
    assert one.dated_at == datetime(2026, 3, 3, 9, tzinfo=UTC)
    assert one.content == "<p>The whole <b>story</b>.</p>"
    assert (two.identity, two.url) == ("https://example.org/two", "https://example.org/two")
    assert (two.author, two.content, two.summary) == ("Adam", "", "Only <i>this</i>")
    assert two.dated_at is None


def test_rss_1_is_read() -> None:
    (one,) = read_feed(RDF.encode(), url="https://example.org/rss.rdf")
    assert (one.identity, one.url, one.author) == ("urn:x:1", "https://example.org/1", "Eva")
    assert one.tags == ("Law",)
    assert one.dated_at == datetime(2026, 3, 3, 10, tzinfo=UTC)
    assert one.summary == "Text"


def test_atom_is_read() -> None:
    one, two = read_feed(ATOM.encode(), url="https://other.example/atom")
    assert (one.identity, one.url) == ("urn:uuid:1", "https://example.org/blog/post")
    assert one.title == "A <b>title"
    assert (one.author, one.tags) == ("Eva", ("Ex", "why"))
    assert one.dated_at == datetime(2026, 3, 3, 10, tzinfo=UTC)
    assert one.revision.startswith("2026-03-04T10:00:00Z ")
    assert "<p>One <em>two</em> three</p>" in one.content
    assert (two.summary, two.dated_at) == ("5 < 6", datetime(2026, 3, 5, tzinfo=UTC))


def test_the_revision_changes_with_the_content_even_if_no_date_does() -> None:
    first = read_feed(RSS.encode(), url="https://example.org/")
    same = read_feed(RSS.encode(), url="https://example.org/")
    other = read_feed(RSS.replace("story", "history").encode(), url="https://example.org/")
    assert first[0].revision == same[0].revision
    assert first[0].revision != other[0].revision
    assert first[1].revision == other[1].revision


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html><body>Not found</body></html>",
        b"<rss><channel>",
        b'<!DOCTYPE r [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;">]><rss><channel>&b;</channel></rss>',
        b'<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><rss><channel>&x;</channel></rss>',
        b'<!DOCTYPE r SYSTEM "http://127.0.0.1/x.dtd"><rss>&unknown;</rss>',
        b"<rss>" + b"<x>" * 100_000,
        b"{}",
    ],
)
def test_what_is_no_feed_or_hostile_is_refused(data: bytes) -> None:
    with pytest.raises(NotAFeed):
        read_feed(data, url="https://example.org/")


def test_entries_are_bounded_and_each_identity_counts_once() -> None:
    items = "".join(f"<item><guid>g{number % 1500}</guid></item>" for number in range(3_000))
    found = read_feed(f"<rss><channel>{items}</channel></rss>".encode(), url="https://e.org/")
    assert len(found) == 1_000
    assert len({entry.identity for entry in found}) == 1_000


@pytest.mark.parametrize("text", ["", "yesterday", "32 Foo 2026", "2026-13-45", "Tue, 99 Mar 2026"])
def test_a_date_that_is_none_is_none(text: str) -> None:
    assert read_date(text) is None


# --- the connector


def test_an_entry_becomes_a_document_with_its_details(site: Site) -> None:
    site.serve("/feed", RSS, media_type="application/rss+xml")
    connector = reader(site)
    first, second = items_of(pages_of(connector))
    assert first.external_id == "tag:one"
    assert first.title == "Fish & chips"
    assert first.file_name == "one.html"
    assert (first.author, first.tags) == ("Eva Adam", ("Food", "Sea"))
    assert first.url == f"{site.origin}/one"
    fetched = connector.fetch(first)
    assert fetched is not None
    draft = read_markup(fetched.data.decode(), ParseLimits())
    assert draft.title == "Fish & chips"
    assert [block.text for block in draft.blocks] == ["Fish & chips", "The whole story."]
    assert site.paths() == ["/feed"]
    assert second.title == "Two"


def test_linked_pages_are_taken_where_that_is_chosen(site: Site) -> None:
    site.serve("/feed", RSS)
    site.serve("/robots.txt", "User-agent: *\nDisallow: /secret", media_type="text/plain")
    site.serve("/one", "<title>The page</title>", media_type="text/html")
    connector = reader(site, content="linked_page")
    item = items_of(pages_of(connector))[0]
    fetched = connector.fetch(item)
    assert fetched is not None
    assert (fetched.data, fetched.media_type) == (b"<title>The page</title>", "text/html")
    del site.pages["/one"]
    assert connector.fetch(item) is None
    site.serve("/one", "", status=500)
    with pytest.raises(ConnectorError):
        connector.fetch(item)


def test_a_linked_page_that_robots_txt_forbids_is_not_asked_for(site: Site) -> None:
    site.serve("/feed", RSS)
    site.serve("/robots.txt", "User-agent: *\nDisallow: /one", media_type="text/plain")
    connector = reader(site, content="linked_page")
    item = items_of(pages_of(connector))[0]
    with pytest.raises(ConnectorError, match=r"robots\.txt") as error:
        connector.fetch(item)
    assert not error.value.retry
    assert "/one" not in site.paths()


def test_a_linked_page_inside_is_refused(site: Site) -> None:
    with website() as inner:
        site.serve("/feed", RSS.replace("/one?utm_source=rss", f"{inner.origin}/"))
        connector = reader(site, content="linked_page")
        with pytest.raises(ConnectorError):
            connector.fetch(items_of(pages_of(connector))[0])
        assert inner.asked == []


def test_an_unchanged_feed_says_so_and_names_nothing(site: Site) -> None:
    def feed(asked: Asked) -> Served:
        if asked.headers.get("if-none-match") == '"1"':
            return Served(status=304)
        return Served(RSS.encode(), headers={"ETag": '"1"'})

    site.pages["/feed"] = feed
    first = pages_of(reader(site))
    assert len(items_of(first)) == 2
    second = pages_of(reader(site), first[-1].checkpoint)
    assert [list(page.changes) for page in second] == [[]]
    assert second[-1].checkpoint == first[-1].checkpoint
    assert not any(page.is_listing for page in [*first, *second])


def test_the_conditions_are_kept_only_once_all_entries_are_named(site: Site) -> None:
    items = "".join(f"<item><guid>g{number}</guid></item>" for number in range(120))
    feed = f"<rss><channel>{items}</channel></rss>"
    site.serve("/feed", feed, headers={"Last-Modified": "Tue, 03 Mar 2026 10:00:00 GMT"})
    pages = pages_of(reader(site))
    assert [len(page.changes) for page in pages] == [50, 50, 20, 0]
    assert [page.checkpoint for page in pages[:3]] == ["", "", ""]
    assert pages[3].checkpoint == '{"modified": "Tue, 03 Mar 2026 10:00:00 GMT"}'


def test_an_entry_that_left_the_feed_is_not_taken_for_gone(site: Site) -> None:
    site.serve("/feed", RSS)
    item = items_of(pages_of(reader(site)))[0]
    site.serve("/feed", RSS.replace("tag:one", "tag:three"))
    connector = reader(site)
    with pytest.raises(ConnectorError, match="no more") as error:
        connector.fetch(item)
    assert not error.value.retry


@pytest.mark.parametrize("checkpoint", ["", "nonsense", "[]", '{"other": 1}'])
def test_a_checkpoint_that_nobody_can_read_begins_anew(site: Site, checkpoint: str) -> None:
    site.serve("/feed", RSS)
    assert len(items_of(pages_of(reader(site), checkpoint))) == 2


def test_a_feed_that_answers_with_trouble_is_told(site: Site) -> None:
    site.serve("/feed", "", status=503, headers={"Retry-After": "30"})
    with pytest.raises(ConnectorError) as error:
        pages_of(reader(site))
    assert error.value.retry_after == 30
    site.serve("/feed", "<html>")
    with pytest.raises(ConnectorError, match="isn't an RSS or Atom feed"):
        reader(site).check()


def test_a_feed_inside_is_refused(settings: Any, site: Site) -> None:
    settings.EGRESS_ALLOW = ()
    with pytest.raises(ConnectorError) as error:
        reader(site).check()
    assert not error.value.retry
    assert site.asked == []


@pytest.mark.parametrize("url", ["", "feed://example.org/", "http://u:p@example.org/"])
def test_an_address_that_is_none_is_refused_in_the_form(url: str) -> None:
    with pytest.raises(ValidationError):
        FeedConfig.model_validate({"url": url})
