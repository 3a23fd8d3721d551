"""A worker's part of scoring: every question asked as every persona, row by row.

Promises: a row and its audit event are one transaction under a lease, so that no two workers score
one, and what a killed worker left is scored by the next; it goes on only while whoever started it
may still configure. Leaks are counted by asking the relation about what was found, apart from the
search; a document whose rights were withdrawn between the two is no leak.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from accounts.authority import Authority, Capability, Channel, from_user_id
from kaizen.kernel.clock import ClockTimestamp
from kaizen.kernel.errors import KaizenError, Missing, Unavailable
from retrieval.acl import visible_documents
from retrieval.embedders.choice import embedder_for
from retrieval.embedders.contract import Embedder, Vectors
from retrieval.models import QuestionDocument, ScoreRow, ScoreRun
from retrieval.quality.score_lease import (
    Lease,
    LeaseLost,
    claim,
    finish,
    hold,
    is_due,
    release,
    renew,
    stop,
)
from retrieval.quality.scoring import RECALL_DEPTHS, Score, rank_documents, score
from retrieval.quality.see_as import look_as
from retrieval.query import parse_query

SENT_TOO_LONG = timedelta(seconds=60)
LOOKS = 3
_AT_ONCE = 100
_MAY_NOT = "Whoever started this may not configure any more, so it was stopped."


class Scored(StrEnum):
    """How a worker's time at a run ended."""

    DONE = "done"
    MORE = "more"  # its time is over, there is more to do
    STOPPED = "stopped"
    NOTHING = "nothing"  # nothing to do, or somebody else is at it
    LOST = "lost"  # stopped or taken over meanwhile


class Stopped(Exception):
    """The run can't go on; the message says why."""


