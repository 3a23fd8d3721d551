"""The admin of question sets: whom to ask as, scoring, figures over time, files in and out.

Every change goes through `retrieval.quality.questions` and `retrieval.quality.score_runs`. Nothing
here shows the text of a document.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin, messages
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from kaizen.kernel.admin import ArchivableAdmin, authority_of, site
from kaizen.kernel.errors import Conflict, Invalid
from retrieval.models import QuestionSet, ScoreRun
from retrieval.quality import bench_page as bench_page  # joins the site, as do the next
from retrieval.quality import question_admin as question_admin
from retrieval.quality import score_admin as score_admin
from retrieval.quality.bench_forms import ImportForm, QuestionSetForm
from retrieval.quality.question_files import Unreadable, read_file, write_csv, write_json
from retrieval.quality.questions import get_set, import_questions, set_personas
from retrieval.quality.score_charts import make_chart
from retrieval.quality.score_queries import figures_of, list_ended_runs, list_recent_runs
from retrieval.quality.score_runs import start_run

SHOWN_RUNS = 10


class QuestionSetAdmin(ArchivableAdmin):
    """Questions that belong together, and whom to ask them as."""

    group = "knowledge"
    icon = "quiz"
    form = QuestionSetForm
    list_display: ClassVar[Sequence[str]] = ("name", "question_count", "archived_at", "created_at")
    search_fields = ("name",)
    ordering = ("name",)
    fields = ("name", "description", "members")
    change_form_outer_before_template = "admin/test_bench_set.html"

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        living = models.Q(questions__removed_at=None)
        count = models.Count("questions", filter=living & models.Q(questions__isnull=False))
        return super().get_queryset(request).annotate(living_questions=count)

    @admin.display(description=gettext_lazy("questions"))
    def question_count(self, question_set: Any) -> int:
        """How many questions it has now."""
        count: int = question_set.living_questions
        return count

    def get_urls(self) -> list[URLPattern]:
        """The set's own pages before Django's, which would take them for ids."""
        own = [
            self._path("scores", self.scores_view),
            self._path("score", self.score_view),
            self._path("import", self.import_view),
            self._path("export", self.export_view),
        ]
        return [*own, *super().get_urls()]

    def _path(self, name: str, view: Any) -> URLPattern:
        return path(
            f"<uuid:question_set_id>/{name}/",
            self.admin_site.admin_view(view),
            name=f"retrieval_questionset_{name}",
        )

    # --- the form

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        question_set = kwargs.get("obj")
        if question_set is not None:
            authority = authority_of(request)
            runs = list_recent_runs(authority, question_set=question_set, limit=SHOWN_RUNS)
            figures = figures_of(authority, runs=runs)
            context["bench"] = {
                "set": question_set,
                "runs": [(run, figures[run.pk]) for run in runs],
                "is_running": any(run.state == ScoreRun.State.RUNNING for run in runs),
                "questions": question_set.living_questions,
                "personas": question_set.personas.count(),
            }
        return super().render_change_form(request, context, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if "members" in form.changed_data:
            set_personas(
                authority_of(request),
                question_set=obj,
                membership_ids=[member.pk for member in form.cleaned_data["members"]],
            )

    # --- its own pages

    def score_view(self, request: HttpRequest, question_set_id: UUID) -> HttpResponse:
        """Start scoring the set."""
        authority = authority_of(request)
        question_set = get_set(authority, question_set_id)
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        try:
            run = start_run(authority, question_set=question_set)
        except (Conflict, Invalid) as error:
            messages.error(request, error.message)
            return HttpResponseRedirect(_page_of(question_set))
        messages.success(request, _("Scoring starts as soon as a worker is free."))
        return HttpResponseRedirect(reverse("admin:retrieval_scorerun_change", args=[run.pk]))

    def scores_view(self, request: HttpRequest, question_set_id: UUID) -> HttpResponse:
        """The set's figures over time."""
        authority = authority_of(request)
        question_set = get_set(authority, question_set_id)
        runs = list_ended_runs(authority, question_set=question_set)
        by_run = figures_of(authority, runs=runs)
        figures = [by_run[run.pk] for run in runs]
        labels = [f"{run.started_at:%Y-%m-%d %H:%M}" for run in runs]
        context = {
            **self.admin_site.each_context(request),
            "title": _("Scores of “%s”") % question_set,
            "opts": self.opts,
            "set": question_set,
            "charts": [
                make_chart(name, title, labels=labels, figures=figures, is_share=is_share)
                for name, title, is_share in (
                    ("ndcg_10", _("nDCG@10"), True),
                    ("recall_10", _("Recall@10"), True),
                    ("leaks", _("Leaks"), False),
                )
            ],
            "runs": [
                (run, own, before is not None and before.settings_digest != run.settings_digest)
                for run, own, before in zip(runs, figures, [None, *runs], strict=False)
            ][::-1],
        }
        return TemplateResponse(request, "admin/test_bench_scores.html", context)

    def import_view(self, request: HttpRequest, question_set_id: UUID) -> HttpResponse:
        """Take questions from a file, all or none."""
        authority = authority_of(request)
        question_set = get_set(authority, question_set_id)
        is_sent = request.method == "POST"
        form = ImportForm(request.POST, request.FILES) if is_sent else ImportForm()
        problems: Sequence[str] = ()
        if form.is_bound and form.is_valid():
            try:
                imported = import_questions(
                    authority,
                    question_set=question_set,
                    wanted=read_file(authority, form.cleaned_data["file"]),
                    replace=form.cleaned_data["replace"],
                )
            except Unreadable as error:
                problems = error.problems
            except Invalid as error:
                form.add_error(None, error.message)
            else:
                messages.success(
                    request,
                    _("%(added)s new, %(changed)s changed, %(removed)s taken out.")
                    % {
                        "added": imported.added,
                        "changed": imported.changed,
                        "removed": imported.removed,
                    },
                )
                return HttpResponseRedirect(_page_of(question_set))
        context = {
            **self.admin_site.each_context(request),
            "title": _("Questions from a file"),
            "opts": self.opts,
            "set": question_set,
            "form": form,
            "problems": problems,
        }
        return TemplateResponse(request, "admin/test_bench_import.html", context)

    def export_view(self, request: HttpRequest, question_set_id: UUID) -> HttpResponse:
        """The set as a file, JSON unless CSV is asked for."""
        authority = authority_of(request)
        question_set = get_set(authority, question_set_id)
        if request.GET.get("format") == "csv":
            text, kind = write_csv(authority, question_set_id=question_set.pk), "csv"
        else:
            text, kind = write_json(authority, question_set_id=question_set.pk), "json"
        media_type = "text/csv" if kind == "csv" else "application/json"
        response = HttpResponse(text, content_type=f"{media_type}; charset=utf-8")
        response.headers["Content-Disposition"] = f'attachment; filename="questions.{kind}"'
        return response


def _page_of(question_set: QuestionSet) -> str:
    return reverse("admin:retrieval_questionset_change", args=[question_set.pk])


site.register(QuestionSet, QuestionSetAdmin)
