"""The journal: numbered, durable events of a conversation. The only writer of JournalEvent.

The conversation's row is the lock under which numbers are given, so they have no gaps and no
doubles. What is shown was written here first, live text excepted, which is at most a moment ahead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.db import connection

from conversations.models import JournalEvent
from kaizen.kernel.bells import ring_on_commit
from kaizen.kernel.errors import Missing

# Every kind of event and what it says.
KINDS = {
    "user_message": "A member said something.",
    "run_queued": "A run was created for it.",
    "run_started": "A runtime took the run.",
    "model_reply": "A model's whole message, with the provider's own blocks.",
    "text": "A piece of the answer, at an offset in code points.",
    "tool_intent": "A tool is about to be called.",
    "tool_result": "How a tool call ended: ids and digests, never source text.",
    "stop_requested": "A member asked to stop.",
    "run_requeued": "A runtime gave the run back untouched.",
    "run_finished": "The run ended.",
    "title": "The conversation was named.",
}
PAGE = 500


def topic(conversation_id: UUID) -> str:
    """The bell of a conversation's journal and live text."""
    return f"conversation:{conversation_id}"


def append(
    *,
    organization_id: UUID,
    conversation_id: UUID,
    kind: str,
    data: dict[str, Any],
    run_id: UUID | None = None,
    attempt: int = 0,
) -> int:
    """Write one event and ring its bell on commit. Returns its number.

    Takes the conversation's row lock until the transaction ends. Raises Missing when there is no
    such conversation in the organisation, KeyError for an unknown kind.
    """
    if kind not in KINDS:
        raise KeyError(kind)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE conversations_conversation SET last_seq = last_seq + 1, updated_at = now() "
            "WHERE organization_id = %s AND id = %s RETURNING last_seq",
            [organization_id, conversation_id],
        )
        row = cursor.fetchone()
    if row is None:
        raise Missing
    seq = int(row[0])
    JournalEvent.objects.create(
        organization_id=organization_id,
        conversation_id=conversation_id,
        seq=seq,
        run_id=run_id,
        attempt=attempt,
        kind=kind,
        data=data,
    )
    ring_on_commit(topic(conversation_id), {"seq": seq})
    return seq


def read(
    *, organization_id: UUID, conversation_id: UUID, after: int, limit: int = PAGE
) -> list[JournalEvent]:
    """The events after number `after`, in order, at most `limit`."""
    return list(
        JournalEvent.objects.filter(
            organization_id=organization_id, conversation_id=conversation_id, seq__gt=after
        ).order_by("seq")[:limit]
    )


def read_run(
    *, organization_id: UUID, run_id: UUID, kinds: tuple[str, ...]
) -> Iterator[JournalEvent]:
    """The events of one run of these kinds, in order."""
    return (
        JournalEvent.objects.filter(organization_id=organization_id, run_id=run_id, kind__in=kinds)
        .order_by("seq")
        .iterator()
    )


def answer_text(*, organization_id: UUID, run_id: UUID, until: int | None = None) -> str:
    """The text of a run's answer as far as it was journaled, or as it stood at event number
    `until`.
    """
    pieces = read_run(organization_id=organization_id, run_id=run_id, kinds=("text",))
    return "".join(event.data["text"] for event in pieces if until is None or event.seq <= until)
