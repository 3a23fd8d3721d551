"""Reading failed documents again, by keyboard: one of them, and all of a source."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from retrieval.documents import upload
from retrieval.ingest.store import ingest_document
from tests.browser.chromium import open_page, sign_in
from tests.factories import PASSWORD, authority_of
from tests.world import Desk

pytestmark = pytest.mark.browser


def test_failed_documents_are_read_again_by_keyboard(
    desk: Desk, chromium: Browser, errors: list[str]
) -> None:
    for name in ("one.md", "two.md", "three.md"):
        document = upload(
            authority_of(desk.admin), source=desk.source, file_name=name, data=b" ", start=False
        )
        ingest_document(document.pk)
    page = open_page(chromium, errors=errors)
    sign_in(page, desk.stack.address, desk.admin.user.email, PASSWORD)
    page.goto(f"{desk.stack.address}/o/{desk.organization.slug}/sources/{desk.source.pk}/")
    expect(page.locator(".result-note")).to_contain_text("3 not readable")
    one = page.get_by_role("button", name=re.compile(r"^Read again\s*: one$"))
    one.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".result-note")).to_contain_text("2 not readable")
    everything = page.get_by_role("button", name="Read all of these again")
    everything.focus()
    page.keyboard.press("Space")
    expect(page.locator(".result-note")).to_contain_text("3 being read")
    expect(page.get_by_role("button", name="Read again")).to_have_count(0)
    page.context.close()
