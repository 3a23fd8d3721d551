"""The admin of knowledge: sources with their grants, documents with their state. Content is not
shown here.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db import models
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action

from accounts.grant_section import GrantSection
from kaizen.kernel.admin import ArchivableAdmin, OrganizationAdmin, authority_of, site

# Pages of the rooms join the site by being imported.
from retrieval.access import admin as access_admin  # noqa: F401
from retrieval.connectors import admin as connection_admin  # noqa: F401
from retrieval.documents import delete_document, retry_document, set_acl_state
from retrieval.live import admin as live_admin  # noqa: F401
from retrieval.models import Document, Source
from retrieval.quality import bench_admin as bench_admin
from retrieval.sources import archive_source, create_source
from retrieval.spaces import admin as space_admin  # noqa: F401


@admin.register(Source, site=site)
class SourceAdmin(ArchivableAdmin):
    """Collections of documents, usually granted as one."""

    group = "knowledge"
    icon = "library_books"
    sections = (GrantSection,)
    list_display = ("name", "project", "passage_count", "archived_at", "created_at")
    list_filter = ("project",)
    list_select_related = ("project",)
    search_fields = ("name",)
    ordering = ("name",)
    fields = ("name", "description", "project", "passage_count")
    readonly_fields = ("passage_count",)
    autocomplete_fields = ("project",)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        source = create_source(
            authority_of(request),
            name=obj.name,
            description=obj.description,
            project=obj.project,
        )
        obj.__dict__.update(source.__dict__)

    @action(description=_("Archive"), permissions=["change"])
    def archive(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Put the selected sources away: out of search at once, their documents kept."""
        for source in queryset.filter(archived_at=None):
            archive_source(authority_of(request), source=source)

    def log_addition(self, request: HttpRequest, obj: models.Model, message: Any) -> None:
        """The service wrote it down."""


@admin.register(Document, site=site)
class DocumentAdmin(OrganizationAdmin):
    """Documents: where they come from, how reading them went, who may see them."""

    addable = False
    group = "knowledge"
    icon = "description"
    sections = (GrantSection,)
    list_display = ("title", "source", "state", "state_message", "acl_state", "updated_at")
    list_filter = ("state", "acl_state", "source")
    list_select_related = ("source",)
    search_fields = ("title", "file_name")
    ordering = ("-updated_at", "-id")
    fields = readonly_fields = (
        "title",
        "source",
        "file_name",
        "path",
        "media_type",
        "language",
        "state",
        "state_code",
        "state_message",
        "state_at",
        "acl_state",
        "passage_count",
        "created_at",
        "updated_at",
    )
    actions = ("retry", "inherit", "restrict", "hide", "delete")

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return super().get_queryset(request).filter(deleted_at=None).select_related("source")

    @action(description=_("Read again"), permissions=["change"])
    def retry(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Try to read the selected documents again."""
        for document in queryset:
            retry_document(authority_of(request), document=document)
        messages.success(request, _("Reading again."))

    @action(description=_("Visible as their source is"), permissions=["change"])
    def inherit(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Follow the source's grants."""
        self._set_acl_state(request, queryset, Document.AclState.INHERIT)

    @action(description=_("Visible only by their own grants"), permissions=["change"])
    def restrict(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Follow only the documents' own grants."""
        self._set_acl_state(request, queryset, Document.AclState.RESTRICTED)

    @action(description=_("Visible to nobody"), permissions=["change"])
    def hide(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Hide until somebody decides."""
        self._set_acl_state(request, queryset, Document.AclState.UNKNOWN)

    @action(description=_("Delete: gone from search at once"), permissions=["change"])
    def delete(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Delete the selected documents."""
        for document in queryset:
            delete_document(authority_of(request), document=document)
        messages.success(request, _("Deleted."))

    def _set_acl_state(
        self, request: HttpRequest, queryset: models.QuerySet[Any], state: Document.AclState
    ) -> None:
        for document in queryset:
            set_acl_state(authority_of(request), document=document, state=state)
        messages.success(request, _("Changed."))
