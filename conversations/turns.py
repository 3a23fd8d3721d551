"""The life of a run: start, stop, retry. Called alike by the websocket, the API, tasks and the
bridge. How it ends is in `endings`, and named here too, since this is where other rooms look.

Locks are taken in one order: the run, then the conversation (through the journal).
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from accounts import relation
from accounts.authority import Authority
from accounts.models import User
from accounts.permissions import Origin, Verb, store_grant
from accounts.services import remember
from agents.models import Agent
from agents.queries import get_usable_agent, resolve_language_model
from audit.record import record
from conversations import journal, leases
from conversations.endings import finish_locked, lose, requeue
from conversations.models import Conversation, Message, Run
from kaizen.kernel.api import request_digest
from kaizen.kernel.bells import ring_on_commit
from kaizen.kernel.errors import Conflict, Invalid, TooLarge
from kaizen.kernel.models import uuid7
from kaizen.kernel.text import is_blank, make_storable

__all__ = [
    "Turn",
    "cancel",
    "find_organization",
    "finish_locked",
    "get_run",
    "lose",
    "new_key",
    "requeue",
    "retry",
    "run_topic",
    "start",
    "stop",
]

MAX_MESSAGE = 100_000
TITLE_LENGTH = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a start returns; `replayed` when the key had been used for the very same request."""

    conversation: Conversation
    run: Run
    message: Message
    replayed: bool


def run_topic(run_id: UUID) -> str:
    """The bell that tells the process holding a run to stop it."""
    return f"run:{run_id}"


@transaction.atomic
def start(
    authority: Authority,
    *,
    text: str,
    key: str,
    agent: Agent | None = None,
    conversation: Conversation | None = None,
    trigger: Run.Trigger = Run.Trigger.CHAT,
    title: str = "",
) -> Turn:
    """Say something to an agent: a new conversation with `agent`, or the next turn of
    `conversation`.

    Args:
        text: what is said; NUL and lone surrogates are replaced. At most 100,000 characters.
        key: idempotency key; the same key and request is the same turn, whenever and over whatever
        it comes.

    Raises:
        Invalid, TooLarge: the text. Missing, Denied: rights. Conflict: a run is going on, the
        agent can't be used, or the key was used for another request.
    """
    text = _clean(text)
    identity = {
        "text": text,
        "agent": None if agent is None else str(agent.pk),
        "conversation": None if conversation is None else str(conversation.pk),
    }

    def make() -> UUID:
        return _start(
            authority,
            text=text,
            agent=agent,
            conversation=conversation,
            trigger=trigger,
            title=title,
        )

    run_id, replayed = remember(
        authority, route="turns", key=key, digest=request_digest(identity), make=make
    )
    run = Run.objects.select_related("conversation", "question").get(
        organization_id=authority.organization_id, pk=run_id
    )
    return Turn(conversation=run.conversation, run=run, message=run.question, replayed=replayed)


def _start(
    authority: Authority,
    *,
    text: str,
    agent: Agent | None,
    conversation: Conversation | None,
    trigger: Run.Trigger,
    title: str,
) -> UUID:
    if conversation is None:
        if agent is None:
            raise Invalid("Choose an agent to talk to.")
        agent = get_usable_agent(authority, agent.pk)
        conversation = _create_conversation(
            authority, agent=agent, title=title or _title_from(text)
        )
    else:
        conversation = relation.get(authority, Conversation, conversation.pk, Verb.CHANGE)
        if conversation.archived_at is not None:
            raise Conflict("This conversation is archived.")
        agent = get_usable_agent(authority, conversation.agent_id)
    # Locks the conversation, so that two tabs can't start two runs.
    conversation = Conversation.objects.select_for_update().get(pk=conversation.pk)
    if Run.objects.filter(conversation=conversation).exclude(state__in=Run.ENDED).exists():
        raise Conflict(
            "An answer is still being written here. Wait for it, or stop it.", code="busy"
        )
    message = Message.objects.create(
        organization_id=authority.organization_id,
        conversation=conversation,
        parent_id=conversation.head_id,
        role=Message.Role.USER,
        author_id=authority.user_id,
        text=text,
    )
    Conversation.objects.filter(pk=conversation.pk).update(head=message)
    journal.append(
        organization_id=authority.organization_id,
        conversation_id=conversation.pk,
        kind="user_message",
        data={"message": str(message.pk), "text": text, "author": str(authority.actor_id)},
    )
    return _queue(
        authority, conversation=conversation, agent=agent, question=message, trigger=trigger
    ).pk


def _queue(
    authority: Authority,
    *,
    conversation: Conversation,
    agent: Agent,
    question: Message,
    trigger: Run.Trigger,
    parent: Run | None = None,
) -> Run:
    version = agent.current_version
    if version is None:
        raise Conflict("This agent can't be used any more. Choose another one.")
    run = Run.objects.create(
        organization_id=authority.organization_id,
        conversation=conversation,
        parent=parent,
        trigger=trigger,
        user_id=authority.user_id,
        agent_version=version,
        language_model=resolve_language_model(version),
        question=question,
    )
    journal.append(
        organization_id=authority.organization_id,
        conversation_id=conversation.pk,
        kind="run_queued",
        data={"run": str(run.pk), "message": str(run.answer_id), "question": str(question.pk)},
        run_id=run.pk,
    )
    record(
        authority,
        "conversations.turn_started",
        subject=run,
        data={
            "conversation": str(conversation.pk),
            "agent_version": str(version.pk),
            "trigger": trigger,
        },
    )
    ring_on_commit(leases.RUNS_TOPIC)
    return run


