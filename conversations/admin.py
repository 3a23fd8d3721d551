"""Conversations and runs in the admin: that they were, not what was said. Titles and messages are
content.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from conversations.models import Conversation, Run
from kaizen.kernel.admin import ReadOnlyAdmin, site


@admin.register(Conversation, site=site)
class ConversationAdmin(ReadOnlyAdmin):
    """Who talked with which agent, and when."""

    group = "work"
    icon = "chat"
    list_display = ("reference", "agent", "started_by", "created_at", "updated_at", "archived_at")
    list_filter = ("agent",)
    list_select_related = ("agent", "started_by")
    date_hierarchy = "created_at"
    ordering = ("-id",)
    fields = (
        "reference",
        "agent",
        "started_by",
        "project",
        "created_at",
        "updated_at",
        "archived_at",
    )

    @admin.display(description=_("conversation"), ordering="id")
    def reference(self, conversation: Conversation) -> str:
        """The id: its title says what it is about."""
        return str(conversation.id)

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return super().get_queryset(request).defer("title")

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> models.Model:
        """The conversation without its title, since pages show objects by their name."""
        conversation = super().get_object(request, object_id, from_field)
        conversation.title = ""  # type: ignore[attr-defined]
        return conversation


@admin.register(Run, site=site)
class RunAdmin(ReadOnlyAdmin):
    """Runs: state, attempt, time, error code."""

    group = "work"
    icon = "play_circle"
    list_display = (
        "id",
        "state",
        "salvaged",
        "trigger",
        "agent_version",
        "user",
        "error_code",
        "created_at",
        "finished_at",
    )
    list_filter = ("state", "trigger", "salvaged")
    list_select_related = ("agent_version__agent", "user")
    date_hierarchy = "created_at"
    ordering = ("-id",)
    fields = (
        "id",
        "conversation_reference",
        "trigger",
        "user",
        "agent_version",
        "language_model",
        "state",
        "salvaged",
        "attempt",
        "error_code",
        "created_at",
        "started_at",
        "finished_at",
    )

    @admin.display(description=_("conversation"))
    def conversation_reference(self, run: Run) -> str:
        """The conversation's id."""
        return str(run.conversation_id)
