"""The admin's page "Test bench": search as a member, and see how the result came about.

It changes nothing but the audit, which holds every look under the name of who took it.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _

from accounts.authority import Capability
from kaizen.kernel.admin_site import CONFIGURE, Page, authority_of, site
from kaizen.kernel.errors import Invalid, Missing
from retrieval.quality.bench_forms import SeeAsForm
from retrieval.quality.see_as import Sight, see_as
from retrieval.search import Mode


def test_bench_page(request: HttpRequest) -> HttpResponse:
    """A form, and after a POST what the member finds. Raises Denied."""
    authority = authority_of(request)
    authority.check(Capability.CONFIGURE)
    form = SeeAsForm(
        request.POST if request.method == "POST" else None,
        authority=authority,
        auto_id="see_%s",
    )
    context: dict[str, Any] = {
        **site.each_context(request),
        "title": _("Test bench"),
        "form": form,
        "sight": _look(request, form) if form.is_bound and form.is_valid() else None,
    }
    response = TemplateResponse(request, "admin/test_bench.html", context)
    response["Cache-Control"] = "no-store"
    return response


def _look(request: HttpRequest, form: SeeAsForm) -> Sight | None:
    values = form.cleaned_data
    try:
        return see_as(
            authority_of(request),
            membership_id=values["member"].pk,
            query=values["query"],
            mode=Mode(values["mode"]),
            limit=int(values["limit"]),
        )
    except (Invalid, Missing) as error:
        form.add_error(None, error.message)
        return None


site.pages.append(
    Page(
        name="test_bench",
        path="test-bench/",
        view=test_bench_page,
        title=_("Test bench"),
        icon="science",
        group="knowledge",
        capabilities=(CONFIGURE,),
    )
)
