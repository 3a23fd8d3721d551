"""Celery jobs of the conversations app."""

from __future__ import annotations

from celery import shared_task
from django.db.models.functions import Now

from conversations import turns
from conversations.models import Run


@shared_task(name="conversations.sweep")
def sweep() -> None:
    """End the runs whose lease has lapsed: failed, salvaged, ready for a retry."""
    lapsed = Run.objects.filter(state=Run.State.RUNNING, lease_until__lte=Now()).values_list(
        "id", flat=True
    )
    for run_id in lapsed[:200]:
        turns.lose(run_id)
