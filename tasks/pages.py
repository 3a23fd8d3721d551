"""The tasks pages: list, form, one task with its due times, and the buttons on it."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID
from zoneinfo import available_timezones

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from accounts.authority import Authority
from accounts.permissions import Verb
from accounts.queries import get_organization
from agents.queries import list_usable_agents
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Denied, Invalid
from tasks import queries, services
from tasks.delegation import MOST_DAYS
from tasks.models import Task
from tasks.schedule import PRESETS

SHOWN = 100


def _authority(request: HttpRequest) -> Authority:
    authority: Authority = request.authority  # type: ignore[attr-defined]
    return authority


@require_GET
def tasks(request: HttpRequest) -> HttpResponse:
    """The tasks one may see; the newest hundred."""
    rows = queries.list_tasks(_authority(request))[:SHOWN]
    return render(request, "tasks/tasks.html", {"tasks": queries.view_tasks(rows)})


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """A new task."""
    authority = _authority(request)
    if request.method == "POST":
        return _save(request, task=None)
    values = {
        "name": "",
        "agent": request.GET.get("agent", ""),
        "prompt": "",
        "cron": PRESETS[3][0],
        "time_zone": _home_zone(request, authority),
        "days": str(MOST_DAYS),
    }
    return _form(request, values=values, errors={}, task=None)


@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, task_id: UUID) -> HttpResponse:
    """A task to change; only its owner can, since it works with their rights."""
    authority = _authority(request)
    task = queries.get_task(authority, task_id, Verb.CHANGE)
    if task.owner_id != authority.user_id:
        raise Denied("This task works with its owner's rights, so only its owner can change it.")
    if request.method == "POST":
        return _save(request, task=task)
    values = {
        "name": task.name,
        "agent": str(task.agent_id),
        "prompt": task.prompt,
        "cron": task.cron,
        "time_zone": task.time_zone,
        "days": str(MOST_DAYS),
    }
    return _form(request, values=values, errors={}, task=task)


@require_GET
def task(request: HttpRequest, task_id: UUID) -> HttpResponse:
    """One task: what it does, under whose consent, and how its newest hundred due times went."""
    authority = _authority(request)
    found = queries.get_task(authority, task_id)
    occurrences = queries.list_occurrences(authority, found)[:SHOWN]
    shown, consent = queries.view_task(found), queries.view_consent(found)
    context = {
        "task": shown,
        "delegation": consent if consent.granted_at else None,
        "refusal": consent.message,
        "occurrences": queries.view_occurrences(occurrences),
        "schedule_words": shown.schedule_words,
        "due_next": queries.list_next_due(found, now()),
        "most_days": MOST_DAYS,
        "may_change": found.owner_id == authority.user_id,
    }
    return render(request, "tasks/task.html", context)


@require_POST
def pause(request: HttpRequest, task_id: UUID) -> HttpResponse:
    """Let no further due time start."""
    services.pause(_authority(request), task=_get(request, task_id))
    return _back(request, task_id, _("Paused. What is running goes on; nothing new starts."))


@require_POST
def resume(request: HttpRequest, task_id: UUID) -> HttpResponse:
    """Go on from the next due time."""
    services.resume(_authority(request), task=_get(request, task_id))
    return _back(request, task_id, _("Active again from its next due time."))


@require_POST
def revoke(request: HttpRequest, task_id: UUID) -> HttpResponse:
    """End the consent."""
    services.revoke_consent(_authority(request), task=_get(request, task_id))
    return _back(request, task_id, _("Agreement withdrawn. Nothing runs until you agree again."))


@require_POST
def renew(request: HttpRequest, task_id: UUID) -> HttpResponse:
    """Agree again to the task as it is now."""
    services.renew_consent(
        _authority(request),
        task=_get(request, task_id),
        consent=_is_ticked(request.POST),
        days=_number(request.POST.get("days", str(MOST_DAYS))),
    )
    return _back(request, task_id, _("Agreed. The task runs at its due times."))


@require_POST
def archive(request: HttpRequest, task_id: UUID) -> HttpResponse:
    """Put the task away."""
    services.archive(_authority(request), task=_get(request, task_id))
    messages.success(request, _("Archived. Its results stay in your conversations."))
    return HttpResponseRedirect(reverse("tasks:tasks"))


def _get(request: HttpRequest, task_id: UUID) -> Task:
    return queries.get_task(_authority(request), task_id)


def _back(request: HttpRequest, task_id: UUID, said: str) -> HttpResponse:
    messages.success(request, said)
    return HttpResponseRedirect(reverse("tasks:task", args=[task_id]))


def _save(request: HttpRequest, *, task: Task | None) -> HttpResponse:
    sent = request.POST
    names = ("name", "agent", "prompt", "cron", "time_zone", "days")
    values = {name: sent.get(name, "") for name in names}
    if not values["agent"]:
        return _form(request, values=values, errors={"agent": _("Choose an agent.")}, task=task)
    try:
        saved = services.save_task(
            _authority(request),
            task=task,
            name=values["name"],
            agent_id=values["agent"],
            prompt=values["prompt"],
            cron=values["cron"],
            time_zone=values["time_zone"],
            consent=_is_ticked(sent),
            days=_number(values["days"]),
        )
    except Invalid as error:
        found: Mapping[str, list[str]] = error.data.get("errors", {"form": [error.message]})
        errors = {name: sentences[0] for name, sentences in found.items()}
        return _form(request, values=values, errors=errors, task=task)
    return _back(request, saved.pk, _("Saved. It runs at its due times with your rights."))


def _form(
    request: HttpRequest, *, values: dict[str, str], errors: Mapping[str, str], task: Task | None
) -> HttpResponse:
    context = {
        "values": values,
        "errors": errors,
        "agents": list(list_usable_agents(_authority(request))),
        "presets": PRESETS,
        "time_zones": sorted(available_timezones()),
        "most_days": MOST_DAYS,
        "task": None if task is None else queries.view_task(task),
    }
    return render(request, "tasks/task_form.html", context, status=400 if errors else 200)


def _is_ticked(sent: Mapping[str, str]) -> bool:
    return sent.get("consent") in ("on", "true", "1")


def _number(text: str) -> int:
    """`text` as a number; 0, which no field takes, when it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0


def _home_zone(request: HttpRequest, authority: Authority) -> str:
    person = request.user.time_zone if request.user.is_authenticated else ""
    return person or get_organization(authority).time_zone
