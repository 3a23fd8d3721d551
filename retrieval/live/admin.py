"""The admin of live sources: an address, who may read it, and with which of its tools.

Every change goes through `retrieval.live.sources`. Members' accounts aren't here: a token is
between a member and the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.db import models
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from accounts.grant_section import GrantSection
from kaizen.kernel.admin import OrganizationAdmin, authority_of, site
from kaizen.kernel.admin_scope import OrganizationForm
from kaizen.kernel.errors import KaizenError
from kaizen.kernel.text import make_storable
from retrieval.live.address import check_live_address
from retrieval.live.sources import allow_tools, ask_for_tools, create_live_source
from retrieval.models import LiveSource, LiveTool, Source


class NewLiveSourceForm(OrganizationForm):
    """A server to connect: its source comes into being with it."""

    name = forms.CharField(
        label=gettext_lazy("Name"), max_length=120, widget=UnfoldAdminTextInputWidget
    )
    description = forms.CharField(
        label=gettext_lazy("What it holds"),
        required=False,
        max_length=4_000,
        widget=UnfoldAdminTextareaWidget,
    )
    address = forms.CharField(
        label=gettext_lazy("Address"),
        max_length=2_000,
        help_text=gettext_lazy(
            "Of a server that speaks the Model Context Protocol over HTTP. It can't be changed "
            "later, since members' tokens are sent there."
        ),
        widget=UnfoldAdminTextInputWidget(attrs={"placeholder": "https://"}),
    )

    class Meta:
        model = LiveSource
        fields: ClassVar[list[str]] = []

    def clean_name(self) -> str:
        """A name no source of the organisation has."""
        name = " ".join(make_storable(self.cleaned_data["name"]).text.split())
        taken = Source.objects.filter(organization_id=self.organization_id, name=name)
        if taken.exists():
            raise forms.ValidationError(_("A source with this name already exists."))
        return name

    def clean_address(self) -> str:
        """An address that tokens may be sent to and Kaizen may connect to."""
        address: str = self.cleaned_data["address"]
        try:
            return check_live_address(address).url
        except KaizenError as error:
            raise forms.ValidationError(error.message) from None


class LiveSourceForm(OrganizationForm):
    """Which tools agents may read with, and whether to ask the server for them once more."""

    reading = forms.MultipleChoiceField(
        label=gettext_lazy("Tools that only read, as the server says"),
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=gettext_lazy("Tick those that agents may use. It is the server's word alone."),
    )
    vouched = forms.MultipleChoiceField(
        label=gettext_lazy("Tools of which the server doesn't say that"),
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=gettext_lazy(
            "Tick one only if you know that it changes nothing: agents call it without asking "
            "anybody. That you vouched for it is recorded."
        ),
    )
    ask = forms.BooleanField(
        label=gettext_lazy("Ask the server for its tools when saving"),
        required=False,
        help_text=gettext_lazy(
            "Under your own account there, if you connected one. A tool that is declared "
            "otherwise than before has to be ticked again."
        ),
        widget=UnfoldBooleanSwitchWidget,
    )

    class Meta:
        model = LiveSource
        fields: ClassVar[list[str]] = []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        tools = list(self.instance.tools.order_by("name")) if self.instance.pk else []
        for name, read_only in (("reading", True), ("vouched", False)):
            field: Any = self.fields[name]
            shown = [tool for tool in tools if tool.read_only is read_only]
            field.choices = [(tool.name, _words(tool)) for tool in shown]
            field.initial = [tool.name for tool in shown if tool.allowed]
        if not tools:
            self.fields["ask"].initial = True

    @property
    def allowed(self) -> list[str]:
        """The ticked tools of both lists."""
        return [*self.cleaned_data["reading"], *self.cleaned_data["vouched"]]


class SourceGrantSection(GrantSection):
    """The grants on the source that a live source belongs to."""

    title = gettext_lazy("Who may read it")
    intro = gettext_lazy(
        "Each of them still needs an account of their own there: they connect it under Sources, "
        "Connected accounts."
    )

    @classmethod
    def list_rows(cls, request: HttpRequest, obj: Any) -> list[dict[str, Any]]:
        return super().list_rows(request, obj.source)

    @classmethod
    def apply(cls, request: HttpRequest, obj: Any, values: dict[str, Any]) -> None:
        super().apply(request, obj.source, values)


class LiveSourceAdmin(OrganizationAdmin):
    """Systems outside that are asked at the moment of a question."""

    group = "knowledge"
    icon = "bolt"
    sections = (SourceGrantSection,)
    form = LiveSourceForm
    list_display: ClassVar[Sequence[str]] = ("source", "url", "tools_allowed", "asked_at")
    list_select_related = ("source",)
    search_fields = ("source__name",)
    ordering = ("source__name", "id")

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        rows = super().get_queryset(request).select_related("source")
        allowed = models.Count("tools", filter=models.Q(tools__allowed=True))
        return rows.annotate(tool_count=allowed)

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        kwargs["form"] = LiveSourceForm if change else NewLiveSourceForm
        return super().get_form(request, obj, change=change, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return [(None, {"fields": ["name", "description", "address"]})]
        return [
            (None, {"fields": ["source", "url", "protocol", "asked_at"]}),
            (_("What agents may read with"), {"fields": ["reading", "vouched", "ask"]}),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[str]:
        return () if obj is None else ("source", "url", "protocol", "asked_at")

    def tools_allowed(self, live: Any) -> int:
        """How many tools agents may use."""
        count: int = live.tool_count
        return count

    tools_allowed.short_description = gettext_lazy("tools allowed")  # type: ignore[attr-defined]

    # --- saving: the services write down what they do

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        authority = authority_of(request)
        if not change:
            live = create_live_source(
                authority,
                name=form.cleaned_data["name"],
                description=form.cleaned_data["description"],
                url=form.cleaned_data["address"],
            )
            obj.__dict__.update(live.__dict__)
            return
        if {"reading", "vouched"} & set(form.changed_data):
            allow_tools(authority, live=obj, names=form.allowed)
        if form.cleaned_data["ask"]:
            self._ask(request, obj)

    def _ask(self, request: HttpRequest, live: LiveSource) -> None:
        """Ask the server, and say what came of it; a failure undoes nothing else on the form."""
        try:
            tools = ask_for_tools(authority_of(request), live=live)
        except KaizenError as error:
            messages.error(request, error.message)
            return
        waiting = sum(1 for tool in tools if not tool.allowed)
        messages.success(
            request,
            _("The server offers %(all)s tools; %(waiting)s of them aren't allowed.")
            % {"all": len(tools), "waiting": waiting},
        )

    def log_addition(self, request: HttpRequest, obj: models.Model, message: Any) -> None:
        """The service wrote it down."""

    def log_change(self, request: HttpRequest, obj: models.Model, message: Any) -> None:
        """The service wrote it down."""


def _words(tool: LiveTool) -> Any:
    """A tool as a choice: its name, what it says of itself, and what it asks for."""
    asks = ", ".join(str(name) for name in (tool.schema.get("properties") or {}))[:200]
    told = [text for text in (tool.title, tool.description[:300], asks) if text]
    lines = format_html_join("", "<br>{}", ((text,) for text in told))
    return format_html("<strong>{}</strong>{}", tool.name, lines)


site.register(LiveSource, LiveSourceAdmin)