def _create_conversation(authority: Authority, *, agent: Agent, title: str) -> Conversation:
    conversation = Conversation.objects.create(
        organization_id=authority.organization_id,
        agent=agent,
        started_by_id=authority.user_id,
        title=title,
    )
    user = User.objects.get(pk=authority.user_id)
    store_grant(
        user, Verb.MANAGE, conversation, granted_by_id=authority.user_id, origin=Origin.SHARE
    )
    record(authority, "conversations.created", subject=conversation, data={"agent": str(agent.pk)})
    return conversation


@transaction.atomic
def stop(authority: Authority, *, run_id: UUID | str) -> Run:
    """Ask a run to stop. The provider's stream is closed at once; what came so far is kept.

    Raises Missing or Denied without the right to change the conversation. A run that ended, or is
    being stopped already, stays as it is.
    """
    run = get_run(authority, run_id, Verb.CHANGE)
    run = Run.objects.select_for_update().get(pk=run.pk)
    if run.state in Run.ENDED or run.stop_requested_at is not None:
        return run
    record(authority, "conversations.turn_stopped", subject=run)
    journal.append(
        organization_id=run.organization_id,
        conversation_id=run.conversation_id,
        kind="stop_requested",
        data={"run": str(run.pk)},
        run_id=run.pk,
    )
    _stop_locked(run, code="stopped", message="")
    return run


@transaction.atomic
def cancel(run_id: UUID, *, code: str, message: str) -> None:
    """Stop a run on the platform's own account, for a reason its owner is told."""
    run = Run.objects.select_for_update().filter(pk=run_id).first()
    if run is not None and run.state not in Run.ENDED:
        _stop_locked(run, code=code, message=message)


def _stop_locked(run: Run, *, code: str, message: str) -> None:
    Run.objects.filter(pk=run.pk).update(
        stop_requested_at=Now(), error_code=code, error_message=message
    )
    run.error_code, run.error_message = code, message
    if run.state == Run.State.RUNNING:
        ring_on_commit(run_topic(run.pk), {"stop": True})
    else:
        finish_locked(run, state=Run.State.CANCELLED, code=code, message=message)


@transaction.atomic
def retry(authority: Authority, *, run_id: UUID | str, key: str) -> Turn:
    """Run the same question again after a run that failed or was stopped.

    Raises Missing, Denied, or Conflict when the run succeeded, isn't the newest, or another one is
    going on.
    """
    run = get_run(authority, run_id, Verb.CHANGE)

    def make() -> UUID:
        conversation = Conversation.objects.select_for_update().get(pk=run.conversation_id)
        newest = Run.objects.filter(conversation=conversation).order_by("-id").first()
        if (
            newest is None
            or newest.pk != run.pk
            or newest.state not in (Run.State.FAILED, Run.State.CANCELLED)
        ):
            raise Conflict("Only the newest answer can be tried again, and only if it broke off.")
        agent = get_usable_agent(authority, conversation.agent_id)
        return _queue(
            authority,
            conversation=conversation,
            agent=agent,
            question=run.question,
            trigger=Run.Trigger(run.trigger),
            parent=run,
        ).pk

    new_id, replayed = remember(
        authority,
        route="turns.retry",
        key=key,
        digest=request_digest({"run": str(run.pk)}),
        make=make,
    )
    new = Run.objects.select_related("conversation", "question").get(
        organization_id=authority.organization_id, pk=new_id
    )
    return Turn(conversation=new.conversation, run=new, message=new.question, replayed=replayed)


def get_run(authority: Authority, run_id: UUID | str, verb: Verb = Verb.VIEW) -> Run:
    """A run in a conversation on which the caller holds `verb`. Raises Missing, Denied."""
    runs = Run.objects.select_related("conversation", "question")
    return relation.get_from(
        runs.filter(conversation__in=relation.visible(authority, Conversation, verb)),
        runs.filter(conversation__in=relation.visible(authority, Conversation)),
        run_id,
    )


def find_organization(run_id: UUID) -> UUID | None:
    """The organisation of a run, or None; for frames that hold no valid lease."""
    return Run.objects.filter(pk=run_id).values_list("organization_id", flat=True).first()


def _clean(text: str) -> str:
    text = make_storable(text).text.strip()
    if is_blank(text):
        raise Invalid("Write something first.")
    if len(text) > MAX_MESSAGE:
        raise TooLarge(f"A message has at most {MAX_MESSAGE} characters; this one has {len(text)}.")
    return text


def _title_from(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= TITLE_LENGTH else f"{line[: TITLE_LENGTH - 1]}…"


def new_key() -> str:
    """An idempotency key for a request that came without one."""
    return uuid7().hex
