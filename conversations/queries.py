"""Reads of the conversations app: lists, one conversation as its reader may see it, and its
events.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from accounts import relation
from accounts.authority import Authority
from accounts.permissions import Verb
from conversations import journal
from conversations.citations import Citations, resolve
from conversations.models import Conversation, Message, Run
from conversations.projection import SourceView, answer_view, message_html, project_event
from kaizen.kernel.errors import Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageView:
    """One message of the path from the first word to the newest, as its reader may see it."""

    id: UUID
    role: str
    html: str
    text: str
    sources: tuple[SourceView, ...]
    withheld: bool
    run: Run | None
    created_at: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationView:
    """A conversation as its reader may see it.

    Attributes:
        after: the journal's number up to which `messages` tell everything; a stream goes on from
        there. active_run: the run that is going on, if any. ended_run: the newest run, if it ended
        without an answer. may_change: whether the reader may say something here.
    """

    conversation: Conversation
    messages: tuple[MessageView, ...]
    active_run: Run | None
    ended_run: Run | None
    after: int
    may_change: bool


def list_conversations(authority: Authority) -> QuerySet[Conversation]:
    """The conversations the caller may see and that aren't archived, newest first."""
    return (
        relation.visible(authority, Conversation)
        .filter(archived_at=None)
        .select_related("agent")
        .order_by("-updated_at", "-id")
    )


def get_conversation(
    authority: Authority, conversation_id: UUID | str, verb: Verb = Verb.VIEW
) -> Conversation:
    """One conversation on which the caller holds `verb`. Raises Missing, Denied."""
    return relation.get(authority, Conversation, conversation_id, verb)


def view_conversation(authority: Authority, conversation_id: UUID | str) -> ConversationView:
    """A conversation with everything its reader may see of it. Raises Missing."""
    conversation = (
        relation.visible(authority, Conversation)
        .select_related("agent")
        .filter(pk=relation.parse_id(conversation_id))
        .first()
    )
    if conversation is None:
        raise Missing
    citations = resolve(authority, conversation)
    newest = (
        Run.objects.filter(conversation=conversation)
        .select_related("language_model")
        .order_by("-id")
        .first()
    )
    active = newest if newest is not None and newest.state not in Run.ENDED else None
    path = _path(conversation)
    answered = bool(newest) and any(message.pk == newest.answer_id for message in path)  # type: ignore[union-attr]
    return ConversationView(
        conversation=conversation,
        messages=tuple(_message_view(message, citations) for message in path),
        active_run=active,
        ended_run=newest if newest is not None and active is None and not answered else None,
        after=_before(active) if active else conversation.last_seq,
        may_change=relation.visible(authority, Conversation, Verb.CHANGE)
        .filter(pk=conversation.pk)
        .exists(),
    )


def _before(run: Run) -> int:
    """The number before the first event of a run."""
    first = next(
        journal.read_run(organization_id=run.organization_id, run_id=run.pk, kinds=("run_queued",)),
        None,
    )
    return 0 if first is None else first.seq - 1


def _path(conversation: Conversation) -> list[Message]:
    """The messages from the root to the head, oldest first."""
    by_id = {
        message.pk: message
        for message in Message.objects.filter(conversation=conversation).select_related(
            "run__language_model"
        )
    }
    path: list[Message] = []
    current = conversation.head_id
    while current is not None and current in by_id:
        path.append(by_id[current])
        current = path[-1].parent_id
    return path[::-1]


def _message_view(message: Message, citations: Citations) -> MessageView:
    if message.role == Message.Role.USER:
        return MessageView(
            id=message.pk,
            role=message.role,
            html=message_html(message.text),
            text=message.text,
            sources=(),
            withheld=False,
            run=None,
            created_at=message.created_at,
        )
    answer = answer_view(citations, text=message.text, run_id=message.run_id)
    return MessageView(
        id=message.pk,
        role=message.role,
        html=answer.html,
        text=answer.text,
        sources=answer.sources,
        withheld=answer.withheld,
        run=message.run,
        created_at=message.created_at,
    )


def read_events(
    authority: Authority, conversation_id: UUID | str, *, after: int, limit: int = journal.PAGE
) -> list[dict[str, Any]]:
    """The journal after number `after` as the caller may see it, at most `limit` events. Raises
    Missing.
    """
    conversation = get_conversation(authority, conversation_id)
    events = journal.read(
        organization_id=authority.organization_id,
        conversation_id=conversation.pk,
        after=after,
        limit=limit,
    )

    @cache
    def citations() -> Citations:
        return resolve(authority, conversation)

    @cache
    def covered(run_id: UUID) -> str | None:
        if not citations().hidden:
            return None
        text = journal.answer_text(organization_id=authority.organization_id, run_id=run_id)
        is_open = Run.objects.filter(pk=run_id).exclude(state__in=Run.ENDED).exists()
        return citations().cover(text, run_id=run_id, is_open=is_open)

    def cover(run_id: UUID, text: str) -> str:
        return citations().cover(text, run_id=run_id)

    projected = (project_event(event, covered=covered, cover=cover) for event in events)
    return [event for event in projected if event is not None]


def get_answer(
    authority: Authority, conversation: Conversation, run_id: UUID
) -> MessageView | None:
    """The answer of a run as the caller may see it now, or None when it has no text."""
    message = (
        Message.objects.filter(conversation=conversation, run_id=run_id)
        .select_related("run")
        .first()
    )
    return None if message is None else _message_view(message, resolve(authority, conversation))
