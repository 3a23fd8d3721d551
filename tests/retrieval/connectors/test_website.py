"""Web sites: what is found, what is asked for again, and what goes."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from kaizen.kernel.clock import now
from retrieval.connectors.contract import ConnectorError
from retrieval.connectors.sync import Ended, sync_connection
from retrieval.models import Connection, Document
from tests.retrieval.conftest import make_library
from tests.retrieval.connectors.crawling import Sync, crawler, page
from tests.websites import Asked, Served, Site, website


@pytest.fixture
def site(settings: Any) -> Iterator[Site]:
    with website() as running:
        settings.EGRESS_ALLOW = (running.allowed,)
        yield running


# --- what is found


def test_links_are_followed_within_the_host(site: Site) -> None:
    site.serve("/", page("/a", "b/", "https://example.org/", "mailto:a@example.org", "#top"))
    site.serve("/a", page("/deep/c"))
    site.serve("/b/", page("../a", "d"))
    site.serve("/b/d", page())
    site.serve("/deep/c", page())
    sync = Sync(crawler(site))
    assert sync.error is None
    assert sync.paths() == ["/", "/a", "/b/", "/deep/c", "/b/d"]
    assert sync.is_listing
    assert site.paths()[:2] == ["/robots.txt", "/sitemap.xml"]
    assert sorted(site.paths()[2:]) == ["/", "/a", "/b/", "/b/d", "/deep/c"]


def test_a_page_becomes_an_item_with_its_details(site: Site) -> None:
    when = {"Last-Modified": "Tue, 03 Mar 2026 10:00:00 GMT"}
    site.serve("/", page("/docs/guide?utm_source=x&b=1#part"))
    site.serve("/docs/guide?b=1", page(title="The guide"), headers=when)
    sync = Sync(crawler(site))
    item = sync.items[f"{site.origin}/docs/guide?b=1"]
    assert item.file_name == "guide.html"
    assert item.path == "docs/guide"
    assert item.url == f"{site.origin}/docs/guide?b=1"
    assert item.media_type == "text/html"
    assert item.title == ""
    assert item.dated_at == datetime(2026, 3, 3, 10, tzinfo=UTC)
    assert b"The guide" in sync.bodies[item.external_id]


def test_what_was_read_to_find_links_is_not_asked_for_again(site: Site) -> None:
    site.serve("/", page())
    Sync(crawler(site))
    assert site.paths().count("/") == 1


def test_an_item_whose_bytes_were_let_go_is_asked_for_again(site: Site) -> None:
    site.serve("/", page())
    item = next(iter(Sync(crawler(site)).items.values()))
    late = crawler(site)
    fetched = late.fetch(item)
    assert fetched is not None
    assert b"A page" in fetched.data
    del site.pages["/"]
    assert late.fetch(item) is None
    site.serve("/", "", status=500)
    with pytest.raises(ConnectorError):
        late.fetch(item)


@pytest.mark.parametrize(("depth", "found"), [(0, ["/"]), (1, ["/", "/1"]), (2, ["/", "/1", "/2"])])
def test_the_depth_is_counted_in_links(site: Site, depth: int, found: list[str]) -> None:
    for number in range(4):
        site.serve("/" if number == 0 else f"/{number}", page(f"/{number + 1}"))
    assert Sync(crawler(site, max_depth=depth)).paths() == found


def test_no_more_pages_are_taken_than_configured(site: Site) -> None:
    site.serve("/", page(*[f"/{number}" for number in range(50)]))
    for number in range(50):
        site.serve(f"/{number}", page(title=str(number)))
    assert len(Sync(crawler(site, max_pages=7)).items) == 7


def test_only_paths_below_the_prefixes_are_taken_and_the_start_is_read_for_its_links(
    site: Site,
) -> None:
    site.serve("/", page("/docs/a", "/blog/b"))
    site.serve("/docs/a", page("/blog/c", "/docs/d"))
    site.serve("/docs/d", page())
    sync = Sync(crawler(site, path_prefixes=["/docs/"]))
    assert sync.paths() == ["/docs/a", "/docs/d"]
    assert not any(path.startswith("/blog") for path in site.paths())


def test_files_are_taken_only_when_asked_for(site: Site) -> None:
    site.serve("/", page("/a.pdf", "/b.png", "/notes"))
    site.serve("/a.pdf", b"%PDF-1.4", media_type="application/pdf")
    site.serve("/b.png", b"\x89PNG", media_type="image/png")
    site.serve("/notes", b"# Notes", media_type="text/markdown")
    assert Sync(crawler(site)).paths() == ["/"]
    assert "/a.pdf" not in site.paths()
    sync = Sync(crawler(site, with_files=True))
    assert sync.paths() == ["/", "/a.pdf", "/notes"]
    assert sync.items[f"{site.origin}/notes"].file_name == "notes.md"
    assert "/b.png" not in site.paths()


def test_the_sitemap_names_pages_that_nothing_links_to(site: Site) -> None:
    site.serve("/", page())
    maps = "<sitemapindex><sitemap><loc>{0}/one.xml.gz</loc></sitemap></sitemapindex>"
    site.serve("/sitemap.xml", maps.format(site.origin), media_type="application/xml")
    one = "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url><loc> {0}/lone </loc>"
    one += "<lastmod>2026-01-01</lastmod></url><url><loc>https://example.org/x</loc></url></urlset>"
    site.serve("/one.xml.gz", gzip.compress(one.format(site.origin).encode()))
    site.serve("/lone", page("/from-lone"))
    site.serve("/from-lone", page())
    assert Sync(crawler(site)).paths() == ["/", "/lone", "/from-lone"]
    assert Sync(crawler(site, use_sitemap=False)).paths() == ["/"]


def test_robots_may_say_where_the_sitemap_is(site: Site) -> None:
    site.serve("/robots.txt", f"Sitemap: {site.origin}/map\n", media_type="text/plain")
    site.serve("/map", f"<urlset><url><loc>{site.origin}/lone</loc></url></urlset>")
    site.serve("/", page())
    site.serve("/lone", page())
    assert Sync(crawler(site)).paths() == ["/", "/lone"]
    assert "/sitemap.xml" not in site.paths()


def test_pages_with_one_canonical_address_are_one_document(site: Site) -> None:
    canonical = '<link rel="canonical" href="/guide">'
    site.serve("/", page("/guide?print=1", "/guide?lang=en", "/guide"))
    for path in ("/guide?print=1", "/guide?lang=en", "/guide"):
        site.serve(path, page(title=path, head=canonical))
    sync = Sync(crawler(site))
    assert list(sync.items) == [f"{site.origin}/", f"{site.origin}/guide"]
    assert sync.items[f"{site.origin}/guide"].url == f"{site.origin}/guide?print=1"


def test_a_canonical_address_elsewhere_counts_for_nothing(site: Site) -> None:
    site.serve("/", page(head='<link rel="canonical" href="https://example.org/">'))
    assert list(Sync(crawler(site)).items) == [f"{site.origin}/"]


def test_a_redirect_within_the_site_is_followed_as_a_link(site: Site) -> None:
    site.serve("/", page("/old"))
    site.redirect("/old", "/new", 301)
    site.serve("/new", page())
    assert Sync(crawler(site)).paths() == ["/", "/new"]


def test_a_redirect_to_another_host_is_not_followed(settings: Any, site: Site) -> None:
    with website() as other:
        settings.EGRESS_ALLOW = (site.allowed, other.allowed)
        site.serve("/", page("/away"))
        site.redirect("/away", f"{other.origin}/")
        assert Sync(crawler(site)).paths() == ["/"]
        assert other.asked == []


def test_a_start_address_may_have_moved_to_another_host(settings: Any, site: Site) -> None:
    with website() as other:
        settings.EGRESS_ALLOW = (site.allowed, other.allowed)
        site.redirect("/", f"{other.origin}/home", 301)
        other.serve("/home", page("/more"))
        other.serve("/more", page())
        assert Sync(crawler(site)).paths() == ["/home", "/more"]


def test_redirects_in_a_circle_end(site: Site) -> None:
    site.serve("/", page("/a"))
    site.redirect("/a", "/b")
    site.redirect("/b", "/a")
    assert Sync(crawler(site)).paths() == ["/"]


def test_a_redirect_to_the_inside_is_not_followed(site: Site) -> None:
    with website() as inner:
        site.redirect("/", f"{inner.origin}/")
        sync = Sync(crawler(site))
        assert sync.error is not None
        assert inner.asked == []


# --- what is asked again


def serve_with_etag(site: Site, path: str, body: str, etag: str) -> None:
    def answer(asked: Asked) -> Served:
        if asked.headers.get("if-none-match") == etag:
            return Served(status=304)
        return Served(body.encode(), headers={"ETag": etag})

    site.pages[path] = answer


def test_an_unchanged_page_keeps_its_revision_and_is_not_sent_again(site: Site) -> None:
    serve_with_etag(site, "/", page("/a"), '"1"')
    serve_with_etag(site, "/a", page(), '"a"')
    first = Sync(crawler(site))
    site.asked.clear()
    second = Sync(crawler(site), first.checkpoint)
    assert second.paths() == ["/", "/a"]
    assert {k: v.revision for k, v in second.items.items()} == {
        k: v.revision for k, v in first.items.items()
    }
    assert [asked.headers.get("if-none-match") for asked in site.asked[2:4]] == ['"1"', '"a"']


def test_a_changed_page_has_another_revision(site: Site) -> None:
    site.serve("/", page(), headers={"Last-Modified": "Tue, 03 Mar 2026 10:00:00 GMT"})
    first = Sync(crawler(site))
    site.serve("/", page(title="Changed"))
    second = Sync(crawler(site), first.checkpoint)
    assert site.asked[-1].headers["if-modified-since"] == "Tue, 03 Mar 2026 10:00:00 GMT"
    key = f"{site.origin}/"
    assert first.items[key].revision != second.items[key].revision
    assert b"Changed" in second.bodies[key]


@pytest.mark.parametrize("status", [404, 410])
def test_a_page_that_is_gone_is_named_no_more_in_a_whole_listing(site: Site, status: int) -> None:
    site.serve("/", page("/a", "/b"))
    site.serve("/a", page())
    site.serve("/b", page())
    first = Sync(crawler(site))
    site.serve("/a", "gone", status=status)
    second = Sync(crawler(site), first.checkpoint)
    assert second.paths() == ["/", "/b"]
    assert second.is_listing


def test_a_page_that_fails_stays_and_blocks_nobody(site: Site) -> None:
    site.serve("/", page("/a", "/b"))
    site.serve("/a", page())
    site.serve("/b", page())
    first = Sync(crawler(site))
    site.serve("/a", "broken", status=500)
    second = Sync(crawler(site), first.checkpoint)
    assert second.paths() == ["/", "/a", "/b"]
    assert second.items[f"{site.origin}/a"] == first.items[f"{site.origin}/a"]
    assert second.is_listing


def test_while_a_page_fails_that_nobody_knows_nothing_is_taken_for_gone(site: Site) -> None:
    site.serve("/", page("/a"))
    site.serve("/a", "broken", status=500)
    sync = Sync(crawler(site))
    assert sync.paths() == ["/"]
    assert not sync.is_listing


def test_a_page_without_links_to_it_stays_while_it_answers(site: Site) -> None:
    site.serve("/", page("/a"))
    site.serve("/a", page())
    first = Sync(crawler(site))
    site.serve("/", page())
    assert Sync(crawler(site), first.checkpoint).paths() == ["/", "/a"]


# --- through the engine


def test_a_site_is_synced_changed_and_deleted_through_the_engine(
    committed_db: str, site: Site
) -> None:
    library = make_library()
    connection = Connection.objects.create(
        organization=library.organization,
        source=library.source,
        connector="website",
        config={"start_urls": [f"{site.origin}/"], "delay_seconds": 0},
    )

    def sync() -> dict[str, int]:
        Connection.objects.update(next_sync_at=now())
        assert sync_connection(connection.pk) is Ended.SUCCEEDED
        rows = Document.objects.filter(source=library.source, deleted_at=None)
        return {row.url.removeprefix(site.origin): row.versions.count() for row in rows}

    site.serve("/", page("/a", "/b"))
    site.serve("/a", page())
    site.serve("/b", page(title="B"))
    assert sync() == {"/": 1, "/a": 1, "/b": 1}
    site.serve("/a", page(title="Changed"))
    del site.pages["/b"]
    assert sync() == {"/": 1, "/a": 2}
