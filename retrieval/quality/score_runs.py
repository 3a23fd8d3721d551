"""Starting and stopping the scoring of a question set, and under which settings it searched.

Promises: every search of a run is planned when it starts, 2,000 at most, so that changing the set
meanwhile changes nothing of it; one scoring of a set at a time. Not for: the scoring itself
(`retrieval.quality.score_work`) or figures over runs (`retrieval.quality.score_queries`).
"""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from accounts.authority import Authority, Capability
from audit.record import record
from kaizen.kernel.clock import ClockTimestamp
from kaizen.kernel.errors import Conflict, Invalid, Missing
from kaizen.kernel.jobs import enqueue
from kaizen.kernel.models import exact_json
from retrieval.models import Persona, Question, QuestionSet, RerankModel, ScoreRow, ScoreRun
from retrieval.quality.questions import MOST_SEARCHES, hold_set
from retrieval.spaces.active import find_active_space
from retrieval.statement import STATEMENT

SCORE_JOB = "retrieval.score"

_FUNCTIONS = """
SELECT coalesce(string_agg(p.proname || p.prosrc, '' ORDER BY p.proname, p.oid), '')
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = 'public' AND p.proname LIKE 'retrieval%'
"""


@transaction.atomic
def start_run(authority: Authority, *, question_set: QuestionSet) -> ScoreRun:
    """Plan a scoring of the set and have it done in the background.

    Raises Denied and Missing, Conflict while another one runs or the set is archived, Invalid when
    there is nothing to ask, nobody to ask as, or too much.
    """
    held = hold_set(authority, question_set)
    if held.archived_at is not None:
        raise Conflict("This set is in the archive. Take it out first.", code="archived")
    if ScoreRun.objects.filter(question_set=held, state=ScoreRun.State.RUNNING).exists():
        raise Conflict("This set is being scored already.", code="scoring")
    living = Question.objects.filter(question_set=held, removed_at=None)
    questions = list(living.order_by("created_at", "pk").values_list("pk", flat=True))
    personas = Persona.objects.filter(question_set=held).order_by("membership_id")
    members = list(personas.values_list("membership_id", flat=True))
    searches = len(questions) * len(members)
    _check_size(len(questions), len(members))
    at = {"organization_id": authority.organization_id}
    conditions = search_settings(authority.organization_id)
    run = ScoreRun.objects.create(
        **at,
        question_set=held,
        started_by_id=authority.user_id,
        search_settings=conditions,
        settings_digest=settings_digest(conditions),
        planned=searches,
        sent_at=ClockTimestamp(),
    )
    ScoreRow.objects.bulk_create(
        ScoreRow(**at, run=run, question_id=question, membership_id=member)
        for question in questions
        for member in members
    )
    record(
        authority,
        "retrieval.scoring_started",
        subject=run,
        data={
            "question_set": str(held.pk),
            "questions": len(questions),
            "members": [str(member) for member in members],
        },
    )
    enqueue(SCORE_JOB, run_id=run.pk)
    return run


@transaction.atomic
def stop_run(authority: Authority, *, run: ScoreRun) -> None:
    """End a scoring that runs; what is scored stays. Raises Denied, Missing and Conflict."""
    authority.check(Capability.CONFIGURE)
    held = (
        ScoreRun.objects.for_authority(authority)
        .select_for_update(no_key=True, of=("self",))
        .filter(pk=run.pk)
        .first()
    )
    if held is None:
        raise Missing
    if held.state != ScoreRun.State.RUNNING:
        raise Conflict("This scoring has ended already.", code="ended")
    ScoreRun.objects.filter(pk=held.pk).update(
        state=ScoreRun.State.STOPPED,
        message="Stopped by an admin.",
        ended_at=ClockTimestamp(),
        lease_until=None,
    )
    record(
        authority,
        "retrieval.scoring_ended",
        subject=held,
        data={"state": ScoreRun.State.STOPPED.value},
    )


def search_settings(organization_id: UUID) -> dict[str, Any]:
    """What a search's answer depends on besides documents and rights.

    `search` is a digest over the statement and the database functions that it calls: it changes
    with every version of the product that searches in another way.
    """
    space = find_active_space(organization_id)
    rerank = RerankModel.objects.filter(organization_id=organization_id, enabled=True).first()
    with connection.cursor() as cursor:
        cursor.execute(_FUNCTIONS)
        functions: str = cursor.fetchone()[0]
    return {
        "embedding_model": "" if space is None else space.model,
        "embedding_digest": "" if space is None else space.digest,
        "rerank_model": "" if rerank is None else rerank.label,
        "search": hashlib.sha256((STATEMENT + functions).encode()).hexdigest()[:16],
    }


def settings_digest(conditions: dict[str, Any]) -> str:
    """Tells whether two runs searched in the same way."""
    return hashlib.sha256(exact_json(conditions).encode()).hexdigest()


def _check_size(questions: int, members: int) -> None:
    if not questions:
        raise Invalid("This set has no questions yet.", code="no_questions")
    if not members:
        raise Invalid("Choose at least one person to ask as.", code="no_personas")
    if questions * members > MOST_SEARCHES:
        raise Invalid(
            f"{questions:,} questions asked as {members:,} people are more than "
            f"{MOST_SEARCHES:,} searches. Make the set smaller or ask as fewer people.",
            code="too_many_searches",
        )
