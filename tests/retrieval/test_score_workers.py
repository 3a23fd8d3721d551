"""Scoring with workers that die, that are slow, and that come all at once."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections

from accounts.authority import Authority
from audit.models import AuditEvent
from kaizen.kernel.clock import now
from retrieval.models import ScoreRun
from retrieval.quality import score_work
from retrieval.quality.score_work import Scored, find_unfinished, score_run
from tests.retrieval.conftest import Library, make_library
from tests.retrieval.question_scene import Scene

AN_HOUR = timedelta(hours=1)


@pytest.fixture
def scene(library: Library) -> Scene:
    return Scene(library)


def test_what_a_killed_worker_left_is_scored_by_the_next(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scene.start()
    real, looks = score_work.look_as, []

    def killed(authority: Authority, **asked: Any) -> Any:
        looks.append(asked["membership"].pk)
        if len(looks) == 2:
            raise KeyboardInterrupt
        return real(authority, **asked)

    monkeypatch.setattr(score_work, "look_as", killed)
    with pytest.raises(KeyboardInterrupt):
        score_run(run.pk, seconds=60)
    monkeypatch.undo()
    first = run.rows.get(scored_at__isnull=False)
    assert score_run(run.pk, seconds=60) is Scored.NOTHING  # its lease lives on for a while
    assert find_unfinished() == []
    ScoreRun.objects.filter(pk=run.pk).update(lease_until=now() - AN_HOUR)
    assert find_unfinished() == [run.pk]
    assert find_unfinished() == []  # a message is under way
    assert score_run(run.pk, seconds=60) is Scored.DONE
    assert run.rows.get(pk=first.pk).scored_at == first.scored_at
    assert run.rows.exclude(scored_at=None).count() == 4
    assert AuditEvent.objects.filter(action="retrieval.seen_as").count() == 4


def test_a_worker_whose_lease_was_taken_writes_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scene.start()
    real = score_work._embed_ahead

    def slow(*given: Any) -> None:
        real(*given)
        ScoreRun.objects.filter(pk=run.pk).update(attempt=7)

    monkeypatch.setattr(score_work, "_embed_ahead", slow)
    assert score_run(run.pk, seconds=60) is Scored.LOST
    assert run.rows.exclude(scored_at=None).count() == 0


def test_a_run_that_workers_keep_dying_of_is_stopped(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scene.start()

    def killed(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(score_work, "_embed_ahead", killed)
    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            score_run(run.pk, seconds=60)
        ScoreRun.objects.filter(pk=run.pk).update(lease_until=None)
    assert score_run(run.pk, seconds=60) is Scored.NOTHING
    run.refresh_from_db()
    assert (run.state, run.broken_off) == ("stopped", 6)
    assert "5 workers in a row" in run.message


def test_a_lost_message_is_sent_again_after_a_while(scene: Scene) -> None:
    run = scene.start()
    assert find_unfinished() == []
    ScoreRun.objects.filter(pk=run.pk).update(sent_at=now() - AN_HOUR)
    assert find_unfinished() == [run.pk]


@pytest.mark.parametrize("workers", [4])
def test_workers_at_once_score_each_row_once(committed_db: str, workers: int) -> None:
    scene = Scene(make_library())
    run = scene.start()

    def work() -> None:
        try:
            while score_run(run.pk, seconds=0) is not Scored.DONE:
                if ScoreRun.objects.get(pk=run.pk).state != "running":
                    return
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    run.refresh_from_db()
    assert (run.state, run.rows.exclude(scored_at=None).count()) == ("done", 4)
    assert AuditEvent.objects.filter(action="retrieval.seen_as").count() == 4
