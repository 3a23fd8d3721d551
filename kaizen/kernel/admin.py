"""The bases of every page in the admin: inside one organisation, as the role allows, each change
audited.

Promises: rows, choices, autocomplete, filters, actions, history and delete pages show the caller's
organisation only; an id that is wrong, foreign or unknown gets the same answer. Rules stay in the
apps' services.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from django.contrib import messages
from django.contrib.admin import ShowFacets, helpers
from django.contrib.admin.utils import NestedObjects, unquote
from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.admin import ModelAdmin, TabularInline
from unfold.decorators import action

from kaizen.kernel.admin_scope import (
    OrganizationForm,
    PublicChangeList,
    PublicRow,
    ScopedFields,
    allowed_lookups,
    scoped,
    scoped_filters,
)
from kaizen.kernel.admin_sections import Section, SectionFormSet
from kaizen.kernel.admin_site import (
    AUDIT,
    CONFIGURE,
    PEOPLE,
    History,
    HistoryLine,
    OrganizationAdminSite,
    authority_of,
    navigation,
    site,
)
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Conflict, Denied, Invalid, Missing
from kaizen.kernel.text import make_storable

if TYPE_CHECKING:
    from accounts.authority import Capability

__all__ = [
    "AUDIT",
    "CONFIGURE",
    "PEOPLE",
    "ArchivableAdmin",
    "History",
    "HistoryLine",
    "OrganizationAdmin",
    "OrganizationAdminSite",
    "OrganizationInline",
    "ReadOnlyAdmin",
    "Section",
    "SectionFormSet",
    "authority_of",
    "navigation",
    "scoped",
    "site",
]

LONGEST_HISTORY = 200


class OrganizationAdmin(ScopedFields, ModelAdmin):
    """Base of every registered admin.

    Class attributes:
        capability: what the caller's role must allow.
        addable, changeable, deletable: which pages there are at all.
        auditors_read: whether the right to audit opens the pages for reading.
        public_id: the field that stands in addresses.
        group, icon: the place in the sidebar.
        sections: plain formsets within the change form (grants, team members).
    """

    capability: ClassVar[Capability] = CONFIGURE
    addable: ClassVar[bool] = True
    changeable: ClassVar[bool] = True
    deletable: ClassVar[bool] = False
    auditors_read: ClassVar[bool] = False
    public_id: ClassVar[str] = "id"
    group: ClassVar[str] = "more"
    icon: ClassVar[str] = "draft"
    sections: ClassVar[Sequence[type[Section]]] = ()

    form = OrganizationForm
    list_per_page = 50
    list_max_show_all = 100
    show_full_result_count = False
    show_facets = ShowFacets.NEVER
    change_form_after_template = "admin/form_sections.html"
    object_history_template = "admin/audit_history.html"

    # --- which rows

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        rows = scoped(authority_of(request), self.model)
        ordering = self.get_ordering(request)
        return rows.order_by(*ordering) if ordering else rows

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> models.Model:
        """The object by its public id. Raises Missing for a wrong, foreign or unknown one alike."""
        found: models.Model | None = super().get_object(
            request, make_storable(object_id).text, from_field or self.public_id
        )
        if found is None:
            raise Missing
        return found

    def get_list_filter(self, request: HttpRequest) -> list[Any]:
        return scoped_filters(self.model, self.list_filter)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        return lookup in allowed_lookups(self.list_filter, self.date_hierarchy)

    def to_field_allowed(self, request: HttpRequest, to_field: str) -> bool:
        return to_field == self.public_id

    def get_search_results(
        self, request: HttpRequest, queryset: models.QuerySet[Any], search_term: str
    ) -> tuple[models.QuerySet[Any], bool]:
        return super().get_search_results(request, queryset, make_storable(search_term).text)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[PublicChangeList]:
        return PublicChangeList

    # --- who may

    def _may_configure(self, request: HttpRequest) -> bool:
        return authority_of(request).may(self.capability)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may_configure(request) or (
            self.auditors_read and authority_of(request).may(AUDIT)
        )

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.addable and self._may_configure(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.changeable and self._may_configure(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.deletable and self._may_configure(request)

    # --- forms

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> type[OrganizationForm]:
        form = super().get_form(request, obj, change=change, **kwargs)
        organization_id = authority_of(request).organization_id
        return type(form.__name__, (form,), {"organization_id": organization_id})

    def _create_formsets(
        self, request: HttpRequest, obj: Any = None, change: bool = False
    ) -> tuple[list[Any], list[Any]]:
        formsets, inlines = super()._create_formsets(request, obj, change)
        parts: list[SectionFormSet] = []
        if self.has_change_permission(request, obj if change else None):
            parts = [section.build(request, obj if change else None) for section in self.sections]
        request.form_sections = parts  # type: ignore[attr-defined]
        return [*formsets, *parts], inlines

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        if context.get("original") is not None:
            context["original"] = PublicRow(context["original"], self.public_id)
        return super().render_change_form(request, context, *args, **kwargs)

    def render_delete_form(self, request: HttpRequest, context: dict[str, Any]) -> Any:
        context["object"] = PublicRow(context["object"], self.public_id)
        return super().render_delete_form(request, context)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Django's form; a refusal from our services becomes a message on the same page."""
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except (Denied, Invalid, Conflict) as error:
            if request.method != "POST":
                raise
            messages.error(request, error.message)
            return HttpResponseRedirect(request.get_full_path())

    # --- saving, audited

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Insert the object, or write just the changed columns, so that a job's own are never
        overwritten.
        """
        if not change:
            obj.save()
            return
        columns = {field.name for field in obj._meta.concrete_fields}
        changed = [name for name in form.changed_data if name in columns]
        if changed:
            obj.save(update_fields=changed)

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        if isinstance(formset, SectionFormSet):
            formset.save(request, form.instance)
            return
        super().save_formset(request, form, formset, change)

    def construct_change_message(
        self, request: HttpRequest, form: Any, formsets: Any, add: bool = False
    ) -> dict[str, Any]:
        """The names of what changed, never a value."""
        message: dict[str, Any] = {"fields": sorted(form.changed_data)}
        for formset in formsets:
            if not isinstance(formset, SectionFormSet) and formset.has_changed():
                message.setdefault("related", []).append(formset.model._meta.model_name)
        return message

    def log_addition(self, request: HttpRequest, obj: models.Model, message: Any) -> None:
        self.record(request, "admin.added", obj, message)

    def log_change(self, request: HttpRequest, obj: models.Model, message: Any) -> None:
        if message["fields"] or "related" in message:
            self.record(request, "admin.changed", obj, message)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> None:
        for obj in queryset:
            self.record(request, "admin.deleted", obj, {})

    def record(
        self, request: HttpRequest, name: str, obj: models.Model, data: dict[str, Any]
    ) -> None:
        """Write a change down. Raises when no history is installed: no record, no change."""
        if site.history is None:
            raise RuntimeError("the audit isn't installed")
        site.history.record(authority_of(request), name, subject=obj, data=data)

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        """What the audit holds about one object."""
        if not self.has_view_permission(request):
            raise Denied
        obj = self.get_object(request, unquote(object_id))
        lines: Sequence[HistoryLine] = ()
        if site.history is not None:
            lines = site.history.list_lines(
                authority_of(request), subject=obj, limit=LONGEST_HISTORY
            )
        context = {
            **self.admin_site.each_context(request),
            "title": _("History: %s") % obj,
            "lines": lines,
            "object": PublicRow(obj, self.public_id),
            "opts": self.opts,
        }
        return TemplateResponse(request, self.object_history_template, context)

    # --- deleting and actions

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """What would go with `objs`, as counts by kind: names of other objects may be content."""
        objects = list(objs)
        collector = NestedObjects(using="default", origin=objects)
        collector.collect(objects)
        counts = {
            str(model._meta.verbose_name_plural): len(rows)
            for model, rows in cast("dict[type[models.Model], Any]", collector.model_objs).items()
        }
        in_use: dict[str, int] = {}
        for row in collector.protected:
            kind = str(row._meta.verbose_name_plural)
            in_use[kind] = in_use.get(kind, 0) + 1
        protected = [f"{kind}: {count}" for kind, count in in_use.items()]
        return [str(obj) for obj in objects], counts, set(), protected

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        actions: dict[str, Any] = super().get_actions(request)
        actions.pop("delete_selected", None)
        return actions

    def response_action(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> Any:
        """Run an action on the posted ids that are ids; a refusal undoes it all and is shown."""
        posted = request.POST.copy()
        posted.setlist(
            helpers.ACTION_CHECKBOX_NAME,
            [text for text in posted.getlist(helpers.ACTION_CHECKBOX_NAME) if self._is_id(text)],
        )
        request.POST = posted  # type: ignore[assignment]
        try:
            with transaction.atomic():
                return super().response_action(request, queryset)
        except Missing:
            messages.error(
                request,
                _("This needs a grant on the object. Give yourself one first; that is recorded."),
            )
        except (Denied, Invalid, Conflict) as error:
            messages.error(request, error.message)
        return HttpResponseRedirect(request.get_full_path())

    def _is_id(self, text: str) -> bool:
        try:
            self.opts.pk.to_python(text)
        except ValidationError:
            return False
        return True


class ReadOnlyAdmin(OrganizationAdmin):
    """Pages to look at; auditors too."""

    addable: ClassVar[bool] = False
    changeable: ClassVar[bool] = False
    auditors_read: ClassVar[bool] = True


class ArchivableAdmin(OrganizationAdmin):
    """For what others point to: it is archived, never deleted."""

    actions: ClassVar[Sequence[str | Callable[..., Any]]] = ["archive", "restore"]

    @action(description=gettext_lazy("Archive"), permissions=["change"])
    def archive(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Put the selected objects away: kept, and out of use."""
        self._set_archived(request, queryset.filter(archived_at=None), now())

    @action(description=gettext_lazy("Take out of the archive"), permissions=["change"])
    def restore(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Bring the selected objects back."""
        self._set_archived(request, queryset.exclude(archived_at=None), None)

    def _set_archived(
        self, request: HttpRequest, queryset: models.QuerySet[Any], value: Any
    ) -> None:
        for obj in queryset:
            obj.archived_at = value
            obj.save(update_fields=["archived_at"])
            self.record(request, "admin.changed", obj, {"fields": ["archived_at"]})


class OrganizationInline(ScopedFields, TabularInline):
    """Rows of a child model within its parent's form, under the parent's permission."""

    capability: ClassVar[Capability] = CONFIGURE
    form = OrganizationForm
    extra = 0

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return scoped(authority_of(request), self.model)

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        organization_id = authority_of(request).organization_id
        kwargs["form"] = type("InlineForm", (self.form,), {"organization_id": organization_id})
        return super().get_formset(request, obj, **kwargs)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return authority_of(request).may(self.capability)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_view_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_view_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_view_permission(request)
