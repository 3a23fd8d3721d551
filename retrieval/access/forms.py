"""The forms of the admin's access page: whom and what to explain, and one form a kind of change.

Promises: choices are the organisation's own. Not for: rights, which `retrieval.access.explain` and
`retrieval.access.what_if` check.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django import forms
from django.contrib.admin.widgets import AutocompleteSelect
from django.db import models
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldAdminSplitDateTimeWidget,
    UnfoldAdminTextInputWidget,
)

from accounts.authority import Authority
from accounts.grant_section import VERBS
from accounts.models import Membership, Team, TeamMembership
from accounts.permissions import Verb
from accounts.sharing import NOT_HERE, find_principal
from kaizen.kernel.admin import scoped, site
from kaizen.kernel.text import make_storable
from retrieval.access.changes import (
    AclStateChange,
    Change,
    GrantChange,
    MembershipStateChange,
    SourceProjectChange,
    TeamMembershipChange,
    TeamParentChange,
)
from retrieval.models import Document, DocumentVersion, Source

ACTS = [("add", _("give")), ("remove", _("take back"))]
MOVES = [("add", _("enters")), ("remove", _("leaves"))]


def autocomplete(model: type[models.Model], field: str, label: Any, **more: Any) -> Any:
    """A choice found by typing. `model.field` is a relation to what is chosen: the admin's own
    look-up is asked for it.
    """
    widget = AutocompleteSelect(model._meta.get_field(field), site)
    return forms.ModelChoiceField(Team.objects.none(), label=label, widget=widget, **more)


def team_choice(label: Any, **more: Any) -> Any:
    """A team of the organisation, everyone's left out."""
    return forms.ModelChoiceField(
        Team.objects.none(),
        label=label,
        to_field_name="uuid",
        widget=UnfoldAdminSelectWidget,
        **more,
    )


def choice(label: Any, choices: Sequence[tuple[str, Any]]) -> forms.ChoiceField:
    """One of a few words."""
    return forms.ChoiceField(label=label, choices=choices, widget=UnfoldAdminSelectWidget)


