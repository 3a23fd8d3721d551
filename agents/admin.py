"""The admin of agents: providers and their keys, models, prompts, agents; versions, calls and
spending to look at.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminURLInputWidget,
)

from accounts.grant_section import GrantSection
from agents.guard.registry import tool_names
from agents.models import (
    Agent,
    AgentSource,
    AgentVersion,
    LanguageModel,
    LedgerEntry,
    ModelCall,
    ModelProvider,
    Prompt,
    PromptVersion,
    ToolCall,
)
from agents.services import publish_agent, publish_prompt
from kaizen.kernel.admin import (
    ArchivableAdmin,
    OrganizationAdmin,
    OrganizationInline,
    ReadOnlyAdmin,
    authority_of,
    site,
)
from kaizen.kernel.admin_scope import OrganizationForm


class ProviderForm(OrganizationForm):
    """A provider. The key is written, never read back."""

    base_url = forms.URLField(
        label=_("Address"),
        required=False,
        assume_scheme="https",
        help_text=_("Leave empty for the vendor's own address."),
        widget=UnfoldAdminURLInputWidget,
    )
    new_api_key = forms.CharField(
        label=_("API key"),
        required=False,
        max_length=1024,
        help_text=_("Kept encrypted and never shown. Leave empty to keep the present one."),
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
    )
    forget_api_key = forms.BooleanField(label=_("Forget the present key"), required=False)

    class Meta:
        model = ModelProvider
        fields: ClassVar = ["name", "kind", "base_url", "enabled"]


@admin.register(ModelProvider, site=site)
class ModelProviderAdmin(OrganizationAdmin):
    """Accounts at model vendors."""

    form = ProviderForm
    deletable = True
    group = "agents"
    icon = "cloud"
    list_display = ("name", "kind", "has_key", "enabled")
    list_filter = ("kind", "enabled")
    search_fields = ("name",)
    ordering = ("name",)
    fields = ("name", "kind", "base_url", "new_api_key", "forget_api_key", "enabled")

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        # Not read at all, so that no page can show it and no lost key can break the list.
        return (
            super().get_queryset(request).annotate(key_set=~models.Q(api_key="")).defer("api_key")
        )

    @admin.display(description=_("key set"), boolean=True)
    def has_key(self, provider: Any) -> bool:
        """Whether a key is stored."""
        return bool(provider.key_set)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        key = form.cleaned_data.get("new_api_key")
        if key or form.cleaned_data.get("forget_api_key"):
            obj.api_key = key or ""
            obj.save(update_fields=["api_key"])


class LanguageModelForm(OrganizationForm):
    """Ticking "default" moves it here, so that one other default is no error."""

    def _get_validation_exclusions(self) -> set[str]:
        return {*super()._get_validation_exclusions(), "is_default"}


@admin.register(LanguageModel, site=site)
class LanguageModelAdmin(OrganizationAdmin):
    """Models with their limits and prices."""

    form = LanguageModelForm
    deletable = True
    group = "agents"
    icon = "psychology"
    sections = (GrantSection,)
    list_display = ("label", "provider", "name", "is_default", "enabled")
    list_filter = ("provider", "enabled")
    list_select_related = ("provider",)
    search_fields = ("label", "name")
    ordering = ("label",)
    autocomplete_fields = ("provider",)
    fields = (
        "label",
        "provider",
        "name",
        "context_tokens",
        "max_output_tokens",
        "input_price",
        "cached_input_price",
        "output_price",
        "is_default",
        "enabled",
    )

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if obj.is_default and "is_default" in form.changed_data:
            LanguageModel.objects.for_authority(authority_of(request)).filter(
                is_default=True
            ).exclude(pk=obj.pk).update(is_default=False)
        super().save_model(request, obj, form, change)


@admin.register(Prompt, site=site)
class PromptAdmin(ArchivableAdmin):
    """Persona texts. Saving publishes a new version."""

    group = "agents"
    icon = "edit_note"
    sections = (GrantSection,)
    list_display = ("name", "archived_at", "created_at")
    search_fields = ("name",)
    ordering = ("name",)
    fields = ("name", "text")

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        publish_prompt(authority_of(request), prompt=form.instance)


class AgentSourceInline(OrganizationInline):
    """Sources an agent may use; attaching one can only narrow."""

    model = AgentSource
    autocomplete_fields = ("source",)
    verbose_name_plural = _("Only these sources")


class AgentForm(OrganizationForm):
    """An agent; its tools are ticked from those there are."""

    tools = forms.MultipleChoiceField(
        label=_("Tools"), required=False, widget=UnfoldAdminCheckboxSelectMultipleWidget
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "tools" in self.fields:
            self.fields["tools"].choices = [(name, name) for name in tool_names()]  # type: ignore[attr-defined]


@admin.register(Agent, site=site)
class AgentAdmin(ArchivableAdmin):
    """What members talk to. Saving publishes a new version if anything that bears on a
    run changed.
    """

    form = AgentForm
    group = "agents"
    icon = "smart_toy"
    inlines = (AgentSourceInline,)
    sections = (GrantSection,)
    list_display = ("name", "prompt", "language_model", "version", "archived_at")
    list_filter = ("language_model",)
    list_select_related = ("prompt", "language_model", "current_version")
    search_fields = ("name",)
    ordering = ("name",)
    autocomplete_fields = ("prompt", "language_model")
    fields = (
        "name",
        "description",
        "prompt",
        "language_model",
        "tools",
        "all_sources",
        "max_steps",
        "max_seconds",
        "version",
    )
    readonly_fields = ("version",)

    @admin.display(description=_("version"))
    def version(self, agent: Agent) -> str:
        """The number that new runs execute."""
        return str(agent.current_version.number) if agent.current_version else "–"

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        publish_agent(authority_of(request), agent=form.instance)


@admin.register(AgentVersion, site=site)
class AgentVersionAdmin(ReadOnlyAdmin):
    """What runs execute."""

    group = "record"
    icon = "lock"
    list_display = ("agent", "number", "created_at", "digest")
    list_filter = ("agent",)
    list_select_related = ("agent",)
    ordering = ("-id",)
    fields = (
        "agent",
        "number",
        "prompt_version",
        "language_model",
        "definition",
        "digest",
        "created_at",
    )

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return super().get_queryset(request).select_related("agent", "prompt_version__prompt")


@admin.register(PromptVersion, site=site)
class PromptVersionAdmin(ReadOnlyAdmin):
    """Published texts."""

    group = "record"
    icon = "lock"
    list_display = ("prompt", "number", "created_at", "digest")
    list_filter = ("prompt",)
    list_select_related = ("prompt",)
    ordering = ("-id",)
    fields = ("prompt", "number", "text", "digest", "created_at")

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return super().get_queryset(request).select_related("prompt")


@admin.register(ModelCall, site=site)
class ModelCallAdmin(ReadOnlyAdmin):
    """Requests to models: usage and price, no text."""

    group = "record"
    icon = "receipt"
    list_display = (
        "started_at",
        "language_model",
        "state",
        "input_tokens",
        "output_tokens",
        "cost",
        "error_code",
    )
    list_filter = ("state", "language_model")
    list_select_related = ("language_model",)
    ordering = ("-id",)
    fields = (
        "run_id",
        "attempt",
        "step",
        "language_model",
        "state",
        "input_tokens",
        "cached_input_tokens",
        "output_tokens",
        "usage_estimated",
        "cost",
        "error_code",
        "started_at",
        "finished_at",
    )


@admin.register(ToolCall, site=site)
class ToolCallAdmin(ReadOnlyAdmin):
    """Tool calls: which, when and how they ended. Arguments and results are content and aren't
    shown.
    """

    group = "record"
    icon = "build"
    list_display = ("started_at", "name", "state", "effect", "run_id")
    list_filter = ("state", "name")
    ordering = ("-id",)
    fields = (
        "run_id",
        "attempt",
        "step",
        "name",
        "effect",
        "state",
        "started_at",
        "finished_at",
    )


@admin.register(LedgerEntry, site=site)
class LedgerEntryAdmin(ReadOnlyAdmin):
    """What was spent, settled call by call."""

    group = "record"
    icon = "payments"
    list_display = ("at", "cost", "input_tokens", "output_tokens", "estimated", "run_id")
    list_filter = ("estimated",)
    date_hierarchy = "at"
    ordering = ("-at", "-id")
    fields = (
        "at",
        "cost",
        "input_tokens",
        "output_tokens",
        "estimated",
        "run_id",
        "model_call_id",
        "agent_id",
        "language_model_id",
    )
