"""One reading of a conversation for a member's open socket: everything is proven again each time.

Synchronous, in one transaction: session, place in the organisation, right to the conversation,
then the events.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.template.loader import render_to_string
from django.urls import set_script_prefix

from accounts.auth import user_of_session
from accounts.authority import Authority, from_user
from conversations.citations import Citations, resolve
from conversations.journal import answer_text
from conversations.models import Run
from conversations.projection import message_html
from conversations.queries import get_answer, get_conversation, read_events
from kaizen.kernel.errors import Unauthenticated
from kaizen.kernel.tenancy import scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Who watches what, as it came in with the handshake."""

    session_key: str
    slug: str
    conversation_id: UUID
    renders_html: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a watcher is shown next.

    Attributes:
        citations: of a run in progress, or None. begun: answer id -> its text up to where the
        watcher's own reading stopped. withholds: the run in progress has read what the watcher may
        not see, so that live text isn't for them.
    """

    events: list[dict[str, Any]]
    citations: Citations | None = None
    begun: dict[str, str] = field(default_factory=dict)
    withholds: bool = False


def authorize(watcher: Watcher) -> Authority:
    """Who the watcher is at this moment. Raises Unauthenticated when signed out, Missing when out
    of place.
    """
    user = user_of_session(watcher.session_key)
    if user is None:
        raise Unauthenticated
    return from_user(user, slug=watcher.slug)


def read(watcher: Watcher, *, after: int, first: bool) -> Reading:
    """The events after number `after`, rendered for the watcher.

    With `first`, also the text that a run in progress had written up to `after`.

    Raises Unauthenticated, Missing: the socket must be closed.
    """
    authority = authorize(watcher)
    set_script_prefix(f"/o/{watcher.slug}/")
    with scope(authority):
        conversation = get_conversation(authority, watcher.conversation_id)
        events = read_events(authority, watcher.conversation_id, after=after)
        begun: dict[str, str] = {}
        citations, withholds = None, False
        if first or events:
            active = (
                Run.objects.filter(conversation=conversation)
                .exclude(state__in=Run.ENDED)
                .order_by("-id")
                .first()
            )
            if active is not None:
                citations = resolve(authority, conversation)
                withholds = bool(citations.hidden_texts.get(active.pk))
                if first and after:
                    text = _text_until(active, after)
                    begun[str(active.answer_id)] = citations.cover(
                        text, run_id=active.pk, is_open=True
                    )
        if watcher.renders_html:
            for event in events:
                _render(authority, conversation, event)
    return Reading(events=events, citations=citations, begun=begun, withholds=withholds)


def _text_until(run: Run, after: int) -> str:
    return answer_text(organization_id=run.organization_id, run_id=run.pk, until=after)


def _render(authority: Authority, conversation: Any, event: dict[str, Any]) -> None:
    """Add to an event what a page shows of it."""
    data = event["data"]
    if event["kind"] == "user_message":
        data["html"] = message_html(data["text"])
    elif event["kind"] == "run_finished":
        answer = get_answer(authority, conversation, UUID(data["run"]))
        if answer is not None:
            data["html"] = answer.html
            data["withheld"] = answer.withheld
            data["sources_html"] = render_to_string(
                "conversations/_sources.html", {"sources": answer.sources, "message_id": answer.id}
            )
