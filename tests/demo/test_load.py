"""Loading the demo: whole, once, resumable, and showing each member what the story says and no
more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.core.management import call_command

from accounts.authority import Authority, from_user
from accounts.models import Membership, Organization, User
from agents.models import LanguageModel
from agents.queries import list_usable_agents
from kaizen.demo import load
from kaizen.demo.logins import list_logins
from kaizen.demo.shape import DemoQuestion
from kaizen.demo.story import DEMO_PASSWORD, DEMO_QUESTIONS, ORGANIZATIONS
from kaizen.demo.walk import check
from kaizen.kernel.errors import Conflict
from kaizen.kernel.tenancy import scope
from retrieval.acl import visible_documents
from retrieval.models import Document
from retrieval.search import search
from tasks.delegation import Proven, prove
from tasks.models import Task
from tests.factories import make_organization

SECRET_FILES = {
    "salary-bands-2026.xlsx",
    "pay-scales-2026.xlsx",
    "acquisition-plan-project-heron.docx",
    "acquisition-plan-project-millstone.docx",
    "calibration-intervals.xlsx",
    "flood-alarm-review-2025-11.eml",
    "gauge-installation-checklist.md",
    "oven-cleaning-schedule.xlsx",
    "recall-drill-2026-02.eml",
    "sourdough-process.md",
}


def quiet(_line: str) -> None:
    """Nobody listens."""


def authority(email: str, slug: str) -> Authority:
    return from_user(User.objects.get(email=email), slug=slug)


def cited(question: DemoQuestion) -> list[str]:
    """The files of the best three passages that this member finds."""
    who = authority(question.member, question.organization)
    with scope(who):
        hits = search(who, query=question.question).hits[:3]
        documents = dict(
            Document.objects.filter(pk__in=[hit.document_id for hit in hits]).values_list(
                "pk", "file_name"
            )
        )
    return [documents[hit.document_id] for hit in hits]


class Killed(Exception):
    """The loading process died here."""


@contextmanager
def killed_after(words: int) -> Iterator[load.Tell]:
    """A listener in whose hands the load dies at its `words`-th progress line."""
    heard: list[str] = []

    def tell(line: str) -> None:
        heard.append(line)
        if len(heard) == words:
            raise Killed

    with pytest.raises(Killed):
        yield tell


def test_the_demo_loads_whole_after_being_killed_and_shows_each_member_their_own(
    committed_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every step speaks, so that a death after any number of words is a death after that step.
    monkeypatch.setattr(load, "PROGRESS_SECONDS", -1.0)
    for words in (3, 9, 20, 30):
        with killed_after(words) as tell:
            load.load_if_empty(tell)
        assert not load.is_loaded()
    assert load.load_if_empty(quiet)
    assert load.is_loaded()

    _check_people()
    _check_sight()
    _check_questions()
    _check_agents_and_tasks()
    _check_that_it_stays_as_it_is()


def _check_people() -> None:
    assert sorted(Organization.objects.values_list("slug", "name", "time_zone")) == [
        ("meerwade", "Meerwade Hydrometrics", "Europe/Amsterdam"),
        ("pellgrove", "Pellgrove Bakers", "Europe/Lisbon"),
    ]
    assert (User.objects.count(), Membership.objects.filter(state="active").count()) == (9, 10)
    assert len(set(User.objects.values_list("password", flat=True))) == 1
    assert User.objects.all()[0].check_password(DEMO_PASSWORD)
    owners = Membership.objects.filter(role="owner").order_by("user__email")
    assert [owner.user.email for owner in owners] == [
        "beatriz.lourenco@pellgrove.example",
        "ilse.vandermolen@meerwade.example",
    ]


def _check_sight() -> None:
    assert Document.objects.count() == 32
    assert set(Document.objects.values_list("state", flat=True)) == {"indexed"}
    found = {}
    for story in ORGANIZATIONS:
        for member in story.members:
            documents = visible_documents(authority(member.email, story.slug))
            names = set(documents.values_list("file_name", flat=True))
            found[(member.email.split("@")[0], story.slug)] = names & SECRET_FILES
    assert found == {
        ("ilse.vandermolen", "meerwade"): {"acquisition-plan-project-heron.docx"},
        ("ruben.achterberg", "meerwade"): {"salary-bands-2026.xlsx"},
        ("noor.silvestri", "meerwade"): {
            "calibration-intervals.xlsx",
            "flood-alarm-review-2025-11.eml",
            "gauge-installation-checklist.md",
        },
        ("petra.lindqvist", "meerwade"): {
            "calibration-intervals.xlsx",
            "flood-alarm-review-2025-11.eml",
            "gauge-installation-checklist.md",
        },
        ("dana.kowalczyk", "meerwade"): set(),
        ("beatriz.lourenco", "pellgrove"): set(),
        ("samuel.teixeira", "pellgrove"): {"pay-scales-2026.xlsx"},
        ("joana.figueira", "pellgrove"): {
            "oven-cleaning-schedule.xlsx",
            "recall-drill-2026-02.eml",
            "sourdough-process.md",
        },
        ("rui.cabral", "pellgrove"): {"acquisition-plan-project-millstone.docx"},
        ("dana.kowalczyk", "pellgrove"): {"pay-scales-2026.xlsx"},
    }


def _check_questions() -> None:
    faults = {
        (question.member, question.question): check(question, cited(question))
        for question in DEMO_QUESTIONS
        if question.agent == "handbook-assistant"
    }
    assert {key: broken for key, broken in faults.items() if broken} == {}


def _check_agents_and_tasks() -> None:
    names = {
        story.slug: [
            agent.name
            for agent in list_usable_agents(authority(story.members[-1].email, story.slug))
        ]
        for story in ORGANIZATIONS
    }
    assert names == {
        "meerwade": ["Handbook assistant", "Travel desk"],
        "pellgrove": ["Handbook assistant", "Travel desk"],
    }
    models = LanguageModel.objects.select_related("provider")
    assert [(model.provider.kind, model.is_default) for model in models] == [
        ("extractive", True),
        ("extractive", True),
    ]
    task = Task.objects.get()
    assert (task.name, task.owner.email) == (
        "Weekly field digest",
        "noor.silvestri@meerwade.example",
    )
    assert isinstance(prove(task), Proven)


def _check_that_it_stays_as_it_is() -> None:
    Task.objects.update(name="Renamed by Noor")
    assert load.load_if_empty(quiet)
    load.load(quiet)
    assert [task.name for task in Task.objects.all()] == ["Renamed by Noor"]
    assert Document.objects.count() == 32


@pytest.mark.django_db
def test_a_database_with_an_organisation_of_its_own_is_left_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_organization("ours")
    assert not load.load_if_empty(quiet)
    call_command("demo", "--load-if-empty")
    assert capsys.readouterr().out == ""
    assert list(Organization.objects.values_list("slug", flat=True)) == ["ours"]


@pytest.mark.django_db
def test_an_organisation_of_the_same_slug_is_not_taken_over() -> None:
    make_organization("meerwade")
    with pytest.raises(Conflict):
        load.load(quiet)
    said: list[str] = []
    assert not load.load_if_empty(said.append)
    assert said[-1] == "The demo isn't loaded: The organisation at /o/meerwade/ isn't the demo's."
    assert (Document.objects.count(), Membership.objects.count()) == (0, 0)


def test_the_log_ins_say_who_sees_what() -> None:
    lines = list_logins()
    assert [" ".join(line.split()) for line in lines[:3]] == [
        "ilse.vandermolen@meerwade.example kaizen-demo Meerwade Hydrometrics "
        "what all see, and acquisition-plan-project-heron.docx; sets things up",
        "ruben.achterberg@meerwade.example kaizen-demo Meerwade Hydrometrics "
        "what all see, and People, confidential",
        "noor.silvestri@meerwade.example kaizen-demo Meerwade Hydrometrics "
        "what all see, and Field operations",
    ]
    assert len(lines) == 10
