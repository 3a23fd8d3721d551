"""Background work of the test bench: thin, by id. The run's row is the outbox; the tick finds what
a lost message or a dead worker left.
"""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from kaizen.kernel.jobs import enqueue
from retrieval.quality.score_runs import SCORE_JOB
from retrieval.quality.score_work import Scored, find_unfinished, score_run

TURN_SECONDS = 20.0
"""So long a worker scores before it looks at what else waits, documents among it."""


@shared_task(name=SCORE_JOB)
def score(*, run_id: str) -> None:
    """Score one run for a while; nothing when somebody is at it or it has ended."""
    if score_run(UUID(run_id), seconds=TURN_SECONDS) is Scored.MORE:
        enqueue(SCORE_JOB, run_id=run_id)


@shared_task(name="retrieval.tend_scorings")
def tend() -> None:
    """Go on with every scoring that nobody is at."""
    for run_id in find_unfinished():
        enqueue(SCORE_JOB, run_id=run_id)
