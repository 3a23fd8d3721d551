"""The audit in the admin: read-only, for auditors too; and the history that every admin page writes
to and shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db import models
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from audit.events import EVENTS
from audit.models import AuditEvent, AuditLink
from audit.record import record
from kaizen.kernel.admin import HistoryLine, ReadOnlyAdmin, site
from kaizen.kernel.models import exact_json

if TYPE_CHECKING:
    from accounts.authority import Authority


def _with_actor(events: models.QuerySet[AuditEvent]) -> models.QuerySet[Any]:
    person = get_user_model()._default_manager.filter(public_id=models.OuterRef("actor_id"))
    return events.annotate(actor_email=models.Subquery(person.values("email")[:1]))


class AuditHistory:
    """What `kernel.admin` writes to and reads from."""

    def record(
        self, authority: Authority, action: str, *, subject: object, data: Mapping[str, Any]
    ) -> None:
        """One change, in the current transaction."""
        record(authority, action, subject=subject, data=data)

    def list_lines(
        self, authority: Authority, *, subject: models.Model, limit: int
    ) -> Sequence[HistoryLine]:
        """The newest events about one object of the caller's organisation."""
        events = _with_actor(
            AuditEvent.objects.filter(
                organization_id=authority.organization_id,
                object_type=type(subject).__name__.lower(),
                object_id=str(subject.pk),
            )
        )
        return [
            HistoryLine(
                at=event.at,
                who=event.actor_email or event.channel,
                what=EVENTS.get(event.action, event.action),
                details=exact_json(event.data) if event.data else "",
            )
            for event in events.order_by("-at", "-id")[:limit]
        ]


site.history = AuditHistory()


class ActionFilter(admin.SimpleListFilter):
    """By action, from the catalogue: the same choices in every organisation."""

    title = _("action")
    parameter_name = "action"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in EVENTS]

    def queryset(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> Any:
        return queryset.filter(action=self.value()) if self.value() else queryset


class ChannelFilter(admin.SimpleListFilter):
    """By the way the act came in."""

    title = _("channel")
    parameter_name = "channel"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in ("session", "key", "run", "delegation", "system")]

    def queryset(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> Any:
        return queryset.filter(channel=self.value()) if self.value() else queryset


@admin.register(AuditEvent, site=site)
class AuditEventAdmin(ReadOnlyAdmin):
    """What happened. Values about persons stand beside and aren't shown."""

    group = "record"
    icon = "history"
    list_display = ("at", "action", "actor", "channel", "object_type", "object_id")
    list_filter = (ActionFilter, ChannelFilter)
    date_hierarchy = "at"
    ordering = ("-at", "-id")
    fields = (
        "at",
        "action",
        "actor",
        "channel",
        "run_id",
        "object_type",
        "object_id",
        "details",
        "personal_digest",
    )

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return _with_actor(super().get_queryset(request))

    @admin.display(description=_("who"))
    def actor(self, event: Any) -> str:
        """The person's e-mail, or how the act came in."""
        return str(event.actor_email or event.actor_id or event.channel)

    @admin.display(description=_("details"))
    def details(self, event: AuditEvent) -> str:
        """The event's data as it was hashed."""
        return exact_json(event.data)


@admin.register(AuditLink, site=site)
class AuditLinkAdmin(ReadOnlyAdmin):
    """The chain that seals the events."""

    public_id = "event_id"
    group = "record"
    icon = "link"
    list_display = ("seq", "event_id", "sealed_at", "hash")
    ordering = ("-seq",)
    fields = ("seq", "event_id", "previous", "hash", "sealed_at")
