"""The admin of question sets: making one, scoring it, its charts, files, and who may open what."""

from __future__ import annotations

import io
import json
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from accounts.models import Role
from kaizen.kernel.clock import now
from retrieval.models import Document, Question, QuestionSet, ScoreRow, ScoreRun
from retrieval.quality.score_work import score_run
from tests import factories
from tests.retrieval.conftest import Library, make_library
from tests.retrieval.question_scene import Scene, living, make_set

pytestmark = pytest.mark.django_db


@pytest.fixture
def scene(library: Library) -> Scene:
    return Scene(library)


@pytest.fixture
def bench(client: Client, scene: Scene) -> str:
    client.force_login(scene.library.owner.user)
    return f"/o/{scene.library.organization.slug}/admin/retrieval"


def test_a_set_is_made_scored_and_drawn_in_the_admin(
    client: Client, scene: Scene, bench: str
) -> None:
    library = scene.library
    made = client.post(
        f"{bench}/questionset/add/",
        {"name": "Mine", "description": "", "members": [str(library.member.pk)]},
    )
    assert made.status_code == 302
    mine = QuestionSet.objects.get(name="Mine")
    assert [persona.membership_id for persona in mine.personas.all()] == [library.member.pk]
    asked = {"question_set": mine.pk, "text": "Days of leave?", "expected": [scene.leave.pk]}
    assert client.post(f"{bench}/question/add/", asked).status_code == 302
    question = Question.objects.get(question_set=mine)
    changed = client.post(
        f"{bench}/question/{question.pk}/change/", {"text": "Leave days?", "_continue": "1"}
    )
    new = Question.objects.get(question_set=mine, removed_at=None)
    assert changed["Location"].endswith(f"/question/{new.pk}/change/")
    assert client.get(changed["Location"]).status_code == 200
    shown = client.get(f"{bench}/questionset/{mine.pk}/change/").content.decode()
    assert "Score now" in shown
    started = client.post(f"{bench}/questionset/{mine.pk}/score/")
    run = ScoreRun.objects.get(question_set=mine)
    assert started["Location"].endswith(f"/scorerun/{run.pk}/change/")
    assert "Being scored." in client.get(started["Location"]).content.decode()
    score_run(run.pk, seconds=60)
    text = client.get(started["Location"]).content.decode()
    assert "Leave days?" in text
    assert str(library.member.user) in text
    drawn = client.get(f"{bench}/questionset/{mine.pk}/scores/").content.decode()
    assert drawn.count('data-type="line"') == 3
    assert "The same as a table" in drawn
    assert "<script>" not in drawn.partition("<main")[2]


def test_two_pages_hold_lines_of_one_run(client: Client, scene: Scene, bench: str) -> None:
    run = scene.score()
    rows = [
        Question(
            organization=scene.library.organization,
            question_set=scene.set,
            text=f"Filler {number}?",
            digest=str(number),
        )
        for number in range(120)
    ]
    Question.objects.bulk_create(rows)
    ScoreRow.objects.bulk_create(
        ScoreRow(
            organization=scene.library.organization,
            run=run,
            question=row,
            membership=scene.library.owner,
            scored_at=now(),
        )
        for row in rows
    )
    address = f"{bench}/scorerun/{run.pk}/change/"
    first = client.get(address).content.decode()
    second = client.get(address + "?page=2").content.decode()
    assert (first.count("Filler "), second.count("Filler ")) == (96, 24)
    assert "?page=2" in first
    assert client.get(address + "?page=nonsense").status_code == 200
    assert client.get(address + "?page=999").status_code == 200


