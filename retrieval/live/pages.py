"""Connected accounts as pages: the live sources one may see, and one's own account at each."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_POST

from kaizen.kernel.errors import Invalid
from retrieval.live.accounts import connect_account, disconnect_account, list_accounts
from retrieval.pages import authority_of


@never_cache
@require_GET
def accounts_page(request: HttpRequest) -> HttpResponse:
    """`retrieval/live.html`: accounts ([Account])."""
    context = {"accounts": list_accounts(authority_of(request))}
    return render(request, "retrieval/live.html", context)


@sensitive_post_parameters("token")
@require_POST
def connect(request: HttpRequest, source_id: UUID) -> HttpResponse:
    """Keep the `token` that was sent and say what a first try brought; a token that can't be one is
    an error beside its field.
    """
    authority = authority_of(request)
    try:
        credential = connect_account(
            authority, source_id=source_id, token=request.POST.get("token", "")
        )
    except Invalid as error:
        context = {
            "accounts": list_accounts(authority),
            "wrong": {"source_id": source_id, "message": error.message},
        }
        return render(request, "retrieval/live.html", context, status=error.status)
    if credential.last_error:
        messages.warning(
            request, _("Your token is kept, but trying it failed: %s") % credential.last_error
        )
    else:
        messages.success(request, _("Connected. Agents may now read there under your account."))
    return redirect("retrieval:live")


@require_POST
def disconnect(request: HttpRequest, source_id: UUID) -> HttpResponse:
    """Remove one's token."""
    disconnect_account(authority_of(request), source_id=source_id)
    messages.success(request, _("Disconnected. Your token and what was read with it are removed."))
    return redirect("retrieval:live")
