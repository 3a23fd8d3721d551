"""What scorings found, as figures: by person and run, over time, and question by question.

A mean counts the questions that count towards it: those of which the person may view at least one
expected document. Promises: rows of the caller's organisation only, and as many queries for a
hundred runs as for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import (
    Avg,
    Case,
    Count,
    Exists,
    F,
    Func,
    IntegerField,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Sum,
    Value,
    When,
)

from accounts.authority import Authority
from accounts.models import Membership
from retrieval.models import Document, QuestionSet, ScoreRow, ScoreRun

PAGE = 100
MOST_RUNS = 30
MOST_LINES = 600
"""Of the table beside the charts: persons times runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One person's figures in one run.

    Attributes:
        scored: questions asked as them so far; `counted` of them have figures.
        leaks: documents found that they may not view, added up over questions.
        degraded: questions searched by words alone, since the embedding model failed.
        inactive: whether they weren't active, and so saw nothing, for some question.
    """

    membership_id: UUID
    person: str
    scored: int
    counted: int
    ndcg_10: float | None
    recall_10: float | None
    recall_50: float | None
    leaks: int
    degraded: int
    inactive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One question asked as one person, with the titles of what leaked."""

    question: str
    person: str
    row: ScoreRow
    leaked: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some lines of a run, the worst first."""

    lines: tuple[Line, ...]
    number: int
    has_next: bool


_LEAKS = Func(F("leaked"), function="cardinality", output_field=IntegerField())


def list_recent_runs(
    authority: Authority, *, question_set: QuestionSet, limit: int = MOST_RUNS
) -> list[ScoreRun]:
    """The set's newest scorings, the newest first."""
    rows = ScoreRun.objects.for_authority(authority).filter(question_set=question_set)
    return list(rows.select_related("started_by").order_by("-started_at", "-pk")[:limit])


def list_ended_runs(authority: Authority, *, question_set: QuestionSet) -> list[ScoreRun]:
    """The scorings to draw, the oldest first: those that are done, as many as a page holds."""
    personas = question_set.personas.count()
    most = max(2, min(MOST_RUNS, MOST_LINES // max(1, personas)))
    rows = ScoreRun.objects.for_authority(authority).filter(
        question_set=question_set, state=ScoreRun.State.DONE
    )
    return list(rows.order_by("-started_at", "-pk")[:most])[::-1]


def figures_of(
    authority: Authority, *, runs: Sequence[ScoreRun]
) -> dict[UUID, tuple[Figures, ...]]:
    """Each run's figures, persons in the order of their names. Two queries."""
    rows = (
        _rows(authority)
        .filter(run__in=[run.pk for run in runs], scored_at__isnull=False)
        .values("run_id", "membership_id")
        .annotate(
            scored=Count("pk"),
            counted=Count("ndcg_10"),
            mean_ndcg=Avg("ndcg_10"),
            mean_recall_10=Avg("recall_10"),
            mean_recall_50=Avg("recall_50"),
            leaks=Sum(_LEAKS),
            by_words=Count("pk", filter=Q(degraded=True)),
            unseen=Max(Case(When(inactive=True, then=Value(1)), default=Value(0))),
        )
        .order_by()
    )
    found = list(rows)
    people = _people(authority, {row["membership_id"] for row in found})
    result: dict[UUID, list[Figures]] = {run.pk: [] for run in runs}
    for row in found:
        result[row["run_id"]].append(
            Figures(
                membership_id=row["membership_id"],
                person=people[row["membership_id"]],
                scored=row["scored"],
                counted=row["counted"],
                ndcg_10=row["mean_ndcg"],
                recall_10=row["mean_recall_10"],
                recall_50=row["mean_recall_50"],
                leaks=row["leaks"],
                degraded=row["by_words"],
                inactive=bool(row["unseen"]),
            )
        )
    return {
        run_id: tuple(sorted(figures, key=lambda one: (one.person, str(one.membership_id))))
        for run_id, figures in result.items()
    }


def page_of_run(
    authority: Authority, *, run: ScoreRun, number: int = 1, with_titles: bool = False
) -> Page:
    """Some of a run's lines: leaks first, then the lowest nDCG, then what counts towards nothing.

    Titles of leaked documents only `with_titles`. Three queries.
    """
    number = max(1, number)
    rows = (
        _rows(authority)
        .filter(run=run, scored_at__isnull=False)
        .select_related("question", "membership__user")
        .annotate(leaks=_LEAKS)
        .order_by("-leaks", F("ndcg_10").asc(nulls_last=True), "question_id", "membership_id")
    )
    found = list(rows[(number - 1) * PAGE : number * PAGE + 1])
    leaked = {document_id for row in found[:PAGE] for document_id in row.leaked}
    titles: dict[UUID, str] = {}
    if with_titles and leaked:
        documents = Document.objects.filter(
            organization_id=authority.organization_id, pk__in=leaked
        )
        titles = dict(documents.values_list("pk", "title"))
    return Page(
        lines=tuple(
            Line(
                question=row.question.text,
                person=str(row.membership.user),
                row=row,
                leaked=tuple(titles[one] for one in row.leaked if one in titles),
            )
            for row in found[:PAGE]
        ),
        number=number,
        has_next=len(found) > PAGE,
    )


def with_leaks(runs: QuerySet[ScoreRun]) -> QuerySet[ScoreRun]:
    """`runs` with `leaks_any`: whether any of their rows has one."""
    rows = ScoreRow.objects.filter(
        organization_id=OuterRef("organization_id"), run=OuterRef("pk")
    ).exclude(leaked=[])
    return runs.annotate(leaks_any=Exists(rows))


def _rows(authority: Authority) -> QuerySet[ScoreRow]:
    return ScoreRow.objects.for_authority(authority)


def _people(authority: Authority, membership_ids: set[UUID]) -> dict[UUID, str]:
    rows = Membership.objects.filter(
        organization_id=authority.organization_id, pk__in=membership_ids
    ).select_related("user")
    return {member.pk: str(member.user) for member in rows}
