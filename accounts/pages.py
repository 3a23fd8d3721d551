"""Pages outside any organisation: signing in and out, choosing an organisation, setting a password,
health.
"""

from __future__ import annotations

import secrets

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.cache import cache
from django.db import Error as DatabaseError
from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from redis.exceptions import RedisError

from accounts.queries import list_memberships
from accounts.signing import set_password, sign_in, sign_out
from kaizen.kernel.errors import Invalid, Limited

PICKER = "/organizations/"


class SignInForm(forms.Form):
    """E-mail and password."""

    email = forms.CharField(
        label=_("E-mail"),
        max_length=254,
        widget=forms.EmailInput(attrs={"autocomplete": "username", "autofocus": True}),
    )
    password = forms.CharField(
        label=_("Password"),
        max_length=1024,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )


class PasswordForm(forms.Form):
    """A new password."""

    password = forms.CharField(
        label=_("New password"),
        max_length=1024,
        strip=False,
        help_text=_("At least 10 characters."),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "autofocus": True}),
    )


@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """To where this person's work is."""
    if not request.user.is_authenticated:
        return HttpResponseRedirect(settings.LOGIN_URL)
    memberships = list_memberships(request.user)
    if len(memberships) == 1:
        return HttpResponseRedirect(f"/o/{memberships[0].organization.slug}/")
    return HttpResponseRedirect(PICKER)


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def sign_in_page(request: HttpRequest) -> HttpResponse:
    """The sign-in form; back to where the person came from, never to another site."""
    destination = _destination(request)
    if request.method != "POST":
        if request.user.is_authenticated:
            return HttpResponseRedirect(destination)
        form = SignInForm()
        return render(request, "accounts/login.html", {"form": form, "next": destination})
    form = SignInForm(request.POST)
    status, headers = 200, {}
    if form.is_valid():
        try:
            sign_in(request, **form.cleaned_data)
        except Invalid as error:
            form.add_error(None, error.message)
        except Limited as error:
            form.add_error(None, f"{error.message} ({error.retry_at:%H:%M} UTC)")
            status, headers = (
                error.status,
                {"Retry-After": f"{error.retry_at:%a, %d %b %Y %H:%M:%S} GMT"},
            )
        else:
            return HttpResponseRedirect(destination)
    response = render(
        request, "accounts/login.html", {"form": form, "next": destination}, status=status
    )
    for name, value in headers.items():
        response[name] = value
    return response


@require_POST
def sign_out_page(request: HttpRequest) -> HttpResponse:
    """Sign out."""
    sign_out(request)
    return HttpResponseRedirect(settings.LOGOUT_REDIRECT_URL)


@never_cache
@require_GET
def organizations(request: HttpRequest) -> HttpResponse:
    """The organisations this person may enter."""
    if not request.user.is_authenticated:
        return HttpResponseRedirect(f"{settings.LOGIN_URL}?next={PICKER}")
    return render(
        request, "accounts/organizations.html", {"memberships": list_memberships(request.user)}
    )


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def set_password_page(request: HttpRequest, uidb64: str, token: str) -> HttpResponse:
    """Set a first password. Looks the same for every link, dead or alive, until it is used."""
    form = PasswordForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            set_password(identity=uidb64, token=token, password=form.cleaned_data["password"])
        except Invalid as error:
            form.add_error("password", error.message)
        else:
            messages.success(request, _("Your password is set. Sign in with it."))
            return HttpResponseRedirect(settings.LOGIN_URL)
    response = render(request, "accounts/set_password.html", {"form": form})
    response["Referrer-Policy"] = "no-referrer"
    return response


@never_cache
@require_GET
def health(request: HttpRequest) -> JsonResponse:
    """200 when the database and Valkey answer, 503 otherwise. Names the part, never the reason."""
    parts = {"database": _database_answers(), "valkey": _valkey_answers()}
    healthy = all(parts.values())
    return JsonResponse(
        {
            "status": "ok" if healthy else "unavailable",
            **{part: "ok" if answers else "unavailable" for part, answers in parts.items()},
        },
        status=200 if healthy else 503,
    )


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True


def _valkey_answers() -> bool:
    token = secrets.token_hex(8)
    try:
        cache.set(f"health-{token}", token, 10)
        return bool(cache.get(f"health-{token}") == token)
    except RedisError:
        return False


def _destination(request: HttpRequest) -> str:
    """The checked `next` address, or the start page."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    if url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    ):
        return wanted
    return settings.LOGIN_REDIRECT_URL
