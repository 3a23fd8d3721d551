"""The documentation's pictures, taken anew: `python -m tests.browser.screenshots`.

Wants `make up` in another terminal, with the demo loaded; `--address` says where. Writes
docs/screenshots/*.png. Not a test: look at the pictures before committing them.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page
from playwright.sync_api import Error as BrowserError

from kaizen.demo.story import DEMO_PASSWORD, ORGANIZATIONS
from tests.browser.chromium import find_chromium, open_chromium, open_page, sign_in

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "screenshots"
QUESTION = "How many days of parental leave do I get, and how do I ask for it?"
DESK = {"viewport": {"width": 1280, "height": 800}, "device_scale_factor": 1.5}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    "has_touch": True,
    "is_mobile": True,
}


def picture(page: Page, name: str) -> None:
    """One picture of what the page shows, once it has come to rest."""
    page.wait_for_load_state("networkidle")
    page.mouse.move(0, 0)
    page.screenshot(path=FOLDER / f"{name}.png", animations="disabled")
    sys.stdout.write(f"{name}.png\n")


def ask(page: Page, base: str) -> str:
    """Ask QUESTION and wait for the answer; returns the conversation's address."""
    page.goto(f"{base}/chat/")
    page.get_by_label("Your question").fill(QUESTION)
    page.get_by_label("Your question").press("Enter")
    page.wait_for_url(re.compile(r"/chat/[0-9a-f-]{36}/$"))
    page.locator(".is-answer[data-state=succeeded]").wait_for(timeout=60_000)
    return page.url


def take(browser: Browser, address: str) -> None:
    """All pictures, as one member and one administrator of the demo's first organisation."""
    story = ORGANIZATIONS[0]
    admin = next(member for member in story.members if member.role in ("owner", "admin"))
    member = next(one for one in story.members if one.role == "member" and one.teams)
    base = f"{address}/o/{story.slug}"
    errors: list[str] = []

    page = open_page(browser, errors=errors, color_scheme="light", **DESK)
    page.goto(f"{address}/login/")
    picture(page, "sign-in")
    sign_in(page, address, member.email, DEMO_PASSWORD)
    picture(page, "new-chat")
    chat = ask(page, base)
    page.evaluate("scrollTo(0, 0)")
    page.get_by_role("button", name="Sources").first.click()
    page.evaluate("scrollTo(0, 0)")
    picture(page, "chat")
    page.keyboard.press("Escape")
    page.locator(".answer-body a.cite").first.click()
    picture(page, "citation")
    for name, path in (("search", "search/?q=parental+leave"), ("sources", "sources/")):
        page.goto(f"{base}/{path}")
        picture(page, name)
    page.goto(f"{base}/tasks/")
    picture(page, "tasks")
    page.goto(chat)
    page.locator(".talk").first.wait_for()
    page.keyboard.press("Control+k")
    picture(page, "palette")
    page.context.close()

    for name, options in (("chat-dark", DESK), ("chat-phone-dark", PHONE)):
        page = open_page(browser, errors=errors, color_scheme="dark", **options)
        sign_in(page, address, member.email, DEMO_PASSWORD)
        page.goto(chat)
        page.evaluate("scrollTo(0, 0)")
        picture(page, name)
        page.context.close()
    page = open_page(browser, errors=errors, color_scheme="light", **PHONE)
    sign_in(page, address, member.email, DEMO_PASSWORD)
    page.goto(chat)
    page.evaluate("scrollTo(0, 0)")
    picture(page, "chat-phone")
    page.context.close()

    page = open_page(browser, errors=errors, color_scheme="light", **DESK)
    sign_in(page, address, admin.email, DEMO_PASSWORD)
    page.goto(f"{base}/admin/")
    picture(page, "admin")
    page.context.close()
    for error in errors:
        sys.stderr.write(f"The page said: {error}\n")


def main() -> int:
    """Take the pictures; 1 with a sentence when something needed is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default="http://localhost:8000")
    address = parser.parse_args().address.rstrip("/")
    path = find_chromium()
    if path is None:
        sys.stderr.write("No Chromium here: apt-get install chromium\n")
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        with open_chromium(path) as browser:
            take(browser, address)
    except BrowserError as error:
        sys.stderr.write(f"{error.message}\nIs the demo running at {address}? Start it: make up\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
