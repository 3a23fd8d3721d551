"""The table of members within a team's form. Writes through `accounts.services` only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from accounts import services
from accounts.models import Membership, TeamMembership
from accounts.relation import parse_id
from kaizen.kernel.admin_sections import Section, SectionForm
from kaizen.kernel.admin_site import authority_of
from kaizen.kernel.errors import Missing

NOT_HERE = _("Nobody with this e-mail is in this organisation.")
MOST_SHOWN = 500


class TeamMemberForm(SectionForm):
    """One place in the team."""

    fixed: ClassVar[Sequence[str]] = ("email",)

    email = forms.CharField(
        label=_("E-mail"),
        required=False,
        max_length=254,
        widget=UnfoldAdminTextInputWidget(attrs={"placeholder": _("E-mail of a member")}),
    )
    role = forms.ChoiceField(
        label=_("As"),
        choices=TeamMembership.TeamRole.choices,
        initial=TeamMembership.TeamRole.MEMBER,
        required=False,
        widget=UnfoldAdminSelectWidget,
    )

    def clean(self) -> dict[str, Any]:
        """Find the membership within the organisation."""
        values: dict[str, Any] = super().clean() or self.cleaned_data
        members = Membership.objects.for_authority(authority_of(self.request))
        values["membership"] = None
        if values.get("row"):
            try:
                identity = parse_id(values["row"])
            except Missing:
                raise forms.ValidationError(NOT_HERE) from None
            values["membership"] = members.filter(pk=identity).first()
        elif values.get("email"):
            values["membership"] = members.filter(user__email__iexact=values["email"]).first()
        elif not self.has_changed():
            return values
        if values["membership"] is None:
            self.add_error("email", NOT_HERE)
        return values


class TeamMembersSection(Section):
    """Who is in the team."""

    prefix = "team-members"
    title = _("Members")
    columns = (_("Member"), _("As"), "")
    form = TeamMemberForm

    @classmethod
    def list_rows(cls, request: HttpRequest, obj: Any) -> list[dict[str, Any]]:
        """The places that are taken."""
        places = (
            TeamMembership.objects.for_authority(authority_of(request))
            .filter(team=obj)
            .select_related("membership__user")
            .order_by("membership__user__email")
        )
        return [
            {
                "row": str(place.membership_id),
                "label": place.membership.user.email,
                "email": place.membership.user.email,
                "role": place.role,
            }
            for place in places[:MOST_SHOWN]
        ]

    @classmethod
    def apply(cls, request: HttpRequest, obj: Any, values: dict[str, Any]) -> None:
        """Give, change or take a place."""
        membership = values.get("membership")
        if membership is None:
            return
        authority = authority_of(request)
        if values.get("remove"):
            services.remove_from_team(authority, team=obj, membership=membership)
        else:
            services.add_to_team(
                authority,
                team=obj,
                membership=membership,
                role=values.get("role") or TeamMembership.TeamRole.MEMBER,
            )
