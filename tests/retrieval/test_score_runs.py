"""Scoring a set: figures and leaks as each persona, in whose name, and when it doesn't begin or
ends early.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.authority import Authority
from accounts.models import Membership, Role
from accounts.permissions import Verb, delete_grant
from audit.models import AuditEvent
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Conflict, Invalid, Unavailable
from retrieval.documents import delete_document
from retrieval.embedders.local import local_embedder
from retrieval.models import Question, QuestionSet, ScoreRun
from retrieval.quality import score_work
from retrieval.quality.questions import (
    Wanted,
    import_questions,
    remove_question,
    save_question,
    set_personas,
)
from retrieval.quality.score_queries import figures_of, list_ended_runs, page_of_run
from retrieval.quality.score_runs import search_settings, start_run, stop_run
from retrieval.quality.score_work import Scored, score_run
from tests.retrieval.conftest import Library
from tests.retrieval.question_scene import Scene, make_set

pytestmark = pytest.mark.django_db


@pytest.fixture
def scene(library: Library) -> Scene:
    return Scene(library)


def test_a_run_scores_every_question_as_everybody(scene: Scene) -> None:
    run = scene.score()
    library = scene.library
    assert (run.state, run.planned, run.rows.exclude(scored_at=None).count()) == ("done", 4, 4)
    assert run.ended_at is not None
    assert run.message == ""
    asked = "How many days of leave?"
    owner, member = scene.row(run, asked, library.owner), scene.row(run, asked, library.member)
    assert (owner.expected, owner.hidden, owner.found, owner.recall_10) == (2, 0, 3, 1.0)
    assert owner.ndcg_10 == pytest.approx(1)
    assert (member.expected, member.hidden, member.found) == (1, 1, 2)
    assert (member.ndcg_10, member.first_rank, member.leaked) == (1.0, 1, [])
    figures = {one.membership_id: one for one in figures_of(library.as_owner, runs=[run])[run.pk]}
    assert figures[library.member.pk].counted == 2
    assert figures[library.member.pk].leaks == 0


def test_each_search_of_a_run_stands_under_the_name_of_who_started_it(scene: Scene) -> None:
    run = scene.score()
    looks = AuditEvent.objects.filter(action="retrieval.seen_as")
    assert looks.count() == 4
    assert {(look.actor_id, look.data["run"]) for look in looks} == {
        (scene.library.owner.user.public_id, str(run.pk))
    }
    assert not AuditEvent.objects.filter(action="retrieval.searched").exists()
    started = AuditEvent.objects.get(action="retrieval.scoring_started")
    assert started.data["questions"] == 2
    assert set(started.data["members"]) == {
        str(scene.library.owner.pk),
        str(scene.library.member.pk),
    }
    ended = AuditEvent.objects.get(action="retrieval.scoring_ended")
    assert ended.data == {"state": "done", "searches": 4, "with_leaks": 0}


def test_expected_documents_that_nobody_may_view_leave_no_figure(scene: Scene) -> None:
    scene.ask("What does the board earn?", expected=[scene.pay])
    run = scene.score()
    row = scene.row(run, "What does the board earn?", scene.library.member)
    assert (row.ndcg_10, row.recall_10, row.expected, row.hidden) == (None, None, 0, 1)
    figures = {
        one.membership_id: one for one in figures_of(scene.library.as_owner, runs=[run])[run.pk]
    }
    assert (figures[scene.library.member.pk].counted, figures[scene.library.member.pk].scored) == (
        2,
        3,
    )


def test_a_forbidden_document_that_is_found_is_a_leak_whatever_the_grants_say(
    scene: Scene,
) -> None:
    scene.ask("Gold of the board?", forbidden=[scene.pay])
    run = scene.score()
    assert scene.row(run, "Gold of the board?", scene.library.owner).leaked == [scene.pay.pk]
    assert scene.row(run, "Gold of the board?", scene.library.member).leaked == []
    first = page_of_run(scene.library.as_owner, run=run, with_titles=True).lines[0]
    assert (first.question, first.leaked) == ("Gold of the board?", ("Pay",))


def test_a_search_that_ignored_rights_would_be_counted_as_leaking(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaks are counted apart from the search: here it runs with somebody else's rights."""
    real = score_work.look_as

    def broken(authority: Authority, **asked: Any) -> Any:
        looked = real(authority, **{**asked, "membership": scene.library.owner})
        persona = real(authority, **asked).persona
        return type(looked)(persona=persona, result=looked.result)

    monkeypatch.setattr(score_work, "look_as", broken)
    run = scene.score()
    for row in run.rows.select_related("membership"):
        is_member = row.membership_id == scene.library.member.pk
        assert row.leaked == ([scene.pay.pk] if is_member else [])


