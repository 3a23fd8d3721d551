"""How services start background work: by registered name, with ids only, after commit.

The row in its state is itself the outbox; every job has a sweep that finds what a lost message
left behind.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)


def enqueue(name: str, *, queue: str = "celery", **ids: Any) -> None:
    """Send job `name` with `ids` once the surrounding transaction has committed.

    A broker that doesn't answer costs time, not work: the sweep of that job finds the row.
    """

    def send() -> None:
        try:
            current_app.send_task(
                name, kwargs={key: str(value) for key, value in ids.items()}, queue=queue
            )
        except OperationalError:
            logger.warning("broker unreachable, %s left to its sweep", name)

    transaction.on_commit(send)
