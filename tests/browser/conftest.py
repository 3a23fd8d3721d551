"""The browser, once for each module here; each test gets a page of its own and fails on any error
in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.chromium import find_chromium, open_chromium, open_page, sign_in
from tests.factories import PASSWORD
from tests.world import Desk


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A real browser; skips where there is none. Closed after each module, since its event loop
    would stand in the way of asynchronous tests.
    """
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with pytest.MonkeyPatch.context() as patch:
        # Playwright's synchronous API keeps an event loop on this thread, on which tests read
        # the database.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        with open_chromium(path) as browser:
            yield browser


@pytest.fixture
def errors() -> Iterator[list[str]]:
    """What went wrong in the pages of this test; anything left in it fails the test."""
    found: list[str] = []
    yield found
    assert found == []


@pytest.fixture
def viewport() -> dict[str, Any]:
    """Size and kind of the screen; override by parametrizing."""
    return {"viewport": {"width": 1280, "height": 800}}


@pytest.fixture
def page(
    desk: Desk, chromium: Browser, errors: list[str], viewport: dict[str, Any]
) -> Iterator[Page]:
    """The reader's browser, signed in, at the start of a new chat."""
    page = open_page(chromium, errors=errors, **viewport)
    sign_in(page, desk.stack.address, desk.reader.user.email, PASSWORD)
    yield page
    page.context.close()
