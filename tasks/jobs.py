"""Celery jobs of the tasks app. Each only calls its verb in `dispatch`."""

from __future__ import annotations

from celery import shared_task

from kaizen.kernel.clock import now
from tasks import dispatch


@shared_task(name="tasks.dispatch_due")
def dispatch_due() -> None:
    """Make an occurrence of every due task."""
    dispatch.dispatch_due(at=now())


@shared_task(name="tasks.execute")
def execute(occurrence_id: str) -> None:
    """Start a due occurrence's run, or refuse it."""
    dispatch.execute(occurrence_id)


@shared_task(name="tasks.settle")
def settle() -> None:
    """Settle what ended, stop what lost its consent, send lost messages again."""
    dispatch.settle()
