"""How pages look and behave at every width: nothing sticks out, focus stays inside."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests import factories
from tests.browser.chromium import open_page, sign_in
from tests.browser.test_chat import QUESTION, ask, wait_for_end
from tests.factories import PASSWORD
from tests.world import Desk

pytestmark = pytest.mark.browser
LONG = "Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz " * 2 + "سياسة الإجازات"
WIDTHS = (320, 360, 768, 1280, 1920)


def _check_width(page: Page, address: str) -> None:
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(address)
        over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert over <= 0, f"{address} is {over} px wider than {width}"


def test_nothing_is_wider_than_the_screen_even_with_long_words(
    desk: Desk, chromium: Browser, errors: list[str]
) -> None:
    desk.source.name = LONG[:120]
    desk.source.save(update_fields=["name"])
    page = open_page(chromium, errors=errors, color_scheme="dark")
    base = f"{desk.stack.address}/o/{desk.organization.slug}"
    _check_width(page, f"{desk.stack.address}/login/")
    sign_in(page, desk.stack.address, desk.admin.user.email, PASSWORD)
    ask(page, desk, LONG)
    wait_for_end(page)
    addresses = [
        page.url,
        f"{base}/chat/",
        f"{base}/search/",
        f"{base}/search/?q=moving+house",
        f"{base}/sources/",
        f"{base}/sources/{desk.source.pk}/",
        f"{base}/documents/{desk.document.pk}/",
        f"{base}/tasks/",
        f"{base}/tasks/new/",
        f"{desk.stack.address}/organizations/",
    ]
    for address in addresses:
        _check_width(page, address)
    page.context.close()


@pytest.mark.parametrize(
    "viewport", [{"viewport": {"width": 360, "height": 740}, "has_touch": True}]
)
def test_on_a_phone_the_rail_holds_the_focus_and_gives_it_back(page: Page, desk: Desk) -> None:
    opener = page.get_by_role("button", name="Menu")
    opener.tap()
    expect(page.locator("#rail")).to_be_visible()
    for _ in range(30):
        page.keyboard.press("Tab")
        assert page.evaluate(
            "document.activeElement === document.body "
            "|| document.getElementById('rail').contains(document.activeElement)"
        )
    page.keyboard.press("Escape")
    expect(page.locator("#rail")).to_be_hidden()
    expect(opener).to_be_focused()


def test_the_chosen_look_is_there_before_the_first_paint(page: Page, desk: Desk) -> None:
    page.locator("summary.account").click()
    page.get_by_role("group", name="Appearance").get_by_role("button", name="Dark").click()
    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.reload(wait_until="commit")
    page.locator("html[data-theme=dark]").wait_for(state="attached")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == dark
    assert dark == "rgb(27, 26, 24)"


def test_without_scripts_a_first_question_can_be_asked_and_read(
    desk: Desk, chromium: Browser, errors: list[str]
) -> None:
    page = open_page(chromium, errors=errors, java_script_enabled=False)
    sign_in(page, desk.stack.address, desk.reader.user.email, PASSWORD)
    page.goto(f"{desk.stack.address}/o/{desk.organization.slug}/chat/")
    page.get_by_label("Your question").fill(QUESTION)
    page.get_by_role("button", name="Ask").click()
    page.wait_for_url("**/chat/*-*/")
    member = desk.sign_in(desk.reader)
    conversation = page.url.rstrip("/").rsplit("/", 1)[1]
    desk.stack.wait_for(
        lambda: len(member.api(f"conversations/{conversation}/").json()["messages"]) == 2,
        what="the answer",
    )
    page.reload()
    expect(page.locator(".answer-body")).to_contain_text("two days of paid leave")
    page.context.close()


def test_an_organisation_without_agents_says_what_to_do(
    desk: Desk, chromium: Browser, errors: list[str]
) -> None:
    other = factories.make_organization("quiet")
    member = factories.make_member(other)
    page = open_page(chromium, errors=errors)
    sign_in(page, desk.stack.address, member.user.email, PASSWORD)
    expect(page.get_by_role("heading", name="No agent yet that you may use")).to_be_visible()
    page.context.close()
