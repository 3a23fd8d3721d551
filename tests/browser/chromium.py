"""A real Chromium for tests and pictures, and a page that reports every error it meets.

Uses the system's own browser; nothing is downloaded. Not for: waiting by time; wait for what is
seen.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


def find_chromium() -> str | None:
    """The path of the system's Chromium or Chrome, if there is one."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    return None


@contextmanager
def open_chromium(path: str) -> Iterator[Browser]:
    """The browser, without a window; closed at the end."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


def open_page(browser: Browser, *, errors: list[str], **options: Any) -> Page:
    """A page in a context of its own (cookies, storage). What goes wrong in it is put in `errors`:
    exceptions in scripts and everything the console calls an error, a breach of the content
    security policy among them.
    """
    context: BrowserContext = browser.new_context(**options)
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(f"script: {error}"))
    page.on(
        "console",
        lambda said: errors.append(f"console: {said.text}") if said.type == "error" else None,
    )
    return page


def sign_in(page: Page, address: str, email: str, password: str) -> None:
    """Sign in by the form and wait for what comes after."""
    page.goto(f"{address}/login/")
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "/login/" not in url)
