"""The admin of questions: what is asked, and which documents should be found.

Every change goes through `retrieval.quality.questions`. Titles of documents are offered as the list
of documents shows them; no text is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from kaizen.kernel.admin import OrganizationAdmin, authority_of, site
from retrieval.models import Question, QuestionDocument
from retrieval.quality.bench_forms import QuestionForm
from retrieval.quality.questions import remove_question, save_question


class QuestionAdmin(OrganizationAdmin):
    """What is asked, and what should be found."""

    group = "knowledge"
    icon = "help"
    form = QuestionForm
    list_display: ClassVar[Sequence[str]] = ("__str__", "question_set", "documents_expected")
    list_filter = ("question_set",)
    list_select_related = ("question_set",)
    search_fields = ("text",)
    ordering = ("question_set__name", "created_at", "id")
    fields = ("question_set", "text", "expected", "forbidden")
    autocomplete_fields = ("question_set",)
    actions: ClassVar[Sequence[str]] = ("take_out",)

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        expected = models.Q(documents__kind=QuestionDocument.Kind.EXPECTED)
        return (
            super()
            .get_queryset(request)
            .filter(removed_at=None)
            .select_related("question_set")
            .annotate(expected_count=models.Count("documents", filter=expected))
        )

    @admin.display(description=gettext_lazy("documents to be found"))
    def documents_expected(self, question: Any) -> int:
        """How many documents should be found."""
        count: int = question.expected_count
        return count

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[str]:
        return ("question_set",) if obj is not None else ()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        values = form.cleaned_data
        saved = save_question(
            authority_of(request),
            question_set=obj.question_set,
            text=values["text"],
            expected=[document.pk for document in values["expected"]],
            forbidden=[document.pk for document in values["forbidden"]],
            question=obj if change else None,
        )
        obj.__dict__.update(saved.__dict__)

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        """Django's answer; after new words, "continue" goes on with the new question."""
        if "_continue" not in request.POST:
            return super().response_change(request, obj)
        messages.success(request, _("Saved."))
        return HttpResponseRedirect(reverse("admin:retrieval_question_change", args=[obj.pk]))

    def log_addition(self, request: HttpRequest, obj: models.Model, message: Any) -> None:
        """The service wrote it down."""

    def log_change(self, request: HttpRequest, obj: models.Model, message: Any) -> None:
        """The service wrote it down."""

    @admin.action(description=gettext_lazy("Take out of the set"), permissions=["change"])
    def take_out(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Ask the selected questions no more; what was scored with them stays."""
        count = 0
        for question in queryset:
            remove_question(authority_of(request), question=question)
            count += 1
        messages.success(
            request,
            ngettext("%s question taken out.", "%s questions taken out.", count) % count,
        )


site.register(Question, QuestionAdmin)
