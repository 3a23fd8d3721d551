"""The page that adds a document by its web address. Thin, as every page."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from accounts.permissions import Verb
from kaizen.kernel.errors import Invalid, TooLarge, Unavailable
from kaizen.kernel.tenancy import scope
from retrieval.acl import get_source
from retrieval.pages import authority_of
from retrieval.web.documents import add_by_url


@never_cache
@require_http_methods(["GET", "POST"])
def add_url_page(request: HttpRequest, source_id: UUID) -> HttpResponse:
    """`retrieval/add_url.html`: source, url (as typed), error (a sentence or empty). POST url adds
    it and leads back to the source.
    """
    authority = authority_of(request)
    context: dict[str, Any] = {"url": request.POST.get("url", "").strip(), "error": ""}
    status = 200
    if request.method == "POST":
        try:
            if not context["url"]:
                raise Invalid(_("Type the address of a page."), code="no_address")
            add_by_url(authority, source_id=source_id, url=context["url"])
        except (Invalid, TooLarge, Unavailable) as error:
            context["error"], status = error.message, error.status
        else:
            return redirect("retrieval:source", source_id)
    with scope(authority):
        context["source"] = get_source(authority, source_id, Verb.CHANGE)
        return render(request, "retrieval/add_url.html", context, status=status)


# A site may take long to answer: no transaction is open meanwhile.
add_url_page.opens_scopes = True  # type: ignore[attr-defined]