def test_rights_withdrawn_between_search_and_check_are_no_leak(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, looks = score_work.look_as, []

    def withdrawn(authority: Authority, **asked: Any) -> Any:
        looked = real(authority, **asked)
        looks.append(asked["query"])
        if len(looks) == 1:
            delete_grant(scene.library.member.user, Verb.VIEW, scene.library.source)
        return looked

    monkeypatch.setattr(score_work, "look_as", withdrawn)
    scene.as_people(scene.library.member)
    run = scene.score()
    assert len(looks) == 3
    assert [row.leaked for row in run.rows.all()] == [[], []]


def test_a_member_who_is_not_active_saw_nothing(scene: Scene) -> None:
    Membership.objects.filter(pk=scene.library.member.pk).update(state="suspended")
    run = scene.score()
    row = scene.row(run, "What soup is there?", scene.library.member)
    assert (row.inactive, row.ndcg_10, row.found, row.hidden) == (True, None, 0, 1)
    figures = figures_of(scene.library.as_owner, runs=[run])[run.pk]
    assert sorted(one.inactive for one in figures) == [False, True]


def test_a_deleted_document_is_expected_of_nobody(scene: Scene) -> None:
    delete_document(scene.library.as_owner, document=scene.lunch)
    row = scene.row(scene.score(), "What soup is there?", scene.library.owner)
    assert (row.ndcg_10, row.expected, row.hidden) == (None, 0, 0)


def test_a_model_that_fails_is_asked_once_a_question_and_said(scene: Scene) -> None:
    asked: list[str] = []

    class Failing:
        model, digest, dimension = "m", local_embedder().digest, 384

        def embed_documents(self, texts: Sequence[str]) -> Any:
            raise Unavailable

        def embed_query(self, text: str) -> Any:
            asked.append(text)
            raise Unavailable

        def count_tokens(self, text: str) -> int:
            return 1

    run = scene.start()
    assert score_run(run.pk, seconds=60, embedder=Failing()) is Scored.DONE
    assert sorted(asked) == ["How many days of leave?", "What soup is there?"]
    assert {row.degraded for row in run.rows.all()} == {True}
    assert scene.row(run, "What soup is there?", scene.library.owner).ndcg_10 == 1


def test_a_set_changed_meanwhile_changes_nothing_of_a_run(scene: Scene) -> None:
    run = scene.start()
    scene.ask("A new one?")
    soup = Question.objects.get(question_set=scene.set, text="What soup is there?")
    remove_question(scene.library.as_owner, question=soup)
    assert score_run(run.pk, seconds=60) is Scored.DONE
    assert run.rows.exclude(scored_at=None).count() == 4


def test_a_run_that_cannot_begin_says_why(scene: Scene, library: Library) -> None:
    owner = library.as_owner
    empty = make_set(library, "Empty")
    with pytest.raises(Invalid, match="no questions"):
        start_run(owner, question_set=empty)
    save_question(owner, question_set=empty, text="A?")
    with pytest.raises(Invalid, match="at least one person"):
        start_run(owner, question_set=empty)
    wanted = [Wanted(text=f"{number}?") for number in range(1_001)]
    import_questions(owner, question_set=empty, wanted=wanted, replace=True)
    set_personas(owner, question_set=empty, membership_ids=[library.owner.pk, library.member.pk])
    with pytest.raises(Invalid, match="more than 2,000 searches"):
        start_run(owner, question_set=empty)
    QuestionSet.objects.filter(pk=empty.pk).update(archived_at=now())
    with pytest.raises(Conflict, match="archive"):
        start_run(owner, question_set=empty)
    scene.start()
    with pytest.raises(Conflict, match="being scored already"):
        scene.start()
    assert ScoreRun.objects.count() == 1


def test_a_run_is_stopped_and_keeps_what_was_scored(scene: Scene) -> None:
    run = scene.start()
    assert score_run(run.pk, seconds=0) is Scored.MORE
    assert run.rows.exclude(scored_at=None).count() == 2
    stop_run(scene.library.as_owner, run=run)
    assert score_run(run.pk, seconds=60) is Scored.NOTHING
    run.refresh_from_db()
    assert (run.state, run.rows.exclude(scored_at=None).count()) == ("stopped", 2)
    with pytest.raises(Conflict):
        stop_run(scene.library.as_owner, run=run)


@pytest.mark.parametrize("change", [{"role": Role.MEMBER}, {"state": "suspended"}])
def test_a_run_ends_when_its_starter_may_not_configure_any_more(
    scene: Scene, change: dict[str, str]
) -> None:
    run = scene.start()
    Membership.objects.filter(pk=scene.library.owner.pk).update(**change)
    assert score_run(run.pk, seconds=60) is Scored.STOPPED
    run.refresh_from_db()
    assert (run.state, run.rows.exclude(scored_at=None).count()) == ("stopped", 0)
    assert "may not configure" in run.message
    assert not AuditEvent.objects.filter(action="retrieval.seen_as").exists()


def test_figures_cost_the_same_for_one_run_and_for_many(scene: Scene) -> None:
    counts, owner = [], scene.library.as_owner
    for _ in range(3):
        scene.score()
        runs = list_ended_runs(owner, question_set=scene.set)
        with CaptureQueriesContext(connection) as queries:
            figures = figures_of(owner, runs=runs)
        counts.append(len(queries))
        assert [len(some) for some in figures.values()] == [2] * len(runs)
    assert counts == [2, 2, 2]


def test_settings_tell_which_model_and_which_search(scene: Scene) -> None:
    told = search_settings(scene.library.organization.pk)
    assert told["embedding_model"] == local_embedder().model
    assert told["embedding_digest"] == local_embedder().digest
    assert told["rerank_model"] == ""
    assert len(told["search"]) == 16
    assert search_settings(scene.library.organization.pk) == told
