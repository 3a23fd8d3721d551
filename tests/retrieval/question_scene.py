"""A small world to score: three documents in two sources, two people, and a set of questions."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from accounts.models import Membership
from accounts.permissions import Verb
from retrieval.models import Document, Question, QuestionDocument, QuestionSet, ScoreRow, ScoreRun
from retrieval.quality.questions import save_question, set_personas
from retrieval.quality.score_runs import start_run
from retrieval.quality.score_work import Scored, score_run
from tests import factories
from tests.retrieval.conftest import Library

LEAVE = "# Leave\n\nEverybody may take thirty days of leave in a year."
PAY = "# Pay\n\nThe board earns leave of absence and gold."
LUNCH = "# Lunch\n\nThe canteen serves soup."


def make_set(library: Library, name: str = "Handbook questions") -> QuestionSet:
    """An empty set."""
    return QuestionSet.objects.create(organization=library.organization, name=name)


def living(questions: QuestionSet) -> list[str]:
    """The texts of a set's questions."""
    rows = Question.objects.filter(question_set=questions, removed_at=None)
    return sorted(rows.values_list("text", flat=True))


def documents(question: Question) -> set[tuple[str, UUID]]:
    """What a question names, by kind."""
    rows = QuestionDocument.objects.filter(question=question)
    return set(rows.values_list("kind", "document_id"))


class Scene:
    """Three documents in two sources, a member who sees one of them, and a set of questions."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.board = factories.make_source(library.organization, name="Board")
        factories.grant(library.owner, Verb.MANAGE, self.board)
        factories.grant(library.member, Verb.VIEW, library.source)
        self.leave = library.add(LEAVE, "leave.md")
        self.lunch = library.add(LUNCH, "lunch.md")
        self.pay = library.add(PAY, "pay.md", source=self.board)
        self.set = make_set(library)
        self.ask("How many days of leave?", expected=[self.leave, self.pay])
        self.ask("What soup is there?", expected=[self.lunch])
        self.as_people(library.owner, library.member)

    def ask(self, text: str, **named: Sequence[Document]) -> Question:
        ids = {kind: [document.pk for document in some] for kind, some in named.items()}
        return save_question(self.library.as_owner, question_set=self.set, text=text, **ids)

    def as_people(self, *people: Membership) -> None:
        ids = [one.pk for one in people]
        set_personas(self.library.as_owner, question_set=self.set, membership_ids=ids)

    def start(self) -> ScoreRun:
        return start_run(self.library.as_owner, question_set=self.set)

    def score(self) -> ScoreRun:
        run = self.start()
        assert score_run(run.pk, seconds=60) is Scored.DONE
        run.refresh_from_db()
        return run

    def row(self, run: ScoreRun, text: str, member: Membership) -> ScoreRow:
        return ScoreRow.objects.get(run=run, question__text=text, membership=member)
