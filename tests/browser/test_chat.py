"""The chat page in a real browser: ask, watch, reload in the middle, open a citation, stop."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from agents.models import Agent
from conversations.models import Message, Run
from tests.browser.chromium import open_page, sign_in
from tests.factories import PASSWORD
from tests.providers.behaviours import pieces_400, pieces_2000
from tests.providers.server import ModelServer
from tests.world import Desk, use_model

pytestmark = pytest.mark.browser
QUESTION = "How many days of leave for moving house?"
WHOLE = " ".join("".join(pieces_400()).split())


def ask(page: Page, desk: Desk, text: str, *, agent: Agent | None = None) -> None:
    """Ask as a person does: choose an agent, type, press Enter; ends on the conversation's page."""
    page.goto(f"{desk.stack.address}/o/{desk.organization.slug}/chat/")
    if agent is not None:
        page.get_by_label("Agent").select_option(str(agent.pk))
    page.get_by_label("Your question").fill(text)
    page.get_by_label("Your question").press("Enter")
    page.wait_for_url(re.compile(r"/chat/[0-9a-f-]{36}/$"))


def shown(page: Page) -> str:
    """The text of the newest answer as it stands on the page."""
    return " ".join(page.locator(".answer-body").last.inner_text().split())


def wait_for_end(page: Page, state: str = "succeeded") -> None:
    """Wait until the newest answer has ended in `state`."""
    page.locator(f".is-answer:last-child[data-state={state}]").wait_for()


def test_a_question_is_answered_with_a_citation_that_opens_its_passage(
    page: Page, desk: Desk
) -> None:
    ask(page, desk, QUESTION)
    expect(page.locator(".bubble")).to_have_text(QUESTION)
    wait_for_end(page)
    expect(page.locator(".answer-body")).to_contain_text("two days of paid leave")
    chip = page.locator(".answer-body a.cite").first
    chip.hover()
    expect(page.locator(".popover")).to_contain_text("Whoever moves house gets two days")
    page.keyboard.press("Escape")
    expect(page.locator(".popover")).to_have_count(0)
    page.get_by_role("button", name="Sources").click()
    expect(page.locator("#panel .source-title")).to_have_text("Moving house")
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).to_be_hidden()
    chip.click()
    page.wait_for_url(re.compile(r"/documents/[0-9a-f-]{36}/\?passage="))
    expect(page.locator(".passage.is-marked")).to_contain_text("two days of paid leave")


def test_the_answer_after_a_reload_is_the_one_that_was_streamed(page: Page, desk: Desk) -> None:
    ask(page, desk, QUESTION)
    wait_for_end(page)
    streamed = shown(page)
    page.reload()
    expect(page.locator(".is-answer")).to_have_count(1)
    assert shown(page) == streamed


def test_a_reload_in_mid_answer_loses_and_doubles_nothing(
    page: Page, desk: Desk, model_server: ModelServer
) -> None:
    ask(page, desk, "Count, please.", agent=use_model(desk, model_server, "count-400:8"))
    expect(page.locator(".answer-body").last).to_contain_text("060", timeout=20_000)
    page.reload()
    expect(page.locator(".answer-body").last).to_contain_text("060")
    expect(page.get_by_role("button", name="Stop the answer")).to_be_visible()
    wait_for_end(page)
    assert shown(page) == WHOLE
    expect(page.locator(".message")).to_have_count(2)
    assert len(model_server.requests) == 1


def test_a_lost_connection_is_taken_up_where_it_broke(
    page: Page, desk: Desk, model_server: ModelServer
) -> None:
    ask(page, desk, "Count, please.", agent=use_model(desk, model_server, "count-400:8"))
    expect(page.locator(".answer-body").last).to_contain_text("060", timeout=20_000)
    page.context.set_offline(True)
    page.context.set_offline(False)
    wait_for_end(page)
    assert shown(page) == WHOLE


def test_a_long_answer_stops_and_what_was_written_stays(
    page: Page, desk: Desk, model_server: ModelServer
) -> None:
    ask(page, desk, "Go on.", agent=use_model(desk, model_server, "long-2000:10"))
    expect(page.locator(".answer-body").last).to_contain_text("030", timeout=20_000)
    page.get_by_role("button", name="Stop the answer").click()
    wait_for_end(page, "cancelled")
    expect(page.locator("[data-outcome-text]").last).to_contain_text("stopped")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    kept = Message.objects.get(organization=desk.organization, role="assistant").text
    assert "".join(pieces_2000()).startswith(kept)
    assert shown(page) == " ".join(kept.split())
    assert Run.objects.get(organization=desk.organization).state == Run.State.CANCELLED


def test_a_message_that_could_not_be_sent_keeps_its_text(
    page: Page, desk: Desk, errors: list[str]
) -> None:
    ask(page, desk, QUESTION)
    wait_for_end(page)
    desk.stack.kill("web")
    try:
        page.get_by_label("Your message").fill("And for two houses?")
        expect(page.locator("#connection")).to_be_visible()
        page.get_by_label("Your message").press("Enter")
        expect(page.locator("#composer [data-wrong]")).to_contain_text("Your text is kept")
        expect(page.get_by_label("Your message")).to_have_value("And for two houses?")
    finally:
        desk.stack.start("web")
    expect(page.locator("#connection")).to_be_hidden(timeout=30_000)
    page.get_by_label("Your message").press("Enter")
    expect(page.locator(".bubble").last).to_have_text("And for two houses?")
    wait_for_end(page)
    assert all("WebSocket" in error or "ERR_" in error for error in errors), errors
    errors.clear()


def test_signing_out_elsewhere_keeps_the_draft(page: Page, desk: Desk) -> None:
    ask(page, desk, QUESTION)
    wait_for_end(page)
    page.get_by_label("Your message").fill("A thought that must not be lost")
    other = page.context.new_page()
    other.goto(page.url)
    other.locator("summary.account").click()
    other.get_by_role("button", name="Sign out").click()
    other.wait_for_url("**/login/")
    link = page.get_by_role("link", name="Sign in again")
    link.click()
    page.get_by_label("E-mail").fill(desk.reader.user.email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label("Your message")).to_have_value("A thought that must not be lost")


def test_two_members_get_different_answers_to_one_question(
    page: Page, desk: Desk, chromium: Browser, errors: list[str]
) -> None:
    ask(page, desk, QUESTION)
    wait_for_end(page)
    other = open_page(chromium, errors=errors)
    sign_in(other, desk.stack.address, desk.outsider.user.email, PASSWORD)
    ask(other, desk, QUESTION)
    wait_for_end(other)
    expect(page.locator(".answer-body a.cite").first).to_be_visible()
    expect(other.locator(".answer-body a.cite")).to_have_count(0)
    assert "two days" not in other.locator("body").inner_text()
    other.context.close()
