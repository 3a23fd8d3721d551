"""Search and sources in a real browser: by keyboard, and a file from the field to being found."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import open_page, sign_in
from tests.factories import PASSWORD
from tests.world import Desk

pytestmark = pytest.mark.browser


def test_search_is_used_by_keyboard_alone(page: Page, desk: Desk) -> None:
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Control+k")
    page.keyboard.type("moving house")
    expect(page.locator(".palette-item[aria-selected=true]")).to_contain_text("Search for")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/search/\?q=moving"))
    expect(page.locator(".result mark").first).to_be_visible()
    page.keyboard.press("j")
    expect(page.locator(".result a:focus")).to_have_text("Moving house")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/documents/[0-9a-f-]{36}/\?passage="))
    expect(page.locator(".passage.is-marked")).to_be_focused()


def test_nothing_found_is_told_from_nothing_asked(page: Page, desk: Desk) -> None:
    base = f"{desk.stack.address}/o/{desk.organization.slug}"
    page.goto(f"{base}/search/")
    expect(page.get_by_role("heading", name="Ask in your own words")).to_be_visible()
    desk.source.archived_at = desk.source.created_at
    desk.source.save(update_fields=["archived_at"])
    page.get_by_label("What are you looking for?").fill("moving house")
    page.get_by_label("What are you looking for?").press("Enter")
    expect(page.get_by_role("heading", name="Nothing found among what you may see")).to_be_visible()


@pytest.fixture
def worker(desk: Desk) -> Iterator[None]:
    """The worker, running for this test only: others in this product do without."""
    desk.stack.start("worker")
    yield
    desk.stack.kill("worker")


def test_an_uploaded_file_is_read_and_found_and_a_bad_one_says_why(
    desk: Desk, worker: None, chromium: Browser, errors: list[str]
) -> None:
    page = open_page(chromium, errors=errors)
    sign_in(page, desk.stack.address, desk.admin.user.email, PASSWORD)
    page.goto(f"{desk.stack.address}/o/{desk.organization.slug}/sources/{desk.source.pk}/")
    page.locator("#files").set_input_files(
        [
            {
                "name": "bicycles.md",
                "mimeType": "text/markdown",
                "buffer": b"# Bicycles\n\nAnybody may lease a cargo bicycle: 30 euros a month.\n",
            },
            {"name": "empty.md", "mimeType": "text/markdown", "buffer": b""},
        ]
    )
    good, bad = (page.locator(".row", has_text=name) for name in ("Bicycles", "empty.md"))
    expect(good).to_contain_text("Searchable", timeout=60_000)
    expect(bad).to_contain_text("Not readable", timeout=60_000)
    expect(bad.locator(".why")).not_to_be_empty()
    expect(bad.get_by_role("button", name="Read again")).to_be_visible()
    page.goto(f"{desk.stack.address}/o/{desk.organization.slug}/search/?q=cargo+bicycle")
    expect(page.locator(".result").first).to_contain_text("30 euros a month")
    page.context.close()
