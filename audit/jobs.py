"""Celery jobs of the audit: the sealer, and its alarm."""

from __future__ import annotations

import logging
from datetime import timedelta

from celery import shared_task

from audit.chain import seal_all
from audit.models import AuditPending
from kaizen.kernel.clock import now

logger = logging.getLogger(__name__)
STALE_AFTER = timedelta(seconds=60)


@shared_task(name="audit.seal")
def seal() -> None:
    """Link pending events into their chains; shout when some have waited for a minute."""
    seal_all()
    stale = AuditPending.objects.filter(at__lt=now() - STALE_AFTER).count()
    if stale:
        logger.error("%s audit events have been unsealed for over a minute", stale)
