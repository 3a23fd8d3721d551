"""The admin's page "Who can see what": why a person sees a document, and what a change would do.

It changes nothing but the audit, which holds every question.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _

from accounts.authority import Capability
from accounts.permissions import Verb
from kaizen.kernel.admin_site import AUDIT, CONFIGURE, Page, authority_of, site
from kaizen.kernel.errors import Conflict, Denied, Invalid, Missing
from retrieval.access.explain import check_may_explain, explain
from retrieval.access.forms import (
    CHANGE_FORMS,
    AccessForm,
    ChangeForm,
    ExplainByIdForm,
    ExplainForm,
)
from retrieval.access.what_if import Impact, what_if
from retrieval.access.words import answer_sentence, lack_sentence, path_sentences

MOST_ROWS = 200


def access_page(request: HttpRequest) -> HttpResponse:
    """Two questions on one page: GET asks why, POST asks what if. Raises Denied."""
    authority = authority_of(request)
    check_may_explain(authority)
    configures = authority.may(Capability.CONFIGURE)
    context: dict[str, Any] = {
        **site.each_context(request),
        "title": _("Who can see what"),
        "explain_form": _explain_form(request, configures=configures),
        "changes": [(name, form.title) for name, form in CHANGE_FORMS.items()],
    }
    if request.method == "GET":
        context |= _explained(request, context["explain_form"])
    context["media"] = context["explain_form"].media
    if configures:
        context |= _changed(request)
        # Once: a script that runs twice would make each list twice.
        context["media"] += context["change_form"].media
    response = TemplateResponse(request, "admin/access.html", context)
    response["Cache-Control"] = "no-store"
    return response


def _explain_form(request: HttpRequest, *, configures: bool) -> AccessForm:
    form = ExplainForm if configures else ExplainByIdForm
    data = request.GET if "document" in request.GET else None
    return form(data, authority=authority_of(request), auto_id="explain_%s")


def _explained(request: HttpRequest, form: AccessForm) -> dict[str, Any]:
    """The answer in sentences, where something was asked."""
    if not form.is_valid():
        return {}
    values = form.cleaned_data
    try:
        found = explain(
            authority_of(request),
            membership=values["member"],
            document=values["document"],
            verb=Verb(values["verb"]),
        )
    except Conflict as error:
        form.add_error(None, error.message)
        return {}
    nearest = found.lack.path if found.lack else None
    return {
        "explanation": found,
        "answer": answer_sentence(found),
        "paths": [path_sentences(found, path) for path in found.paths],
        "lack": lack_sentence(found, found.lack) if found.lack else "",
        "nearest": path_sentences(found, nearest) if nearest else [],
    }


def _changed(request: HttpRequest) -> dict[str, Any]:
    """The form of the chosen kind of change, and its impact where it was asked for."""
    kind = request.GET.get("change", "")
    kind = kind if kind in CHANGE_FORMS else "grant"
    form: ChangeForm = CHANGE_FORMS[kind](
        request.POST if request.method == "POST" else None,
        authority=authority_of(request),
        auto_id="change_%s",
    )
    impact: Impact | None = None
    if form.is_bound and form.is_valid():
        try:
            impact = what_if(authority_of(request), change=form.change())
        except (Denied, Invalid, Conflict, Missing) as error:
            form.add_error(None, error.message)
    context = {"kind": kind, "change_form": form, "impact": impact}
    if impact is not None:
        context |= {
            "rows": impact.people[:MOST_ROWS],
            "more_rows": max(0, len(impact.people) - MOST_ROWS),
        }
    return context


site.pages.append(
    Page(
        name="access",
        path="access/",
        view=access_page,
        title=_("Access"),
        icon="rule",
        group="people",
        capabilities=(CONFIGURE, AUDIT),
    )
)
