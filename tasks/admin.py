"""Tasks in the admin: which run when, under whose consent, and how it went. Pausing is all an admin
can do to them.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db import models
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action

from kaizen.kernel.admin import OrganizationAdmin, ReadOnlyAdmin, authority_of, site
from tasks.models import Delegation, Occurrence, Task
from tasks.services import pause


@admin.register(Task, site=site)
class TaskAdmin(ReadOnlyAdmin):
    """Members' recurring work. The prompt is theirs and isn't shown."""

    group = "work"
    icon = "schedule"
    list_display = ("name", "owner", "agent", "cron", "time_zone", "state", "next_due_at")
    list_filter = ("state", "agent")
    list_select_related = ("owner", "agent")
    ordering = ("-id",)
    fields = ("name", "owner", "agent", "cron", "time_zone", "state", "next_due_at", "created_at")
    actions = ("pause_tasks",)

    def has_pause_permission(self, request: HttpRequest) -> bool:
        """Who may configure may stop unattended work."""
        return OrganizationAdmin._may_configure(self, request)

    @action(description=_("Pause"), permissions=["pause"])
    def pause_tasks(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Stop the selected tasks from starting; their owners can resume them."""
        for task in queryset.filter(state=Task.State.ACTIVE):
            pause(authority_of(request), task=task)
        messages.success(request, _("Paused."))


@admin.register(Delegation, site=site)
class DelegationAdmin(ReadOnlyAdmin):
    """Dated consents."""

    group = "work"
    icon = "verified_user"
    list_display = ("task", "user", "granted_at", "expires_at", "revoked_at")
    list_filter = ("task",)
    list_select_related = ("task", "user")
    ordering = ("-id",)
    fields = ("task", "user", "digest", "granted_at", "expires_at", "revoked_at")


@admin.register(Occurrence, site=site)
class OccurrenceAdmin(ReadOnlyAdmin):
    """Due times and what became of them."""

    group = "work"
    icon = "event_available"
    list_display = ("task", "due_at", "state", "reason", "finished_at")
    list_filter = ("state", "task")
    list_select_related = ("task",)
    date_hierarchy = "due_at"
    ordering = ("-id",)
    fields = (
        "task",
        "due_at",
        "state",
        "reason",
        "conversation_reference",
        "run_reference",
        "created_at",
        "finished_at",
    )

    @admin.display(description=_("conversation"))
    def conversation_reference(self, occurrence: Occurrence) -> str:
        """The conversation's id."""
        return str(occurrence.conversation_id or "")

    @admin.display(description=_("run"))
    def run_reference(self, occurrence: Occurrence) -> str:
        """The run's id."""
        return str(occurrence.run_id or "")
