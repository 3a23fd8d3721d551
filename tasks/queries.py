"""Reads of the tasks app: what pages and API show of a task, its consent and its occurrences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet, Subquery

from accounts import relation
from accounts.authority import Authority
from accounts.permissions import Verb
from conversations.models import Conversation
from tasks.delegation import (
    SENTENCES,
    Agreed,
    Refusal,
    compute_digest,
    find_newest,
    judge,
    prove_consent,
    with_liveness,
)
from tasks.models import Delegation, Occurrence, Task
from tasks.schedule import describe, preview


@dataclass(frozen=True, slots=True, kw_only=True)
class Last:
    """The newest occurrence of a task."""

    state: str
    label: str
    due_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentName:
    """The agent of a task."""

    id: UUID
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """A task as pages and API show it.

    `schedule_words` is the rule in words where it has common ones. `refusal` says why it would not
    run, as far as its consent goes; `view_consent` also looks at the member and the agent.
    """

    id: UUID
    name: str
    agent: AgentName
    owner: str
    prompt: str
    cron: str
    schedule_words: str
    time_zone: str
    state: str
    state_label: str
    next_due_at: datetime | None
    created_at: datetime
    last: Last | None
    refusal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentView:
    """The consent under which a task works: `is_live` says whether it would run now, `message` why
    not.
    """

    is_live: bool
    reason: str
    message: str
    granted_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OccurrenceView:
    """One due time. `conversation_id` only where the caller may open it."""

    id: UUID
    due_at: datetime
    state: str
    state_label: str
    reason: str
    conversation_id: UUID | None
    created_at: datetime
    finished_at: datetime | None


def list_tasks(authority: Authority) -> QuerySet[Task]:
    """The tasks the caller may see, newest first, without archived ones; for `view_tasks`."""
    return (
        _with_last(relation.visible(authority, Task))
        .exclude(state=Task.State.ARCHIVED)
        .order_by("-id")
    )


def view_tasks(tasks: Iterable[Task]) -> list[TaskView]:
    """Rows of `list_tasks` as they are shown. Runs no query of its own."""
    return [_view(task) for task in tasks]


def get_task(authority: Authority, task_id: UUID | str, verb: Verb = Verb.VIEW) -> Task:
    """A task on which the caller holds `verb`, archived or not. Raises Missing, Denied."""
    return relation.get_from(
        _with_last(relation.visible(authority, Task, verb)),
        relation.visible(authority, Task),
        task_id,
    )


def view_task(task: Task) -> TaskView:
    """A row of `get_task` as it is shown."""
    return _view(task)


def view_consent(task: Task) -> ConsentView:
    """Whether the task would run if it came due now, and why not."""
    newest = find_newest(task)
    outcome = prove_consent(task)
    refusal = outcome if isinstance(outcome, Refusal) else None
    return ConsentView(
        is_live=refusal is None,
        reason="" if refusal is None else str(refusal.reason),
        message="" if refusal is None else refusal.message,
        granted_at=None if newest is None else newest.granted_at,
        expires_at=None if newest is None else newest.expires_at,
        revoked_at=None if newest is None else newest.revoked_at,
    )


def list_occurrences(authority: Authority, task: Task) -> QuerySet[Occurrence]:
    """The occurrences of a task the caller was given by `get_task`, newest first; for
    `view_occurrences`.
    """
    openable = relation.visible(authority, Conversation).filter(pk=OuterRef("conversation_id"))
    occurrences: QuerySet[Occurrence] = (
        Occurrence.objects.for_authority(authority)
        .filter(task=task)
        .annotate(may_open=Exists(openable))
        .order_by("-due_at", "-id")
    )
    return occurrences


def view_occurrences(occurrences: Iterable[Occurrence]) -> list[OccurrenceView]:
    """Rows of `list_occurrences` as they are shown. Runs no query of its own."""
    return [
        OccurrenceView(
            id=occurrence.pk,
            due_at=occurrence.due_at,
            state=occurrence.state,
            state_label=str(occurrence.get_state_display()),
            reason=occurrence.reason,
            conversation_id=occurrence.conversation_id if occurrence.may_open else None,  # type: ignore[attr-defined]
            created_at=occurrence.created_at,
            finished_at=occurrence.finished_at,
        )
        for occurrence in occurrences
    ]


def list_next_due(task: Task, after: datetime) -> list[datetime]:
    """The next three due times of an active task; none otherwise.

    Raises Invalid for a rule gone bad.
    """
    return preview(task.cron, task.time_zone, after) if task.state == Task.State.ACTIVE else []


def _with_last(tasks: QuerySet[Task]) -> QuerySet[Task]:
    newest = Occurrence.objects.filter(task=OuterRef("pk")).order_by("-due_at", "-id")
    agreed = with_liveness(Delegation.objects.filter(task=OuterRef("pk")))
    return tasks.select_related("agent__current_version", "owner").annotate(
        last_state=Subquery(newest.values("state")[:1]),
        last_due_at=Subquery(newest.values("due_at")[:1]),
        agreed_by=Subquery(agreed.values("user_id")[:1]),
        agreed_digest=Subquery(agreed.values("digest")[:1]),
        agreed_revoked_at=Subquery(agreed.values("revoked_at")[:1]),
        agreed_is_live=Subquery(agreed.values("is_live")[:1]),
    )


def _view(task: Any) -> TaskView:
    last = None
    if task.last_state is not None:
        label = str(Occurrence.State(task.last_state).label)
        last = Last(state=task.last_state, label=label, due_at=task.last_due_at)
    agreed = None
    if task.agreed_by is not None:
        agreed = Agreed(
            user_id=task.agreed_by,
            digest=task.agreed_digest,
            is_revoked=task.agreed_revoked_at is not None,
            is_live=task.agreed_is_live,
        )
    reason = judge(agreed, owner_id=task.owner_id, digest=compute_digest(task, task.agent))
    return TaskView(
        id=task.pk,
        name=task.name,
        agent=AgentName(id=task.agent_id, name=task.agent.name),
        owner=str(task.owner),
        prompt=task.prompt,
        cron=task.cron,
        schedule_words=describe(task.cron),
        time_zone=task.time_zone,
        state=task.state,
        state_label=str(task.get_state_display()),
        next_due_at=task.next_due_at if task.state == Task.State.ACTIVE else None,
        created_at=task.created_at,
        last=last,
        refusal="" if reason is None else SENTENCES[reason],
    )
