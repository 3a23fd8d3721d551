"""The admin of connections: choose a connector, fill in its form, see how its syncs go.

Every change goes through `retrieval.connectors.connections`. Titles and texts of documents are not
shown; the names of items that couldn't be fetched are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from kaizen.kernel.admin import OrganizationAdmin, authority_of, site
from retrieval.connectors.catalog import Entry, find_entry, list_entries
from retrieval.connectors.connections import (
    allow_deletions,
    check_connection,
    create_connection,
    disconnect,
    pause,
    resume,
    sync_now,
    update_connection,
)
from retrieval.connectors.form import ConnectionForm, field_names, make_form
from retrieval.connectors.items import count_documents
from retrieval.models import Connection, Source, SyncItem, SyncRun

SHOWN_RUNS = 20
SHOWN_ITEMS = 20
MOST_CHECKS = 5


class ConnectionAdmin(OrganizationAdmin):
    """Where documents come from by themselves."""

    group = "knowledge"
    icon = "sync"
    deletable = True
    list_display: ClassVar[Sequence[str]] = (
        "source",
        "connector",
        "state",
        "last_success_at",
        "next_sync_at",
        "last_error",
    )
    list_filter = ("state",)
    list_select_related = ("source",)
    search_fields = ("source__name",)
    ordering = ("source__name", "id")
    autocomplete_fields = ("source",)
    change_form_outer_before_template = "admin/connection_health.html"
    actions: ClassVar[Sequence[str]] = (
        "try_out",
        "sync",
        "pause",
        "resume",
        "allow_deletions",
        "delete_with_documents",
    )

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return super().get_queryset(request).select_related("source")

    # --- the form

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """First the choice of a connector, then its form."""
        entry = self._chosen(request)
        if self.has_add_permission(request) and (entry is None or entry.connector is None):
            return self._choose(request, entry)
        title = {"title": _("Connect: %s") % entry.title} if entry is not None else {}
        return super().add_view(request, form_url, {**(extra_context or {}), **title})

    def _chosen(self, request: HttpRequest) -> Entry | None:
        return find_entry(request.GET.get("connector", ""))

    def _choose(self, request: HttpRequest, entry: Entry | None) -> HttpResponse:
        if entry is not None:
            messages.error(request, entry.problem)
        context = {
            **self.admin_site.each_context(request),
            "title": _("What should be connected?"),
            "entries": list_entries(),
            "opts": self.opts,
        }
        return TemplateResponse(request, "admin/connection_choice.html", context)

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        kwargs["form"] = self._form_class(request, obj)
        return super().get_form(request, obj, change=change, **kwargs)

    def _form_class(self, request: HttpRequest, obj: Connection | None) -> type[ConnectionForm]:
        """The connector's form; without it, only what every connection has."""
        entry = self._chosen(request) if obj is None else find_entry(obj.connector)
        if entry is None or entry.connector is None:
            return ConnectionForm
        return make_form(entry.connector.Config, obj)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        names = field_names(self._form_class(request, obj))
        timing = ["interval_minutes", "requests_a_minute"]
        return [
            (None, {"fields": ["source"]}),
            *([(_("What is read"), {"fields": names})] if names else []),
            (_("When"), {"fields": timing}),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[str]:
        return ("source",) if obj is not None else ()

    def choices_of(self, db_field: Any, request: HttpRequest) -> models.QuerySet[Any]:
        """Sources that nothing is connected to yet."""
        rows = super().choices_of(db_field, request)
        if db_field.related_model is not Source:
            return rows
        taken = Connection.objects.filter(organization_id=authority_of(request).organization_id)
        return rows.exclude(pk__in=taken.values("source_id"))

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        if kwargs.get("obj") is not None:
            context["health"] = _health(kwargs["obj"])
        return super().render_change_form(request, context, *args, **kwargs)

    # --- saving

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        timing = {
            "interval_minutes": obj.interval_minutes,
            "requests_a_minute": obj.requests_a_minute,
        }
        if change:
            saved = update_connection(
                authority_of(request), connection=obj, config=form.config, **timing
            )
        else:
            saved = create_connection(
                authority_of(request),
                source=obj.source,
                connector=request.GET.get("connector", ""),
                config=form.config,
                **timing,
            )
        obj.__dict__.update(saved.__dict__)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        disconnect(authority_of(request), connection=obj)

    def log_addition(self, request: HttpRequest, obj: models.Model, message: Any) -> None:
        """The service wrote it down."""

    def log_change(self, request: HttpRequest, obj: models.Model, message: Any) -> None:
        """The service wrote it down."""

    def log_deletions(self, request: HttpRequest, queryset: Any) -> None:
        """The service wrote it down."""

    # --- actions

    @admin.action(description=gettext_lazy("Check"), permissions=["change"])
    def try_out(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> HttpResponse | None:
        """Try to connect, and say what happened."""
        for connection in queryset[:MOST_CHECKS]:
            checked = check_connection(authority_of(request), connection=connection)
            level = messages.SUCCESS if checked.works else messages.ERROR
            messages.add_message(request, level, f"{connection}: {checked.message}")
        return _back(request)

    @admin.action(description=gettext_lazy("Sync now"), permissions=["change"])
    def sync(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> HttpResponse | None:
        """Sync as soon as a worker is free."""
        for connection in queryset:
            sync_now(authority_of(request), connection=connection)
        messages.success(request, _("A sync starts as soon as a worker is free."))
        return _back(request)

    @admin.action(description=gettext_lazy("Pause"), permissions=["change"])
    def pause(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> HttpResponse | None:
        """Stop syncing."""
        for connection in queryset:
            pause(authority_of(request), connection=connection)
        messages.success(request, _("Paused. Documents stay as they are."))
        return _back(request)

    @admin.action(description=gettext_lazy("Resume"), permissions=["change"])
    def resume(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> HttpResponse | None:
        """Go on syncing."""
        for connection in queryset:
            resume(authority_of(request), connection=connection)
        messages.success(request, _("It goes on."))
        return _back(request)

    @admin.action(description=gettext_lazy("Allow the deletions"), permissions=["change"])
    def allow_deletions(
        self, request: HttpRequest, queryset: models.QuerySet[Any]
    ) -> HttpResponse | None:
        """Let the next sync delete what it held back."""
        for connection in queryset:
            allow_deletions(authority_of(request), connection=connection)
        messages.success(request, _("The next sync deletes what is gone on the other side."))
        return _back(request)

    @admin.action(
        description=gettext_lazy("Disconnect and delete its documents"), permissions=["delete"]
    )
    def delete_with_documents(
        self, request: HttpRequest, queryset: models.QuerySet[Any]
    ) -> HttpResponse | None:
        """Ask once, then end the connection and delete what it brought in."""
        if request.POST.get("confirmed") != "yes":
            context = {
                **self.admin_site.each_context(request),
                "title": _("Disconnect and delete its documents"),
                "connections": queryset,
                "opts": self.opts,
            }
            return TemplateResponse(request, "admin/connection_removal.html", context)
        for connection in queryset:
            disconnect(authority_of(request), connection=connection, delete_documents=True)
        messages.success(request, _("Its documents are being deleted."))
        return None


def _back(request: HttpRequest) -> HttpResponse | None:
    """To the connection's own page, where the action was asked for there."""
    chosen = request.POST.getlist("_selected_action")
    if request.POST.get("from") == "page" and len(chosen) == 1:
        return HttpResponseRedirect(reverse("admin:retrieval_connection_change", args=chosen))
    return None


def _health(connection: Connection) -> dict[str, Any]:
    """How a connection is: what its page shows above the form."""
    failing = SyncItem.objects.filter(connection=connection, failures__gt=0)
    entry = find_entry(connection.connector)
    usable = entry is not None and entry.connector is not None
    missing = _("The connector “%s” isn't installed.") % connection.connector
    return {
        "connection": connection,
        "connector": entry.title if entry is not None else connection.connector,
        "problem": "" if usable else (entry.problem if entry is not None else missing),
        "is_paused": connection.state == Connection.State.PAUSED,
        "is_ending": connection.state == Connection.State.ENDING,
        "documents": count_documents(connection),
        "runs": SyncRun.objects.filter(connection=connection).order_by("-started_at", "-pk")[
            :SHOWN_RUNS
        ],
        "failing": failing.order_by("-failures", "external_id")[:SHOWN_ITEMS],
        "failing_count": failing.count(),
        "actions_url": reverse("admin:retrieval_connection_changelist"),
    }


site.register(Connection, ConnectionAdmin)