def test_files_go_in_and_out_in_the_admin(client: Client, scene: Scene, bench: str) -> None:
    address = f"{bench}/questionset/{scene.set.pk}"

    def send(text: str, **more: str) -> Any:
        file = io.BytesIO(text.encode())
        file.name = "questions.csv"
        return client.post(f"{address}/import/", {"file": file, **more})

    assert client.get(f"{address}/import/").status_code == 200
    refused = send("question,expected\nA?,Nowhere\n")
    assert refused.status_code == 200
    assert "Line 2: no document is called “Nowhere”." in refused.content.decode()
    assert len(living(scene.set)) == 2
    assert send("question,expected\nA?,Library :: leave.md\n", replace="on").status_code == 302
    assert living(scene.set) == ["A?"]
    out = client.get(f"{address}/export/?format=csv")
    assert out["Content-Disposition"] == 'attachment; filename="questions.csv"'
    assert out.content.decode() == "question,expected,forbidden\r\nA?,Library :: leave.md,\r\n"
    told = json.loads(client.get(f"{address}/export/").content)
    assert told == {
        "questions": [{"question": "A?", "expected": ["Library :: leave.md"], "forbidden": []}]
    }


def test_the_own_pages_are_shut_to_others(client: Client, scene: Scene, bench: str) -> None:
    """Another organisation's set is an unknown one; below an admin nothing opens but runs, to
    auditors.
    """
    run = scene.score()
    foreign = make_library()
    theirs = make_set(foreign, "Theirs")
    their_run = ScoreRun.objects.create(
        organization=foreign.organization, question_set=theirs, started_by=foreign.owner.user
    )
    pages = ("scores", "import", "export", "score")
    for name in pages:
        for method in (client.get, client.post):
            bodies = {
                method(f"{bench}/questionset/{pk}/{name}/").status_code
                for pk in (theirs.pk, uuid4())
            }
            assert bodies == {404}
    for pk in (their_run.pk, uuid4()):
        assert client.post(f"{bench}/scorerun/{pk}/stop/").status_code == 404
    for role, status in ((Role.AUDITOR, 403), (Role.MEMBER, 404)):
        client.force_login(factories.make_member(scene.library.organization, role=role).user)
        for name in pages:
            address = f"{bench}/questionset/{scene.set.pk}/{name}/"
            assert client.get(address).status_code == status
            assert client.post(address).status_code == status
        assert client.post(f"{bench}/scorerun/{run.pk}/stop/").status_code == status
        shown = client.get(f"{bench}/scorerun/{run.pk}/change/")
        assert shown.status_code == (200 if role == Role.AUDITOR else 404)
    assert ScoreRun.objects.filter(question_set=theirs).count() == 1


def test_an_auditor_sees_counts_and_no_titles(client: Client, scene: Scene, bench: str) -> None:
    scene.ask("Gold of the board?", forbidden=[scene.pay])
    Document.objects.filter(pk=scene.pay.pk).update(title="Secret gold title")
    address = f"{bench}/scorerun/{scene.score().pk}/change/"
    assert "Secret gold title" in client.get(address).content.decode()
    auditor = factories.make_member(scene.library.organization, role=Role.AUDITOR)
    client.force_login(auditor.user)
    text = client.get(address).content.decode()
    assert "1 leak" in text
    assert "Secret gold title" not in text


def test_starting_and_stopping_need_a_post(client: Client, scene: Scene, bench: str) -> None:
    assert client.get(f"{bench}/questionset/{scene.set.pk}/score/").status_code == 405
    client.post(f"{bench}/questionset/{scene.set.pk}/score/")
    run = ScoreRun.objects.get()
    again = client.post(f"{bench}/questionset/{scene.set.pk}/score/", follow=True)
    assert "This set is being scored already." in again.content.decode()
    assert client.get(f"{bench}/scorerun/{run.pk}/stop/").status_code == 405
    client.post(f"{bench}/scorerun/{run.pk}/stop/")
    run.refresh_from_db()
    assert run.state == "stopped"


def test_the_action_takes_questions_out(client: Client, scene: Scene, bench: str) -> None:
    soup = Question.objects.get(text="What soup is there?")
    client.post(f"{bench}/question/", {"action": "take_out", "_selected_action": [str(soup.pk)]})
    assert living(scene.set) == ["How many days of leave?"]
    assert scene.score().planned == 2
