"""How a run ends, or goes back to the queue, whatever ended it: one place that writes the answer.

Locks are taken in one order: the run, then the conversation (through the journal).
"""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from audit.record import record_system
from conversations import journal, leases
from conversations.models import Conversation, Message, Run
from conversations.states import check_move
from kaizen.kernel.bells import ring_on_commit

LOST = (
    "The process that was writing this answer stopped. What it had is kept; try again for the rest."
)


def finish_locked(
    run: Run, *, state: Run.State, salvaged: bool = False, code: str = "", message: str = ""
) -> None:
    """End a run whose row the caller has locked: its text becomes the answer, the journal says how
    it ended.
    """
    check_move(run, state)
    text = journal.answer_text(organization_id=run.organization_id, run_id=run.pk)
    if text:
        answer = Message.objects.create(
            id=run.answer_id,
            organization_id=run.organization_id,
            conversation_id=run.conversation_id,
            parent_id=run.question_id,
            role=Message.Role.ASSISTANT,
            run=run,
            text=text,
        )
        Conversation.objects.filter(pk=run.conversation_id).update(head=answer)
    Run.objects.filter(pk=run.pk).update(
        state=state,
        salvaged=salvaged,
        error_code=code,
        error_message=message[:500],
        lease_hash="",
        lease_until=None,
        finished_at=Now(),
    )
    journal.append(
        organization_id=run.organization_id,
        conversation_id=run.conversation_id,
        kind="run_finished",
        data={
            "run": str(run.pk),
            "message": str(run.answer_id),
            "state": str(state),
            "salvaged": salvaged,
            "error_code": code,
            "error_message": message[:500],
            "length": len(text),
        },
        run_id=run.pk,
        attempt=run.attempt,
    )
    record_system(
        run.organization_id,
        "conversations.run_finished",
        subject=run,
        data={"state": str(state), "salvaged": salvaged, "code": code},
    )


@transaction.atomic
def lose(run_id: UUID, *, attempt: int | None = None, code: str = "lost") -> bool:
    """End a run whose runtime or bridge is gone: failed, with its text kept and a retry. Returns
    whether it did.

    With `attempt`, only if that attempt still stands; without, only if the lease has lapsed.
    """
    runs = Run.objects.select_for_update(of=("self",)).filter(pk=run_id, state=Run.State.RUNNING)
    runs = runs.filter(lease_until__lte=Now()) if attempt is None else runs.filter(attempt=attempt)
    run = runs.first()
    if run is None:
        return False
    if run.stop_requested_at is not None:
        finish_locked(
            run, state=Run.State.CANCELLED, code=run.error_code, message=run.error_message
        )
        return True
    finish_locked(
        run,
        state=Run.State.FAILED,
        salvaged=True,
        code=code,
        message=LOST,
    )
    return True


@transaction.atomic
def requeue(run_id: UUID, *, attempt: int) -> None:
    """Give back a run that a runtime never began, so that another one takes it; one that a member
    stopped meanwhile ends instead.
    """
    run = (
        Run.objects.select_for_update(of=("self",))
        .filter(pk=run_id, state=Run.State.RUNNING, attempt=attempt)
        .first()
    )
    if run is None:
        return
    if run.stop_requested_at is not None:
        finish_locked(
            run, state=Run.State.CANCELLED, code=run.error_code, message=run.error_message
        )
        return
    check_move(run, Run.State.QUEUED)
    Run.objects.filter(pk=run.pk).update(state=Run.State.QUEUED, lease_hash="", lease_until=None)
    journal.append(
        organization_id=run.organization_id,
        conversation_id=run.conversation_id,
        kind="run_requeued",
        data={"run": str(run.pk)},
        run_id=run.pk,
        attempt=attempt,
    )
    ring_on_commit(leases.RUNS_TOPIC)
