"""The admin of scorings: how one went, person by person and question by question.

Read-only, but for stopping one that runs. Auditors see figures and counts; titles of documents that
leaked are for those to whom the list of documents shows them too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin, messages
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext_lazy

from accounts.authority import Capability
from kaizen.kernel.admin import ReadOnlyAdmin, authority_of, site
from kaizen.kernel.errors import Conflict
from retrieval.models import ScoreRun
from retrieval.quality.score_queries import figures_of, page_of_run, with_leaks
from retrieval.quality.score_runs import stop_run


class ScoreRunAdmin(ReadOnlyAdmin):
    """What scoring a set found."""

    group = "knowledge"
    icon = "monitoring"
    list_display: ClassVar[Sequence[str]] = (
        "question_set",
        "started_at",
        "state",
        "planned",
        "has_leaks",
    )
    list_filter = ("question_set", "state")
    list_select_related = ("question_set",)
    ordering = ("-started_at", "-id")
    fields = readonly_fields = (
        "question_set",
        "state",
        "message",
        "started_by",
        "started_at",
        "ended_at",
        "planned",
        "embedding_model",
        "search_version",
    )
    change_form_outer_before_template = "admin/test_bench_run.html"

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        rows = super().get_queryset(request).select_related("question_set", "started_by")
        return with_leaks(rows)

    @admin.display(description=gettext_lazy("leaks"), boolean=True)
    def has_leaks(self, run: Any) -> bool:
        """Whether anything was found that mustn't be."""
        found: bool = run.leaks_any
        return found

    @admin.display(description=gettext_lazy("embedding model"))
    def embedding_model(self, run: Any) -> str:
        """The model whose vectors were searched."""
        return run.search_settings.get("embedding_model", "")

    @admin.display(description=gettext_lazy("version of the search"))
    def search_version(self, run: Any) -> str:
        """Two runs with the same one searched by the same statement."""
        return run.search_settings.get("search", "")

    def get_urls(self) -> list[URLPattern]:
        """Stopping, besides Django's own."""
        stop = path(
            "<uuid:run_id>/stop/",
            self.admin_site.admin_view(self.stop_view),
            name="retrieval_scorerun_stop",
        )
        return [stop, *super().get_urls()]

    def stop_view(self, request: HttpRequest, run_id: UUID) -> HttpResponse:
        """End a scoring that runs."""
        authority = authority_of(request)
        authority.check(Capability.CONFIGURE)
        run: Any = self.get_object(request, str(run_id))
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        try:
            stop_run(authority, run=run)
        except Conflict as error:
            messages.error(request, error.message)
        return HttpResponseRedirect(reverse("admin:retrieval_scorerun_change", args=[run.pk]))

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        run = kwargs.get("obj")
        if run is not None:
            authority = authority_of(request)
            asked = request.GET.get("page", "")
            number = int(asked) if asked.isdecimal() and len(asked) < 6 else 1
            configures = authority.may(Capability.CONFIGURE)
            context["bench"] = {
                "run": run,
                "is_running": run.state == ScoreRun.State.RUNNING,
                "figures": figures_of(authority, runs=[run])[run.pk],
                "page": page_of_run(authority, run=run, number=number, with_titles=configures),
                "may_configure": configures,
            }
        return super().render_change_form(request, context, *args, **kwargs)


site.register(ScoreRun, ScoreRunAdmin)