class AccessForm(forms.Form):
    """A form within the caller's organisation."""

    def __init__(self, *args: Any, authority: Authority, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.authority = authority
        rows = {
            "member": scoped(authority, Membership).select_related("user"),
            "team": scoped(authority, Team).filter(kind=Team.Kind.TEAM).order_by("label"),
            "source": scoped(authority, Source),
            "project": scoped(authority, Source.project.field.related_model),
            "document": scoped(authority, Document).filter(deleted_at=None),
        }
        rows["parent"] = rows["team"]
        for name, field in self.fields.items():
            if isinstance(field, forms.ModelChoiceField):
                field.queryset = rows[name]


class ExplainForm(AccessForm):
    """A member and a document."""

    member = autocomplete(TeamMembership, "membership", _("Person"))
    document = autocomplete(DocumentVersion, "document", _("Document"))
    verb = choice(_("May they"), VERBS)


class ExplainByIdForm(AccessForm):
    """The same for auditors, to whom the lists of people and documents aren't open."""

    member = forms.EmailField(label=_("E-mail"), max_length=254, widget=UnfoldAdminTextInputWidget)
    document = forms.UUIDField(label=_("Document id"), widget=UnfoldAdminTextInputWidget)
    verb = choice(_("May they"), VERBS)

    def clean_member(self) -> Membership:
        """The member of that e-mail."""
        rows = scoped(self.authority, Membership)
        found: Membership | None = rows.filter(
            user__email__iexact=self.cleaned_data["member"]
        ).first()
        if found is None:
            raise forms.ValidationError(_("There is no such member."))
        return found

    def clean_document(self) -> Document:
        """The document of that id, a deleted one too."""
        rows = scoped(self.authority, Document)
        found: Document | None = rows.filter(pk=self.cleaned_data["document"]).first()
        if found is None:
            raise forms.ValidationError(_("There is no such document."))
        return found


class ChangeForm(AccessForm):
    """A change to think through."""

    title: ClassVar[Any]

    def change(self) -> Change:
        """The change that the valid form describes."""
        raise NotImplementedError


class GrantForm(ChangeForm):
    """A grant to give or to take back."""

    title = _("A grant")

    act = choice(_("What"), ACTS)
    who = forms.CharField(
        label=_("Who"),
        max_length=254,
        help_text=_("E-mail, team or “everyone”."),
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off"}),
    )
    verb = choice(_("May"), VERBS)
    project = autocomplete(Source, "project", _("Project"), required=False)
    source = autocomplete(Document, "source", _("or source"), required=False)
    document = autocomplete(DocumentVersion, "document", _("or document"), required=False)
    expires_at = forms.SplitDateTimeField(
        label=_("Until"), required=False, widget=UnfoldAdminSplitDateTimeWidget
    )

    def clean(self) -> dict[str, Any]:
        """Exactly one object, and a principal of this organisation."""
        values: dict[str, Any] = super().clean() or self.cleaned_data
        chosen = [values[name] for name in ("project", "source", "document") if values.get(name)]
        if len(chosen) != 1:
            self.add_error("project", _("Choose one project, source or document."))
        elif values.get("who"):
            values["obj"] = chosen[0]
            values["principal"] = find_principal(self.authority, make_storable(values["who"]).text)
            if values["principal"] is None:
                self.add_error("who", NOT_HERE)
        return values

    def change(self) -> GrantChange:
        values = self.cleaned_data
        return GrantChange(
            act=values["act"],
            principal=values["principal"],
            verb=Verb(values["verb"]),
            obj=values["obj"],
            expires_at=values["expires_at"],
        )


class TeamMemberForm(ChangeForm):
    """A member who enters or leaves a team."""

    title = _("A member of a team")

    member = autocomplete(TeamMembership, "membership", _("Person"))
    act = choice(_("What"), MOVES)
    team = team_choice(_("Team"))

    def change(self) -> TeamMembershipChange:
        values = self.cleaned_data
        return TeamMembershipChange(
            act=values["act"], team=values["team"], membership=values["member"]
        )


class TeamParentForm(ChangeForm):
    """A team's place among teams."""

    title = _("A team's place")

    team = team_choice(_("Team"))
    parent = team_choice(_("Part of"), required=False)

    def change(self) -> TeamParentChange:
        return TeamParentChange(team=self.cleaned_data["team"], parent=self.cleaned_data["parent"])


class SourceProjectForm(ChangeForm):
    """A source's project."""

    title = _("A source's project")

    source = autocomplete(Document, "source", _("Source"))
    project = autocomplete(Source, "project", _("Project"), required=False)

    def change(self) -> SourceProjectChange:
        values = self.cleaned_data
        return SourceProjectChange(source=values["source"], project=values["project"])


class AclStateForm(ChangeForm):
    """Whom a document follows."""

    title = _("A document's visibility")

    document = autocomplete(DocumentVersion, "document", _("Document"))
    state = choice(_("Visible"), Document.AclState.choices)

    def change(self) -> AclStateChange:
        values = self.cleaned_data
        return AclStateChange(document=values["document"], state=Document.AclState(values["state"]))


class MemberStateForm(ChangeForm):
    """A member's standing."""

    title = _("A member's standing")

    member = autocomplete(TeamMembership, "membership", _("Person"))
    state = choice(
        _("Is then"),
        [
            (Membership.State.SUSPENDED.value, Membership.State.SUSPENDED.label),
            (Membership.State.ACTIVE.value, Membership.State.ACTIVE.label),
        ],
    )

    def change(self) -> MembershipStateChange:
        values = self.cleaned_data
        return MembershipStateChange(
            membership=values["member"], state=Membership.State(values["state"])
        )


CHANGE_FORMS: dict[str, type[ChangeForm]] = {
    "grant": GrantForm,
    "team-member": TeamMemberForm,
    "team-parent": TeamParentForm,
    "source-project": SourceProjectForm,
    "acl-state": AclStateForm,
    "member-state": MemberStateForm,
}
