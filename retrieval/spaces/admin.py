"""The admin of embedding and rerank models, and of the spaces that the index is made in.

A change of the model shows first what it costs; every change goes through
`retrieval.spaces.changes` or is written down by the base.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.core import signing
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from audit.record import record
from kaizen.kernel.admin import OrganizationAdmin, authority_of, site
from kaizen.kernel.errors import Unavailable
from retrieval.embedders.rerank import reranker_of
from retrieval.models import EmbeddingModel, EmbeddingSpace, RerankModel
from retrieval.spaces.changes import (
    Estimate,
    cancel_change,
    check_model,
    estimate_change,
    progress,
    retry_now,
    start_change,
)
from retrieval.spaces.forms import EmbeddingModelForm, KeyForm, RerankModelForm

MOST_CHECKS = 5
ESTIMATE_SECONDS = 3_600
_SALT = "kaizen.retrieval.estimate"


class KeyedModelAdmin(OrganizationAdmin):
    """Models at a provider, with a key that nobody reads back."""

    group = "knowledge"
    deletable = True
    search_fields = ("label",)
    ordering = ("label",)

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        # Not read at all, so that no page can show it and no lost key can break the list.
        return (
            super().get_queryset(request).annotate(key_set=~models.Q(api_key="")).defer("api_key")
        )

    @admin.display(description=gettext_lazy("key set"), boolean=True)
    def has_key(self, model: Any) -> bool:
        """Whether a key is stored."""
        return bool(model.key_set)

    def save_model(self, request: HttpRequest, obj: Any, form: KeyForm, change: bool) -> None:
        columns = {field.name for field in obj._meta.concrete_fields}
        names = [name for name in form.cleaned_data if name in columns]
        obj.save(update_fields=[*names, *self.computed] if change else None)
        key = form.cleaned_data.get("new_api_key")
        if key or form.cleaned_data.get("forget_api_key"):
            obj.api_key = key or ""
            obj.save(update_fields=["api_key"])

    computed: ClassVar[Sequence[str]] = ()


@admin.register(EmbeddingModel, site=site)
class EmbeddingModelAdmin(KeyedModelAdmin):
    """Models to make the index with."""

    form = EmbeddingModelForm
    computed = ("digest",)
    icon = "data_array"
    list_display = ("label", "kind", "name", "base_url", "has_key", "price")
    list_filter = ("kind",)
    actions: ClassVar[Sequence[str]] = ("try_out", "change_over")
    fieldsets: ClassVar = (
        (None, {"fields": ("label", "kind")}),
        (
            gettext_lazy("At a provider"),
            {
                "fields": (
                    "name",
                    "base_url",
                    "new_api_key",
                    "forget_api_key",
                    "dimension",
                    "sizing",
                    "query_prefix",
                    "passage_prefix",
                    "batch",
                    "price",
                )
            },
        ),
    )

    @admin.action(description=gettext_lazy("Check"), permissions=["change"])
    def try_out(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Embed a sentence with the selected models, and say what came back."""
        for model in queryset[:MOST_CHECKS]:
            tried = check_model(authority_of(request), model=model)
            level = messages.SUCCESS if tried.works else messages.ERROR
            messages.add_message(request, level, f"{model}: {tried.message}")

    @admin.action(
        description=gettext_lazy("Make the index with this model"), permissions=["change"]
    )
    def change_over(
        self, request: HttpRequest, queryset: models.QuerySet[Any]
    ) -> HttpResponse | None:
        """Say what it costs; once that is confirmed, begin."""
        chosen = list(queryset[:2])
        if len(chosen) != 1:
            messages.error(request, _("Choose one model."))
            return None
        (model,) = chosen
        if request.POST.get("confirmed") == "yes":
            return self._start(request, model)
        try:
            estimate = estimate_change(authority_of(request), model=model)
        except Unavailable as error:
            messages.error(request, f"{model}: {error.message}")
            return None
        context = {
            **self.admin_site.each_context(request),
            "title": _("Make the index with %s") % model,
            "model": model,
            "estimate": estimate,
            "minutes": -(-estimate.seconds // 60),
            "dollars": f"{estimate.cost / 1_000_000:.2f}",
            "shown": signing.dumps([str(model.pk), asdict(estimate)], salt=_SALT),
            "opts": self.opts,
        }
        return TemplateResponse(request, "admin/space_change.html", context)

    def _start(self, request: HttpRequest, model: EmbeddingModel) -> HttpResponse | None:
        try:
            model_id, shown = signing.loads(
                request.POST.get("shown", ""), salt=_SALT, max_age=ESTIMATE_SECONDS
            )
        except signing.BadSignature:
            model_id, shown = "", {}
        if model_id != str(model.pk):
            messages.error(request, _("That estimate is too old. Look at it again."))
            return None
        space = start_change(authority_of(request), model=model, estimate=Estimate(**shown))
        messages.success(request, _("It has begun. Searches go on as before until it is done."))
        return HttpResponseRedirect(
            reverse("admin:retrieval_embeddingspace_change", args=[space.pk])
        )


@admin.register(EmbeddingSpace, site=site)
class EmbeddingSpaceAdmin(OrganizationAdmin):
    """What the index is made with, what is being built, and what was."""

    addable = False
    group = "knowledge"
    icon = "deployed_code_history"
    list_display = ("model", "state", "done", "last_error", "created_at", "activated_at")
    list_filter = ("state",)
    search_fields = ("model",)
    ordering = ("-created_at", "-id")
    fields = readonly_fields = (
        "model",
        "dimension",
        "state",
        "created_at",
        "activated_at",
        "retired_at",
        "emptied_at",
        "tokens",
        "last_error",
        "retry_at",
    )
    actions: ClassVar[Sequence[str]] = ("retry", "cancel")
    change_form_outer_before_template = "admin/space_progress.html"

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        space = kwargs.get("obj")
        if space is not None:
            estimate = space.estimate or {}
            context["building"] = {
                "space": space,
                "is_building": space.state == EmbeddingSpace.State.BUILDING,
                "progress": progress(space),
                "estimate": estimate,
                "dollars": f"{estimate.get('cost', 0) / 1_000_000:.2f}",
                "actions_url": reverse("admin:retrieval_embeddingspace_changelist"),
            }
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.action(description=gettext_lazy("Go on at once"), permissions=["change"])
    def retry(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Don't wait for the end of the pause that followed a failure."""
        for space in queryset.filter(state=EmbeddingSpace.State.BUILDING):
            retry_now(authority_of(request), space=space)
        messages.success(request, _("It goes on as soon as a worker is free."))

    @admin.action(description=gettext_lazy("Cancel the change"), permissions=["change"])
    def cancel(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Give up what is being built; the index stays as it is."""
        for space in queryset:
            cancel_change(authority_of(request), space=space)
        messages.success(request, _("Cancelled. The index stays as it is."))


@admin.register(RerankModel, site=site)
class RerankModelAdmin(KeyedModelAdmin):
    """Cross-encoders that order the best passages anew."""

    form = RerankModelForm
    icon = "sort"
    list_display = ("label", "wire", "name", "base_url", "has_key", "enabled")
    list_filter = ("enabled",)
    actions: ClassVar[Sequence[str]] = ("try_out",)
    fields = (
        "label",
        "wire",
        "name",
        "base_url",
        "new_api_key",
        "forget_api_key",
        "seconds",
        "enabled",
    )

    @admin.action(description=gettext_lazy("Check"), permissions=["change"])
    def try_out(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Let the selected models order two texts, and say what came back."""
        for model in queryset[:MOST_CHECKS]:
            try:
                fits, other = reranker_of(model).rerank(
                    "How many days of leave are there?",
                    ["There are 25 days of leave a year.", "The pump needs a new valve."],
                )
            except Unavailable as error:
                works = False
                messages.error(request, f"{model}: {error.message}")
            else:
                works = True
                messages.success(
                    request,
                    _(
                        "%(model)s: it answers, with %(fits)s for a text that fits and %(other)s "
                        "for one that doesn't."
                    )
                    % {"model": model, "fits": f"{fits:.3f}", "other": f"{other:.3f}"},
                )
            record(
                authority_of(request),
                "retrieval.rerank_model_checked",
                subject=model,
                data={"works": works},
            )
