"""From due time to run: due tasks become occurrences, occurrences become runs, ended runs settle
them.

Promises: one occurrence for each due time, however many schedulers tick; one run for each
occurrence, however often it is executed; nothing runs unproven. Due times missed while nothing was
running become one occurrence, which says so. Locks are taken in one order: the task, then the
occurrence, then the run.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef

from audit.record import record, record_system
from conversations import turns
from conversations.models import Run
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Invalid, KaizenError, Limited, Unavailable
from kaizen.kernel.jobs import enqueue
from kaizen.kernel.tenancy import organization_scope
from tasks.delegation import IS_LIVE, Proven, Refusal, prove
from tasks.models import Delegation, Occurrence, Task
from tasks.schedule import MOST_COUNTED, Passed, next_due, passed_due

logger = logging.getLogger(__name__)

AT_ONCE = 200
PUNCTUAL = timedelta(seconds=60)
RESEND_AFTER = timedelta(seconds=30)
GIVE_UP_AFTER = timedelta(hours=1)
REASON_LENGTH = 200
CONSENT_ENDED = "The agreement to unattended work ended, so this was stopped."


def dispatch_due(*, at: datetime) -> int:
    """Make one occurrence for each active task that is due at `at`, and send it to a worker on
    commit.

    Returns how many were made. One transaction a task; a task that another scheduler holds is left
    to it.
    """
    due = Task.objects.filter(state=Task.State.ACTIVE, next_due_at__lte=at).order_by("next_due_at")
    found = list(due.values_list("pk", "organization_id")[:AT_ONCE])
    return sum(_dispatch(task_id, organization_id, at) for task_id, organization_id in found)


def _dispatch(task_id: UUID, organization_id: UUID, at: datetime) -> bool:
    with organization_scope(organization_id):
        task = (
            Task.objects.select_for_update(skip_locked=True)
            .filter(pk=task_id, state=Task.State.ACTIVE, next_due_at__lte=at)
            .first()
        )
        if task is None or task.next_due_at is None:
            return False
        try:
            passed = passed_due(task.cron, task.time_zone, first=task.next_due_at, at=at)
            following = next_due(task.cron, task.time_zone, at)
        except Invalid:
            # It was fine when saved: a zone left the database, or the rule came to its end.
            logger.exception("task %s has a schedule that can't be followed; paused", task.pk)
            Task.objects.filter(pk=task.pk).update(state=Task.State.PAUSED, next_due_at=None)
            return False
        occurrence, is_new = Occurrence.objects.get_or_create(
            organization_id=organization_id,
            task=task,
            due_at=passed.latest,
            defaults={"reason": describe_missed(passed, at=at)},
        )
        Task.objects.filter(pk=task.pk).update(next_due_at=following)
        if is_new:
            enqueue("tasks.execute", occurrence_id=occurrence.pk)
    return bool(is_new)


def describe_missed(passed: Passed, *, at: datetime) -> str:
    """A sentence on the due times that one occurrence stands for; empty when it is on time."""
    missed = passed.count - (1 if at - passed.latest < PUNCTUAL else 0)
    if missed == 0:
        return ""
    if missed == 1:
        return "1 due time was missed while nothing was running; this one run stands for it."
    number = f"{missed} or more" if passed.count >= MOST_COUNTED else str(missed)
    return (
        f"{number} due times were missed while nothing was running; this one run stands for them."
    )


def execute(occurrence_id: UUID | str) -> None:
    """Start the run of a due occurrence, or refuse it and say why. Repeating it changes nothing.

    Locks the task and the occurrence. What may pass soon (a limit, a part that doesn't answer)
    leaves it due: the sweep tries again.
    """
    organization_id = (
        Occurrence.objects.filter(pk=occurrence_id)
        .values_list("organization_id", flat=True)
        .first()
    )
    if organization_id is None:
        logger.warning("occurrence %s doesn't exist; its message is dropped", occurrence_id)
        return
    with organization_scope(organization_id):
        occurrence = (
            Occurrence.objects.select_for_update(of=("task", "self"))
            .select_related("task")
            .get(pk=occurrence_id)
        )
        if occurrence.state != Occurrence.State.DUE:
            return
        match prove(occurrence.task):
            case Refusal() as refusal:
                _refuse(occurrence, code=refusal.reason, message=refusal.message)
            case Proven() as proven:
                _start(occurrence, proven)


def _start(occurrence: Occurrence, proven: Proven) -> None:
    try:
        with transaction.atomic():
            turn = turns.start(
                proven.authority,
                text=occurrence.task.prompt,
                key=f"occurrence-{occurrence.pk}",
                agent=proven.agent,
                trigger=Run.Trigger.TASK,
                title=occurrence.task.name,
            )
    except (Limited, Unavailable) as error:
        logger.warning("occurrence %s has to wait: %s", occurrence.pk, error.code)
        return
    except KaizenError as error:
        _refuse(occurrence, code=error.code, message=error.message)
        return
    Occurrence.objects.filter(pk=occurrence.pk).update(
        state=Occurrence.State.RUNNING, run=turn.run, conversation=turn.conversation
    )
    record(
        proven.authority,
        "tasks.dispatched",
        subject=occurrence,
        data={"task": str(occurrence.task_id), "run": str(turn.run.pk)},
    )


def _refuse(occurrence: Occurrence, *, code: str, message: str) -> None:
    Occurrence.objects.filter(pk=occurrence.pk).update(
        state=Occurrence.State.REFUSED,
        reason=f"{message} {occurrence.reason}".strip()[:REASON_LENGTH],
        finished_at=now(),
    )
    record_system(
        occurrence.organization_id,
        "tasks.refused",
        subject=occurrence,
        data={"task": str(occurrence.task_id), "code": str(code)},
    )


def settle() -> None:
    """The sweep of occurrences: ended runs settle them, lapsed consent stops them, lost messages
    are sent again.
    """
    _settle_ended()
    _stop_without_consent()
    _send_again()


def _settle_ended() -> None:
    ended = Occurrence.objects.filter(state=Occurrence.State.RUNNING, run__state__in=Run.ENDED)
    for pk, organization_id in list(ended.values_list("pk", "organization_id")[:AT_ONCE]):
        with organization_scope(organization_id):
            occurrence = (
                Occurrence.objects.select_for_update(of=("self",), skip_locked=True)
                .select_related("run")
                .filter(pk=pk, state=Occurrence.State.RUNNING)
                .first()
            )
            if occurrence is not None and occurrence.run is not None:
                _finish(occurrence, occurrence.run)


def _finish(occurrence: Occurrence, run: Run) -> None:
    has_succeeded = run.state == Run.State.SUCCEEDED
    state = Occurrence.State.SUCCEEDED if has_succeeded else Occurrence.State.FAILED
    message = "" if has_succeeded else (run.error_message or _ENDINGS[run.state])
    Occurrence.objects.filter(pk=occurrence.pk).update(
        state=state,
        reason=f"{message} {occurrence.reason}".strip()[:REASON_LENGTH],
        finished_at=run.finished_at or now(),
    )
    record_system(
        occurrence.organization_id,
        "tasks.finished",
        subject=occurrence,
        data={"task": str(occurrence.task_id), "run": str(run.pk), "state": str(state)},
    )


_ENDINGS: dict[str, str] = {
    Run.State.FAILED: "The run broke off.",
    Run.State.CANCELLED: "The run was stopped.",
}


def _stop_without_consent() -> None:
    consent = Delegation.objects.filter(IS_LIVE, task=OuterRef("task"))
    running = Occurrence.objects.filter(state=Occurrence.State.RUNNING).exclude(
        run__state__in=Run.ENDED
    )
    lapsed = running.filter(~Exists(consent), run__stop_requested_at=None)
    for run_id, organization_id in list(lapsed.values_list("run_id", "organization_id")[:AT_ONCE]):
        with organization_scope(organization_id):
            turns.cancel(run_id, code="consent_ended", message=CONSENT_ENDED)


def _send_again() -> None:
    waiting = Occurrence.objects.filter(state=Occurrence.State.DUE).order_by("created_at")
    late = waiting.filter(created_at__lt=now() - RESEND_AFTER)
    for pk, organization_id, created_at in list(
        late.values_list("pk", "organization_id", "created_at")[:AT_ONCE]
    ):
        if created_at >= now() - GIVE_UP_AFTER:
            enqueue("tasks.execute", occurrence_id=pk)
            continue
        with organization_scope(organization_id):
            occurrence = (
                Occurrence.objects.select_for_update(skip_locked=True)
                .filter(pk=pk, state=Occurrence.State.DUE)
                .first()
            )
            if occurrence is not None:
                _refuse(occurrence, code="late", message="It could not be started within an hour.")