@dataclass(slots=True)
class _AskedOnce:
    """An embedder that embeds one query once, however many personas ask it."""

    embedder: Embedder
    model: str = field(init=False)
    digest: str = field(init=False)
    dimension: int = field(init=False)
    _vectors: dict[str, Vectors] = field(default_factory=dict)
    _failures: dict[str, Unavailable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.model, self.digest = self.embedder.model, self.embedder.digest
        self.dimension = self.embedder.dimension

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """As the embedder does."""
        return self.embedder.embed_documents(texts)

    def embed_query(self, text: str) -> Vectors:
        """As the embedder did when it was first asked. Raises Unavailable."""
        if text in self._failures:
            raise self._failures[text]
        if text not in self._vectors:
            try:
                self._vectors[text] = self.embedder.embed_query(text)
            except Unavailable as error:
                self._failures[text] = error
                raise
        return self._vectors[text]

    def count_tokens(self, text: str) -> int:
        """As the embedder does."""
        return self.embedder.count_tokens(text)


def score_run(run_id: UUID, *, seconds: float, embedder: Embedder | None = None) -> Scored:
    """Score for about so long. Safe to call again at any time."""
    lease = claim(run_id)
    if lease is None:
        return Scored.NOTHING
    ends = time.monotonic() + seconds
    try:
        while question_id := _next_question(lease):
            _score_question(lease, question_id, embedder)
            if time.monotonic() >= ends:
                release(lease)
                return Scored.MORE
        finish(lease)
    except LeaseLost:
        return Scored.LOST
    except Stopped as error:
        stop(lease, str(error))
        return Scored.STOPPED
    return Scored.DONE


@transaction.atomic
def find_unfinished() -> list[UUID]:
    """Runs that nobody scores and that no message is under way for; at most 100.

    Locks them, skipping those that are locked.
    """
    unsent = Q(sent_at=None) | Q(sent_at__lt=ClockTimestamp() - SENT_TOO_LONG)
    rows = ScoreRun.objects.select_for_update(skip_locked=True, no_key=True, of=("self",))
    found = list(
        rows.filter(is_due(), unsent).order_by("pk")[:_AT_ONCE].values_list("pk", flat=True)
    )
    ScoreRun.objects.filter(pk__in=found).update(sent_at=ClockTimestamp())
    return found


# --- one question


def _next_question(lease: Lease) -> UUID | None:
    """The first question that isn't scored as everybody."""
    rows = ScoreRow.objects.filter(
        organization_id=lease.organization_id, run_id=lease.run_id, scored_at=None
    )
    return rows.order_by("question_id").values_list("question_id", flat=True).first()


def _score_question(lease: Lease, question_id: UUID, embedder: Embedder | None) -> None:
    """Score one question as everybody it isn't scored as yet. Raises LeaseLost and Stopped."""
    rows = list(
        ScoreRow.objects.filter(
            organization_id=lease.organization_id,
            run_id=lease.run_id,
            question_id=question_id,
            scored_at=None,
        )
        .select_related("question", "membership")
        .order_by("membership_id")
    )
    documents: dict[str, set[UUID]] = {kind: set() for kind in QuestionDocument.Kind.values}
    named = QuestionDocument.objects.filter(
        question_id=question_id, document__deleted_at=None
    ).values_list("kind", "document_id")
    for kind, document_id in named:
        documents[kind].add(document_id)
    once = _AskedOnce(embedder or embedder_for(lease.organization_id))
    _embed_ahead(once, rows[0].question.text)
    for row in rows:
        with hold(lease) as run:
            admin = _authority_of_starter(run)
            changes = _score_row(admin, row, documents, once)
            ScoreRow.objects.filter(pk=row.pk).update(scored_at=ClockTimestamp(), **changes)
            renew(run)


def _embed_ahead(once: _AskedOnce, text: str) -> None:
    """Embed outside any transaction; a failure is told again to each search, which goes on."""
    try:
        once.embed_query(parse_query(text).meaning)
    except Unavailable:
        return
    except KaizenError as error:
        raise Stopped(error.message) from error


def _score_row(
    admin: Authority, row: ScoreRow, documents: dict[str, set[UUID]], embedder: Embedder
) -> dict[str, Any]:
    """The row's columns: what was found, judged by what the persona may view."""
    expected, forbidden = documents["expected"], documents["forbidden"]
    columns: dict[str, Any] = {}
    for _look in range(LOOKS):
        looked = look_as(
            admin,
            membership=row.membership,
            query=row.question.text,
            limit=max(RECALL_DEPTHS),
            embedder=embedder,
            data={"run": str(row.run_id)},
        )
        if looked.persona is None or looked.result is None:
            return {"inactive": True, "hidden": len(expected)}
        ranking = rank_documents(hit.document_id for hit in looked.result.hits)
        viewable = _viewable(looked.persona, {*ranking, *expected})
        found = score(ranking, expected=expected, forbidden=forbidden, viewable=viewable)
        columns = {**_columns(found), "degraded": bool(looked.result.degraded)}
        # Rights may have been withdrawn between the search and the question about them: a leak
        # is there again when it is looked for again.
        if viewable.issuperset(ranking):
            break
    return columns


def _viewable(persona: Authority, document_ids: set[UUID]) -> set[UUID]:
    """Those of the documents that the persona may view: the relation's own answer."""
    rows = visible_documents(persona).filter(pk__in=document_ids)
    return set(rows.values_list("pk", flat=True))


def _columns(found: Score) -> dict[str, Any]:
    return {
        "ndcg_10": found.ndcg_10,
        "recall_10": found.recall_10,
        "recall_50": found.recall_50,
        "first_rank": found.first_rank,
        "expected": found.expected,
        "hidden": found.hidden,
        "found": found.found,
        "leaked": list(found.leaked),
    }


def _authority_of_starter(run: ScoreRun) -> Authority:
    """The admin who started it, as they are now. Raises Stopped."""
    try:
        authority = from_user_id(
            run.started_by_id, organization_id=run.organization_id, channel=Channel.COMMAND
        )
    except Missing:
        raise Stopped(_MAY_NOT) from None
    if not authority.may(Capability.CONFIGURE):
        raise Stopped(_MAY_NOT)
    return authority
