"""From address to caller: `/o/<slug>/...` names the organisation, session or key the person.

After this, `request.authority` is who is asking, and the whole request runs in that organisation's
scope. Every `reverse()` stays inside the organisation, since its prefix is the script prefix.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from inspect import iscoroutinefunction
from urllib.parse import quote

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import Resolver404, resolve, set_script_prefix

from accounts.authority import Authority, from_key, from_user
from kaizen.kernel.api import problem_json
from kaizen.kernel.errors import KaizenError, Unauthenticated
from kaizen.kernel.tenancy import scope

logger = logging.getLogger(__name__)
GetResponse = Callable[[HttpRequest], HttpResponse]
_ADDRESS = re.compile(r"^/o/([-a-zA-Z0-9_]{1,40})(/.*)$")
ORGANIZATION_URLCONF = "kaizen.organization_urls"


class OrganizationMiddleware:
    """Strips `/o/<slug>` and routes what follows by the organisation's own table of addresses."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        match = _ADDRESS.match(request.path_info)
        request.organization_slug = match[1] if match else None  # type: ignore[attr-defined]
        request.authority = None  # type: ignore[attr-defined]
        if match:
            request.path_info = match[2]
            request.urlconf = ORGANIZATION_URLCONF
            set_script_prefix(f"/o/{match[1]}/")
        return self.get_response(request)


class AuthorityMiddleware:
    """Resolves who is asking and runs the request in their organisation's transaction."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        slug: str | None = request.organization_slug  # type: ignore[attr-defined]
        if slug is None:
            return self.get_response(request)
        try:
            authority = resolve_authority(request, slug=slug)
        except Unauthenticated as error:
            if is_api(request):
                return problem_json(error)
            return redirect_to_login(request)
        except KaizenError as error:
            return error_response(request, error)
        request.authority = authority  # type: ignore[attr-defined]
        if waits(request):
            return self.get_response(request)
        with scope(authority):
            response = self.get_response(request)
            if response.status_code >= 400:
                transaction.set_rollback(True)
        return response


def waits(request: HttpRequest) -> bool:
    """Whether the view may wait for long and opens its own scopes: asynchronous ones do, and those
    that say so by `opens_scopes`.
    """
    try:
        view = resolve(request.path_info, ORGANIZATION_URLCONF).func
    except Resolver404:
        return False
    return iscoroutinefunction(view) or bool(getattr(view, "opens_scopes", False))


def resolve_authority(request: HttpRequest, *, slug: str) -> Authority:
    """The caller of an organisation's address: an API key if one is sent to the API, else the
    session.

    Raises Unauthenticated when nobody is proven, Missing when the person has no active place there.
    """
    header = request.headers.get("Authorization", "")
    if header and is_api(request):
        kind, _, secret = header.partition(" ")
        if kind.lower() != "bearer" or not secret.strip():
            raise Unauthenticated
        return from_key(secret.strip(), slug=slug)
    if not request.user.is_authenticated:
        raise Unauthenticated
    return from_user(request.user, slug=slug)


class ErrorMiddleware:
    """Turns our errors, raised anywhere in a page, into one page each."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """The page for a KaizenError; anything else stays a bug and a plain 500."""
        if isinstance(exception, KaizenError):
            return error_response(request, exception)
        return None


def error_response(request: HttpRequest, error: KaizenError) -> HttpResponse:
    """`error` in the caller's shape: problem+json for the API, a page for a person."""
    if is_api(request):
        return problem_json(error)
    response = render(request, "errors/problem.html", {"error": error}, status=error.status)
    if getattr(error, "retry_after", None) is not None:
        response["Retry-After"] = str(error.retry_after)  # type: ignore[attr-defined]
    return response


def is_api(request: HttpRequest) -> bool:
    """Whether the address belongs to the API."""
    return request.path_info.startswith("/api/")


def redirect_to_login(request: HttpRequest) -> HttpResponse:
    """To the sign-in page and back. A fragment that a page loads by itself gets nothing instead: it
    must not move the page, on which somebody may be writing; what a person sent moves it.
    """
    address = f"{settings.LOGIN_URL}?next={quote(request.get_full_path())}"
    if not request.headers.get("HX-Request"):
        return HttpResponseRedirect(address)
    if request.method == "GET":
        return HttpResponse(status=204)
    return HttpResponse(status=204, headers={"HX-Redirect": settings.LOGIN_URL})
