"""What a hostile model writes does nothing in a real browser."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_chat import ask, wait_for_end
from tests.providers.server import ModelServer
from tests.world import Desk, use_model

pytestmark = pytest.mark.browser


def test_K71_hostile_markdown_runs_nothing_and_fetches_nothing(
    page: Page, desk: Desk, model_server: ModelServer, shared_data: Path
) -> None:
    own = urlsplit(desk.stack.address).netloc
    foreign: list[str] = []
    page.on(
        "request",
        lambda sent: foreign.append(sent.url) if urlsplit(sent.url).netloc != own else None,
    )
    policies: list[str] = []
    page.on(
        "response",
        lambda got: (
            policies.append(got.headers.get("content-security-policy", ""))
            if got.request.resource_type == "document"
            else None
        ),
    )
    ask(page, desk, "Show me.", agent=use_model(desk, model_server, "hostile-markdown"))
    wait_for_end(page)
    page.reload()
    answer = page.locator(".answer-body").last
    expect(answer.locator("pre code")).to_have_text("<b>shown as code</b>\n")
    assert foreign == []
    assert page.evaluate("window.RAN") is None
    assert answer.locator("img, script, iframe").count() == 0
    addresses = answer.locator("a").evaluate_all("links => links.map(a => [a.href, a.rel])")
    assert addresses == [["https://ok.example/a?b=1&c=2", "noopener noreferrer nofollow"]]
    assert policies
    for policy in policies:
        assert "default-src 'self'" in policy
        assert "img-src 'self' data:" in policy
