"""The test bench in a real browser: seeing as a member, and charts that draw under the policy of
the admin.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from kaizen.kernel.clock import now
from retrieval.models import QuestionSet, ScoreRow, ScoreRun
from retrieval.quality.questions import save_question, set_personas
from retrieval.quality.score_runs import start_run
from retrieval.quality.score_work import Scored, score_run
from tests import factories
from tests.browser.chromium import open_page, sign_in
from tests.factories import PASSWORD
from tests.world import Desk

pytestmark = pytest.mark.browser
WIDTHS = (360, 1280)
DRAWN = """canvas => {
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    return pixels.some((value, at) => at % 4 === 3 && value > 0);
}"""


def look(page: Page, name: str) -> None:
    """A picture for whoever wants to see the page, where KAIZEN_PICTURES names a folder."""
    folder = os.environ.get("KAIZEN_PICTURES")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True, animations="disabled")


def check_widths(page: Page, name: str) -> None:
    """The page isn't wider than a phone's or a desk's screen."""
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        # A chart takes its new size a moment after the page did.
        page.wait_for_function("document.documentElement.scrollWidth <= innerWidth", timeout=5_000)
        look(page, f"{name}-{width}")


def make_scored_set(desk: Desk) -> QuestionSet:
    """A set that was scored three times."""
    authority = factories.authority_of(desk.admin)
    questions = QuestionSet.objects.create(organization=desk.organization, name="Moving questions")
    save_question(
        authority,
        question_set=questions,
        text="How much leave for moving house?",
        expected=[desk.document.pk],
    )
    save_question(authority, question_set=questions, text="Leave?", forbidden=[desk.document.pk])
    people = [desk.admin.pk, desk.reader.pk, desk.outsider.pk]
    set_personas(authority, question_set=questions, membership_ids=people)
    for age in (3, 2, 1):
        run = start_run(authority, question_set=questions)
        assert score_run(run.pk, seconds=60) is Scored.DONE
        ScoreRun.objects.filter(pk=run.pk).update(started_at=now() - timedelta(days=age))
        ScoreRow.objects.filter(run=run, ndcg_10=1, membership=desk.reader).update(
            ndcg_10=1 - age / 5
        )
    return questions


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_over_time_are_drawn(
    desk: Desk, chromium: Browser, errors: list[str], scheme: str
) -> None:
    questions = make_scored_set(desk)
    page = open_page(chromium, errors=errors, color_scheme=scheme)
    sign_in(page, desk.stack.address, desk.admin.user.email, PASSWORD)
    base = f"{desk.stack.address}/o/{desk.organization.slug}/admin/retrieval"
    page.goto(f"{base}/questionset/{questions.pk}/scores/")
    charts = page.locator("canvas.chart")
    expect(charts).to_have_count(3)
    for number in range(3):
        page.wait_for_function(
            f"canvas => ({DRAWN})(canvas)", arg=charts.nth(number).element_handle()
        )
    expect(page.get_by_role("table").locator("tbody tr")).to_have_count(9)
    check_widths(page, f"scores-{scheme}")
    page.goto(f"{base}/questionset/{questions.pk}/change/")
    check_widths(page, f"set-{scheme}")
    page.get_by_role("link", name="Questions from a file").click()
    check_widths(page, f"import-{scheme}")
    run = ScoreRun.objects.filter(question_set=questions).first()
    page.goto(f"{base}/scorerun/{run.pk}/change/")
    check_widths(page, f"run-{scheme}")
    page.goto(f"{base}/question/add/?question_set={questions.pk}")
    check_widths(page, f"question-{scheme}")
    page.context.close()


def test_an_admin_types_a_name_and_sees_as_that_person(
    desk: Desk, chromium: Browser, errors: list[str]
) -> None:
    page = open_page(chromium, errors=errors)
    sign_in(page, desk.stack.address, desk.admin.user.email, PASSWORD)
    page.goto(f"{desk.stack.address}/o/{desk.organization.slug}/admin/test-bench/")
    page.locator(".select2-selection").click()
    page.locator(".select2-search__field").fill(desk.reader.user.email)
    page.locator(".select2-results__option", has_text=desk.reader.user.email).click()
    page.get_by_label("Question").fill("moving house")
    page.get_by_role("button", name="Search as this person").click()
    expect(page.get_by_role("heading", name="What")).to_contain_text("moving house")
    expect(page.get_by_role("table").locator("tbody tr")).to_have_count(1)
    check_widths(page, "bench")
    page.context.close()
