"""What crawls and feeds read with: addresses, robots.txt, sitemaps, links."""

from __future__ import annotations

import pytest

from retrieval.connectors.page_links import read_links
from retrieval.connectors.robots import Robots, read_robots
from retrieval.connectors.sitemap import read_sitemap
from retrieval.web.address import file_name_of, normal_url, path_of

# --- reading


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("HTTP://Example.ORG:80", "http://example.org/"),
        ("http://example.org/a/../b/./c#d", "http://example.org/b/c"),
        ("http://example.org/%7Euser/%c3%a4", "http://example.org/~user/%C3%A4"),
        ("http://example.org/a//b/", "http://example.org/a//b/"),
        ("http://example.org/?utm_source=a&x=1&gclid=2&y", "http://example.org/?x=1&y"),
        ("http://example.org/?b=1&a=2", "http://example.org/?b=1&a=2"),
        ("http://example.org/?fbclid=1", "http://example.org/"),
        ("http://example.org/../../x", "http://example.org/x"),
    ],
)
def test_an_address_has_one_spelling(written: str, normal: str) -> None:
    assert normal_url(written) == normal
    assert normal_url(normal) == normal


@pytest.mark.parametrize(
    ("url", "content_type", "name"),
    [
        ("http://example.org/", "text/html; charset=utf-8", "example.org.html"),
        ("http://example.org/docs/guide/", "text/html", "guide.html"),
        ("http://example.org/index.HTM", "text/html", "index.HTM"),
        ("http://example.org/paper", "application/pdf", "paper.pdf"),
        ("http://example.org/paper.pdf", "application/octet-stream", "paper.pdf"),
        ("http://example.org/%2e%2e%2f", "text/html", "html"),
        ("http://example.org/a%00%0Ab", "text/html", "a b.html"),
    ],
)
def test_a_file_name_is_made_of_an_address(url: str, content_type: str, name: str) -> None:
    assert file_name_of(url, content_type).endswith(name)
    assert "/" not in file_name_of(url, content_type)


def test_a_path_is_shown_as_people_read_it() -> None:
    assert path_of("http://example.org/b%C3%BCcher/eins/?q=1") == "bücher/eins"


@pytest.mark.parametrize(
    ("rules", "path", "may"),
    [
        ("Disallow:", "/a", True),
        ("Disallow: /", "/a", False),
        ("Disallow: /a\nAllow: /a/b", "/a/b", True),
        ("Allow: /a\nDisallow: /a", "/a", True),
        ("Disallow: /*.pdf$", "/x/y.pdf", False),
        ("Disallow: /*.pdf$", "/x/y.pdf?z", True),
        ("Disallow: /*?print", "/x?a=1&print", True),
        ("Disallow: /*?*print", "/x?a=1&print", False),
        ("Disallow: /a$", "/ab", True),
        ("Disallow: /%7ea", "/~a", False),
        ("Disallow: /ä", "/%C3%A4", False),
        ("Disallow: " + "*a" * 2_000 + "b", "/" + "a" * 900, True),
    ],
)
def test_robots_rules_match_as_the_standard_says(rules: str, path: str, may: bool) -> None:
    assert read_robots(f"User-Agent: *\n{rules}\n".encode()).may_fetch(path) is may


def test_groups_of_robots_txt_are_told_apart() -> None:
    text = """
        user-agent: other
        user-agent: KAIZEN # us
        disallow: /a
        crawl-delay: 3

        user-agent: *
        disallow: /b
        crawl-delay: nan
        sitemap: http://x/s

        user-agent: kaizen
        disallow: /c
    """
    found = read_robots(text.encode())
    assert found == Robots((("/a", False), ("/c", False)), 3.0, ("http://x/s",))


def test_robots_txt_that_is_nonsense_allows_everything() -> None:
    assert read_robots(b"\xff\xfe<html>Disallow: /\ncrawl-delay: inf") == Robots()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no xml",
        b"\x1f\x8bbroken",
        b'<!DOCTYPE x [<!ENTITY a "b"><!ENTITY c "&a;&a;">]>'
        b"<urlset><url><loc>&c;</loc></url></urlset>",
        b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
        b"<urlset><url><loc>&a;</loc></url></urlset>",
        b"<urlset>" + b"<a>" * 10_000,
    ],
)
def test_a_hostile_sitemap_is_an_empty_one(data: bytes) -> None:
    assert read_sitemap(data).pages == ()


def test_links_of_a_page_are_read_in_their_one_spelling() -> None:
    html = (
        "<base href='/docs/'><a href=' guide '>1</a><a href='http://[bad/'>2</a><a href='#x'>3</a>"
        "<a rel='external nofollow' href='/no'>4</a><area href='//other.example/x y'>"
        "<a href='javascript:alert(1)'>5</a><a href='guide#twice'>6</a><a>7</a>"
        "<!-- <a href='c'> -->"
    )
    found = read_links(html.encode(), url="http://example.org/start")
    assert found.links == (
        "http://example.org/docs/guide",
        "http://example.org/docs/",
        "http://other.example/x%20y",
    )


def test_a_page_in_another_encoding_is_read() -> None:
    html = "<a href='/gr\u00fc\u00dfe'>".encode("latin-1")
    found = read_links(html, url="http://e.org/", content_type="text/html; charset=iso-8859-1")
    assert found.links == ("http://e.org/gr%C3%BC%C3%9Fe",)


@pytest.mark.parametrize("data", [b"", b"\x00\x01\x02", b"<div>" * 100_000, b"<a href='"])
def test_a_broken_page_has_no_links(data: bytes) -> None:
    found = read_links(data, url="http://e.org/", content_type="text/html; charset=nonsense")
    assert found.links == ()
