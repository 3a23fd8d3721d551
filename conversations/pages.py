"""Pages of the conversations app: parse, one call, reply."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.text import slugify
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from accounts.authority import Authority
from agents.queries import get_usable_agent, list_usable_agents
from audit.record import record
from conversations import services, turns
from conversations.export import as_markdown
from conversations.models import Conversation
from conversations.queries import list_conversations, view_conversation
from kaizen.kernel.errors import KaizenError, Missing

RAIL_PAGE = 40


def _authority(request: HttpRequest) -> Authority:
    authority: Authority = request.authority  # type: ignore[attr-defined]
    return authority


@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """An organisation's front door is a new conversation."""
    return redirect("conversations:new")


@require_http_methods(["GET", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """A new conversation: choose an agent, say something. On a refusal the text stays in the
    form.
    """
    authority = _authority(request)
    context: dict[str, Any] = {"conversation": None, "messages_view": (), "key": turns.new_key()}
    status = 200
    if request.method == "POST":
        text, agent_id = request.POST.get("text", ""), request.POST.get("agent", "")
        try:
            agent = get_usable_agent(authority, agent_id)
            turn = turns.start(
                authority, text=text, key=request.POST.get("key") or turns.new_key(), agent=agent
            )
        except KaizenError as error:
            context |= {"text": text, "agent_id": agent_id, "error": error.message}
            status = error.status
        else:
            return redirect("conversations:chat", turn.conversation.pk)
    agents = list(list_usable_agents(authority))
    return render(request, "conversations/chat.html", {**context, "agents": agents}, status=status)


@require_GET
def chat(request: HttpRequest, conversation_id: UUID) -> HttpResponse:
    """One conversation; a stream goes on from where the page ends."""
    authority = _authority(request)
    view = view_conversation(authority, conversation_id)
    record(authority, "conversations.read", subject=view.conversation)
    socket = f"/o/{authority.organization_slug}/ws/conversations/{conversation_id}/"
    return render(
        request,
        "conversations/chat.html",
        {
            "conversation": view.conversation,
            "agents": [view.conversation.agent],
            "messages_view": view.messages,
            "active_run": view.active_run,
            "ended_run": view.ended_run,
            "after_seq": view.after,
            "ws_path": socket,
            "may_change": view.may_change,
            "key": turns.new_key(),
        },
    )


@require_GET
def rail(request: HttpRequest) -> HttpResponse:
    """A page of the conversation list, grouped by day."""
    page = Paginator(list_conversations(_authority(request)), RAIL_PAGE).get_page(
        request.GET.get("page")
    )
    return render(
        request, "conversations/_rail.html", {"groups": _by_day(list(page)), "page": page}
    )


def _by_day(conversations: list[Conversation]) -> list[dict[str, Any]]:
    today = timezone.localdate()
    groups: list[dict[str, Any]] = []
    for conversation in conversations:
        day = timezone.localdate(conversation.updated_at)
        if day == today:
            label = _("Today")
        elif day == today - timedelta(days=1):
            label = _("Yesterday")
        else:
            label = f"{day:%-d %B %Y}"
        if not groups or groups[-1]["label"] != label:
            groups.append({"label": label, "conversations": []})
        groups[-1]["conversations"].append(conversation)
    return groups


@require_POST
def rename(request: HttpRequest, conversation_id: UUID) -> HttpResponse:
    """Give the conversation another title."""
    services.rename(
        _authority(request),
        conversation_id=str(conversation_id),
        title=request.POST.get("title", ""),
    )
    return redirect("conversations:chat", conversation_id)


@require_POST
def archive(request: HttpRequest, conversation_id: UUID) -> HttpResponse:
    """Put the conversation away."""
    services.archive(_authority(request), conversation_id=str(conversation_id))
    return redirect("conversations:new")


@require_GET
def export(request: HttpRequest, conversation_id: UUID) -> HttpResponse:
    """The conversation as a Markdown file, as its reader may see it now."""
    authority = _authority(request)
    view = view_conversation(authority, conversation_id)
    record(
        authority, "conversations.exported", subject=view.conversation, data={"format": "markdown"}
    )
    name = slugify(view.conversation.title)[:60] or "conversation"
    return HttpResponse(
        as_markdown(view),
        content_type="text/markdown; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.md"'},
    )


@require_POST
def stop(request: HttpRequest, conversation_id: UUID, run_id: UUID) -> HttpResponse:
    """Stop the answer, for pages without a script."""
    authority = _authority(request)
    _check_run(authority, conversation_id, run_id)
    turns.stop(authority, run_id=run_id)
    return HttpResponseRedirect(reverse("conversations:chat", args=[conversation_id]))


@require_POST
def retry(request: HttpRequest, conversation_id: UUID, run_id: UUID) -> HttpResponse:
    """Try a broken answer again."""
    authority = _authority(request)
    _check_run(authority, conversation_id, run_id)
    turns.retry(authority, run_id=run_id, key=request.POST.get("key") or turns.new_key())
    return HttpResponseRedirect(reverse("conversations:chat", args=[conversation_id]))


def _check_run(authority: Authority, conversation_id: UUID, run_id: UUID) -> None:
    """Raise Missing unless the run is one of this conversation, and visible."""
    if turns.get_run(authority, run_id).conversation_id != conversation_id:
        raise Missing
