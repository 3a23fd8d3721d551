"""The one admin site, mounted inside each organisation at /o/<slug>/admin/.

Who may enter is asked of the request's authority, never of `is_staff` or model permissions. To whom
it doesn't belong, it isn't there. Its theme needs a content security policy of its own, which
stands on its answers only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Protocol, cast

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, URLResolver, get_script_prefix, path, reverse
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _
from unfold.sites import UnfoldAdminSite

from kaizen.kernel.errors import Denied, Missing

if TYPE_CHECKING:
    from django.contrib.admin.models import LogEntry
    from django.db import models

    from accounts.authority import Authority, Capability

# The capabilities of `accounts.authority`, by value: the kernel imports no app.
CONFIGURE = cast("Capability", "configure")
PEOPLE = cast("Capability", "people")
AUDIT = cast("Capability", "audit")

# Site-wide views that know no organisation, or that Kaizen does in its own place.
_CLOSED = frozenset({"view_on_site", "password_change", "password_change_done"})


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One line of an object's history."""

    at: datetime
    who: str
    what: str
    details: str


class History(Protocol):
    """Where changes are written down and read back; the audit app provides it."""

    def record(
        self, authority: Authority, action: str, *, subject: object, data: Mapping[str, Any]
    ) -> None:
        """Write one change down in the current transaction."""

    def list_lines(
        self, authority: Authority, *, subject: models.Model, limit: int
    ) -> Sequence[HistoryLine]:
        """The newest events about `subject` in the caller's organisation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page that is no model's: any one of `capabilities` shows it in the sidebar. Its view
    checks.
    """

    name: str
    path: str
    view: Callable[..., HttpResponse]
    title: Any
    icon: str
    group: str
    capabilities: Sequence[Capability]


def authority_of(request: HttpRequest) -> Authority:
    """Who is asking. Raises Missing outside an organisation."""
    authority: Authority | None = getattr(request, "authority", None)
    if authority is None:
        raise Missing
    return authority


class OrganizationAdminSite(UnfoldAdminSite):
    """Lets in who may configure, manage people or audit; everybody else is told that nothing is
    here.
    """

    index_title = _("Set up")
    history: History | None = None

    def __init__(self, name: str = "admin") -> None:
        super().__init__(name)
        self.pages: list[Page] = []

    def has_permission(self, request: HttpRequest) -> bool:
        """Whether the caller's role opens any page here."""
        authority: Authority | None = getattr(request, "authority", None)
        return authority is not None and any(
            authority.may(capability) for capability in (CONFIGURE, PEOPLE, AUDIT)
        )

    def admin_view(
        self, view: Callable[..., HttpResponse], cacheable: bool = False
    ) -> Callable[..., HttpResponse]:
        """Guard `view`: Missing for outsiders, Denied where the role isn't enough, our policy on
        the answer.
        """
        protected = super().admin_view(view, cacheable)

        def entered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not self.has_permission(request):
                raise Missing
            try:
                response = protected(request, *args, **kwargs)
            except PermissionDenied:
                raise Denied from None
            response._csp_replace = settings.KAIZEN_ADMIN_CSP
            return response

        return update_wrapper(entered, view)

    def get_urls(self) -> list[URLPattern | URLResolver]:
        """Our own pages, then the theme's and Django's addresses without the site-wide ones."""
        own = [path(page.path, self.admin_view(page.view), name=page.name) for page in self.pages]
        urls = super().get_urls()
        return [*own, *(url for url in urls if getattr(url, "name", None) not in _CLOSED)]

    def login(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Signing in happens once, at /login/; whoever arrives here is signed in already."""
        if not self.has_permission(request):
            raise Missing
        return HttpResponseRedirect(reverse("admin:index", current_app=self.name))

    def logout(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Hand the same POST on to the product's own sign-out."""
        return HttpResponse(status=307, headers={"Location": "/logout/"})

    def search(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """The theme's search keeps results per person across organisations, so it stays shut."""
        raise Missing

    def get_log_entries(self, request: HttpRequest) -> Any:
        """None: Django's own log knows no organisation and isn't written."""
        log_entry = cast("type[LogEntry]", _log_entry())
        return log_entry.objects.none()

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """The frame of every page; "view site" leads back into the organisation."""
        return {**super().each_context(request), "site_url": get_script_prefix()}

    def list_navigation(self, request: HttpRequest) -> list[dict[str, Any]]:
        """The sidebar: what the caller may open, in groups, in the order the groups were first
        named.
        """
        groups: dict[str, list[dict[str, Any]]] = {name: [] for name in NAVIGATION_GROUPS}
        for model, model_admin in self._registry.items():
            if not model_admin.has_module_permission(request):
                continue
            opts = model._meta
            groups.setdefault(getattr(model_admin, "group", "more"), []).append(
                {
                    "title": capfirst(str(opts.verbose_name_plural)),
                    "icon": getattr(model_admin, "icon", "draft"),
                    "link": reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist"),
                }
            )
        authority = authority_of(request)
        for page in self.pages:
            if any(authority.may(capability) for capability in page.capabilities):
                link = reverse(f"admin:{page.name}")
                item = {"title": page.title, "icon": page.icon, "link": link}
                groups.setdefault(page.group, []).append(item)
        return [
            {"title": NAVIGATION_GROUPS.get(name, name), "separator": True, "items": items}
            for name, items in groups.items()
            if items
        ]


NAVIGATION_GROUPS = {
    "people": _("People"),
    "knowledge": _("Knowledge"),
    "agents": _("Agents"),
    "work": _("Work"),
    "record": _("Record"),
}


def _log_entry() -> Any:
    from django.contrib.admin.models import LogEntry  # models aren't loaded when the site is made

    return LogEntry


site = OrganizationAdminSite(name="admin")


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """The sidebar of the admin, named in settings.UNFOLD."""
    return site.list_navigation(request)
