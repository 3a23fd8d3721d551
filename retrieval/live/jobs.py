"""Background work of live sources."""

from __future__ import annotations

from celery import shared_task

from retrieval.live.reads import forget_results


@shared_task(name="retrieval.forget_live_results")
def forget() -> None:
    """Remove what was read and is kept no longer."""
    forget_results()
