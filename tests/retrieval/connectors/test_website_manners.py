"""Web sites: trouble on the way, what a site may forbid, and what may be configured."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from retrieval.connectors.contract import ConnectorError
from retrieval.connectors.crawl import Crawl
from retrieval.connectors.site_scope import WebsiteConfig
from tests.retrieval.connectors.crawling import Sync, crawler, page
from tests.websites import Served, Site, website


@pytest.fixture
def site(settings: Any) -> Iterator[Site]:
    with website() as running:
        settings.EGRESS_ALLOW = (running.allowed,)
        yield running


# --- trouble


def test_a_site_that_asks_us_to_come_back_is_left_and_gone_on_with(site: Site) -> None:
    site.serve("/", page("/a", "/b"))
    site.serve("/a", page())
    site.serve("/b", "later", status=429, headers={"Retry-After": "120"})
    first = Sync(crawler(site))
    assert first.error is not None
    assert first.error.retry_after == 120
    assert first.error.retry
    assert first.paths() == ["/", "/a"]
    site.serve("/b", page())
    site.asked.clear()
    second = Sync(crawler(site), first.checkpoint)
    assert second.paths() == ["/b"]
    assert second.error is None
    assert site.paths() == ["/robots.txt", "/b"]


def test_a_page_that_always_sends_us_away_does_not_hold_up_the_rest(site: Site) -> None:
    site.serve("/", page("/a", "/b"))
    site.serve("/a", "later", status=429)
    site.serve("/b", page())
    checkpoint = None
    found: list[str] = []
    for _ in range(3):
        sync = Sync(crawler(site), checkpoint)
        found += sync.paths()
        checkpoint = sync.checkpoint
    assert sync.error is None
    assert found == ["/", "/b"]


def test_a_site_that_fails_again_and_again_is_left_for_now(site: Site) -> None:
    site.serve("/", page(*[f"/{number}" for number in range(20)]))
    for number in range(20):
        site.serve(f"/{number}", "broken", status=502)
    sync = Sync(crawler(site))
    assert sync.error is not None
    assert sync.error.retry
    assert "fails again and again" in sync.error.message
    assert len(site.asked) == 3 + 5


def test_a_crawl_that_is_cut_short_goes_on_where_it_was(site: Site) -> None:
    site.serve("/", page(*[f"/{number}" for number in range(60)]))
    for number in range(60):
        site.serve(f"/{number}", page(title=str(number)))
    pages = crawler(site).list_changes(None)
    first = next(pages)
    pages.close()  # type: ignore[attr-defined]
    asked = len(site.asked)
    sync = Sync(crawler(site), first.checkpoint)
    assert len(first.changes) + len(sync.items) == 61
    assert len(site.asked) == asked + 1 + 41
    again = Sync(crawler(site), sync.checkpoint)
    assert len(again.items) == 61


def test_a_site_without_any_page_is_an_error_and_deletes_nothing(site: Site) -> None:
    site.serve("/", page())
    first = Sync(crawler(site))
    del site.pages["/"]
    second = Sync(crawler(site), first.checkpoint)
    assert second.error is not None
    assert second.error.message == f"No page could be read. {site.origin}/ answers with status 404."
    assert not second.is_listing
    site.serve("/", page())
    assert Sync(crawler(site), second.checkpoint).paths() == ["/"]


def test_a_checkpoint_that_nobody_can_read_begins_anew(site: Site) -> None:
    site.serve("/", page())
    for checkpoint in ("", "nonsense", "[]", '{"queue": 7}'):
        assert Sync(crawler(site), checkpoint).paths() == ["/"]


def test_the_checkpoint_stays_small(site: Site) -> None:
    links = [f"/{'x' * 80}{number}" for number in range(3_000)]
    site.serve("/", page(*links))
    sync = Sync(crawler(site, max_pages=20))
    assert len(Crawl.load(sync.pages[0].checkpoint).queue) <= 160
    assert len(sync.checkpoint or "") < 40_000


def test_a_page_larger_than_the_limit_is_left_out(site: Site) -> None:
    site.serve("/", page("/large"))
    site.pages["/large"] = Served(headers={"Content-Length": str(10**10)})
    assert Sync(crawler(site)).paths() == ["/"]


# --- manners


def test_robots_txt_is_obeyed(site: Site) -> None:
    rules = (
        "User-agent: *\nDisallow: /\n\nUser-agent: Kaizen\nDisallow: /private\nAllow: /private/a"
    )
    site.serve("/robots.txt", rules, media_type="text/plain")
    site.serve("/", page("/private/a", "/private/b", "/open"))
    for path in ("/private/a", "/private/b", "/open"):
        site.serve(path, page())
    assert Sync(crawler(site)).paths() == ["/", "/private/a", "/open"]
    assert "/private/b" not in site.paths()


def test_a_start_that_robots_txt_forbids_is_told(site: Site) -> None:
    site.serve("/robots.txt", "User-agent: *\nDisallow: /", media_type="text/plain")
    sync = Sync(crawler(site))
    assert sync.error is not None
    assert not sync.error.retry
    assert "robots.txt" in sync.error.message
    with pytest.raises(ConnectorError, match=r"robots\.txt"):
        crawler(site).check()
    assert set(site.paths()) == {"/robots.txt"}


def test_while_robots_txt_fails_nothing_is_asked_for(site: Site) -> None:
    site.serve("/robots.txt", "", status=503, headers={"Retry-After": "60"})
    site.serve("/", page())
    sync = Sync(crawler(site))
    assert sync.error is not None
    assert sync.error.retry_after == 60
    assert site.paths() == ["/robots.txt"]


def test_requests_are_as_far_apart_as_configured_or_as_robots_txt_asks(site: Site) -> None:
    site.serve("/robots.txt", "User-agent: *\nCrawl-delay: 0.2", media_type="text/plain")
    site.serve("/", page("/a", "/b"))
    site.serve("/a", page())
    site.serve("/b", page())
    begun = time.monotonic()
    Sync(crawler(site, use_sitemap=False))
    assert time.monotonic() - begun >= 0.4


def test_we_say_who_we_are(site: Site) -> None:
    site.serve("/", page())
    Sync(crawler(site, contact="admin@example.org"))
    assert {asked.headers["user-agent"] for asked in site.asked} == {
        "Kaizen/1.0 (+admin@example.org)"
    }


@pytest.mark.parametrize(
    ("head", "header"),
    [('<meta name="robots" content="noindex, nofollow">', ""), ("", "noindex, nofollow")],
)
def test_noindex_and_nofollow_are_obeyed(site: Site, head: str, header: str) -> None:
    site.serve("/", page("/a"))
    site.serve("/a", page("/b", head=head), headers={"X-Robots-Tag": header} if header else {})
    site.serve("/b", page())
    assert Sync(crawler(site)).paths() == ["/"]
    assert "/b" not in site.paths()


# --- configuration


def test_check_reads_one_page(site: Site) -> None:
    site.serve("/", page())
    crawler(site).check()
    assert site.paths() == ["/robots.txt", "/"]
    del site.pages["/"]
    with pytest.raises(ConnectorError, match="404"):
        crawler(site).check()


def test_check_of_an_inner_address_is_refused(settings: Any, site: Site) -> None:
    settings.EGRESS_ALLOW = ()
    with pytest.raises(ConnectorError, match="can't be fetched") as error:
        crawler(site).check()
    assert not error.value.retry
    assert site.asked == []


@pytest.mark.parametrize(
    "values",
    [
        {"start_urls": []},
        {"start_urls": ["ftp://example.org/"]},
        {"start_urls": ["http://user@example.org/"]},
        {"start_urls": ["http://example.org"], "path_prefixes": ["docs"]},
        {"start_urls": ["http://example.org"], "contact": "a\r\nX-Evil: 1"},
        {"start_urls": ["http://example.org"], "max_pages": 0},
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        WebsiteConfig.model_validate(values)
