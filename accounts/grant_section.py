"""The table of grants within an admin's change form, for any grantable type. Writes through
`accounts.sharing` only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldAdminSplitDateTimeWidget,
    UnfoldAdminTextInputWidget,
)

from accounts.permissions import Verb
from accounts.sharing import NOT_HERE, find_principal, get_principal, grant, list_grants, revoke
from kaizen.kernel.admin_sections import Section, SectionForm
from kaizen.kernel.admin_site import authority_of
from kaizen.kernel.clock import now
from kaizen.kernel.text import make_storable

VERBS = [
    (Verb.VIEW.value, _("view: find and read")),
    (Verb.USE.value, _("use: view, and work with it")),
    (Verb.CHANGE.value, _("change: use, and edit")),
    (Verb.SHARE.value, _("share: use, and pass on")),
    (Verb.MANAGE.value, _("manage: all of these")),
]


class GrantForm(SectionForm):
    """One grant: who, what, until when."""

    fixed: ClassVar[Sequence[str]] = ("who", "verb")

    who = forms.CharField(
        label=_("Who"),
        required=False,
        max_length=254,
        widget=UnfoldAdminTextInputWidget(
            attrs={"placeholder": _("E-mail, team or “everyone”"), "autocomplete": "off"}
        ),
    )
    verb = forms.ChoiceField(
        label=_("May"), choices=VERBS, required=False, widget=UnfoldAdminSelectWidget
    )
    expires_at = forms.SplitDateTimeField(
        label=_("Until"), required=False, widget=UnfoldAdminSplitDateTimeWidget
    )

    def clean(self) -> dict[str, Any]:
        """Resolve the principal within the organisation: unknown and foreign ones get the same
        sentence.
        """
        values: dict[str, Any] = super().clean() or self.cleaned_data
        authority = authority_of(self.request)
        if values.get("row"):
            kind, _sep, rest = values["row"].partition(":")
            identity, _sep, verb = rest.partition(":")
            if kind not in {"person", "team", "everyone"} or verb not in set(Verb):
                raise forms.ValidationError(NOT_HERE)
            values["principal"] = get_principal(authority, kind=kind, principal_id=identity)
            values["verb"] = verb
        elif values.get("who"):
            values["principal"] = find_principal(authority, make_storable(values["who"]).text)
            values["verb"] = values.get("verb") or Verb.VIEW.value
            if values["principal"] is None:
                self.add_error("who", NOT_HERE)
        elif self.has_changed():
            self.add_error("who", _("Name a person, a team or everyone."))
        expires_at = values.get("expires_at")
        if expires_at is not None and expires_at <= now() and "expires_at" in self.changed_data:
            self.add_error("expires_at", _("The end of a grant lies in the future."))
        return values


class GrantSection(Section):
    """Who may do what with this object."""

    prefix = "grants"
    title = _("Who may use this")
    intro = _(
        "Granted here directly. What people get through a source, a project or a nested team "
        "comes on top."
    )
    columns = (_("Who"), _("May"), _("Until"), "")
    form = GrantForm

    @classmethod
    def list_rows(cls, request: HttpRequest, obj: Any) -> list[dict[str, Any]]:
        """The grants that stand."""
        return [
            {
                "row": f"{line.principal}:{line.principal_id}:{line.verb}",
                "label": f"{line.label} · {line.verb}",
                "who": line.label,
                "verb": line.verb.value,
                "expires_at": line.expires_at,
            }
            for line in list_grants(authority_of(request), obj=obj)
        ]

    @classmethod
    def apply(cls, request: HttpRequest, obj: Any, values: dict[str, Any]) -> None:
        """Grant, move the end, or take back."""
        principal = values.get("principal")
        if principal is None:
            return
        authority = authority_of(request)
        verb = Verb(values["verb"])
        if values.get("remove"):
            revoke(authority, principal=principal, verb=verb, obj=obj)
        else:
            grant(
                authority,
                principal=principal,
                verb=verb,
                obj=obj,
                expires_at=values.get("expires_at"),
            )
