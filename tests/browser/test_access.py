"""The admin's page "Who can see what" in a real browser: people and documents are found by typing,
answers stand in words, nothing sticks out.
"""

from __future__ import annotations

import os

import pytest
from playwright.sync_api import Browser, Page, expect

from accounts.permissions import Verb
from tests import factories
from tests.browser.chromium import open_page, sign_in
from tests.factories import PASSWORD
from tests.world import Desk

pytestmark = pytest.mark.browser
WIDTHS = (360, 768, 1280, 1920)


def choose(page: Page, field: str, text: str) -> None:
    """Choose from a list by typing."""
    page.locator(f"#{field} + .select2").click()
    page.locator(".select2-search__field").fill(text[:8])
    page.locator(".select2-results__option", has_text=text).first.click()


@pytest.mark.parametrize("colors", ["light", "dark"])
def test_an_admin_asks_both_questions(
    desk: Desk, chromium: Browser, errors: list[str], colors: str
) -> None:
    team = factories.make_team(desk.organization, desk.reader, label="Readers of the handbook")
    factories.grant(team, Verb.VIEW, desk.source)
    page = open_page(chromium, errors=errors, color_scheme=colors)
    sign_in(page, desk.stack.address, desk.admin.user.email, PASSWORD)
    page.goto(f"{desk.stack.address}/o/{desk.organization.slug}/admin/access/")
    choose(page, "explain_member", str(desk.reader.user))
    choose(page, "explain_document", desk.document.title)
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#explanation")).to_contain_text("is in the team")
    _look(page, f"explained-{colors}")
    page.get_by_role("link", name="A document's visibility").click()
    choose(page, "change_document", desk.document.title)
    page.locator("#change_state").select_option("unknown")
    page.get_by_role("button", name="Show who gains and loses").click()
    expect(page.locator("#impact")).to_contain_text(desk.document.title)
    _look(page, f"impact-{colors}")


def _look(page: Page, name: str) -> None:
    """Nothing is wider than the screen."""
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert over <= 0, f"{over} px wider than {width}"
        if folder := os.environ.get("KAIZEN_PICTURES"):
            page.screenshot(path=f"{folder}/access-{name}-{width}.png", full_page=True)
