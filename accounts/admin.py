"""The admin of people: the organisation itself, members, teams, projects, API keys. Writes through
services only.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Sequence
from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminEmailInputWidget,
    UnfoldAdminSelectWidget,
)

from accounts import services
from accounts.grant_section import GrantSection
from accounts.models import ApiKey, Membership, Organization, Project, Team
from accounts.team_section import TeamMembersSection
from kaizen.kernel.admin import (
    PEOPLE,
    ArchivableAdmin,
    OrganizationAdmin,
    authority_of,
    site,
)
from kaizen.kernel.admin_scope import OrganizationForm


class OrganizationSettingsForm(OrganizationForm):
    """Name, time zone and language of the organisation."""

    time_zone = forms.ChoiceField(
        choices=[(name, name) for name in sorted(zoneinfo.available_timezones())],
        widget=UnfoldAdminSelectWidget,
    )
    locale = forms.ChoiceField(choices=settings.LANGUAGES, widget=UnfoldAdminSelectWidget)


@admin.register(Organization, site=site)
class OrganizationSettingsAdmin(OrganizationAdmin):
    """One page: the caller's own organisation."""

    form = OrganizationSettingsForm
    addable = False
    group = "people"
    icon = "apartment"
    fields = ("name", "slug", "time_zone", "locale")
    readonly_fields = ("slug",)
    list_display = ("name", "slug", "time_zone")

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Straight to the only row."""
        own = authority_of(request).organization_id
        return HttpResponseRedirect(reverse("admin:accounts_organization_change", args=(own,)))


class InviteForm(OrganizationForm):
    """An invitation by e-mail."""

    email = forms.EmailField(label=_("E-mail"), max_length=254, widget=UnfoldAdminEmailInputWidget)

    class Meta:
        model = Membership
        fields: ClassVar = ["role"]


@admin.register(Membership, site=site)
class MembershipAdmin(OrganizationAdmin):
    """Members: invited by e-mail, given a role, suspended. The person's own data isn't
    edited here.
    """

    capability = PEOPLE
    group = "people"
    icon = "person"
    list_display = ("person", "role", "state", "created_at")
    list_filter = ("role", "state")
    list_select_related = ("user",)
    search_fields = ("user__email", "user__name")
    ordering = ("user__email",)
    fields = ("person", "role", "state")
    readonly_fields = ("person",)

    @admin.display(description=_("person"), ordering="user__email")
    def person(self, membership: Membership) -> str:
        """Name and e-mail."""
        user = membership.user
        return f"{user.name} <{user.email}>" if user.name else user.email

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return super().get_queryset(request).select_related("user")

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        if obj is None:
            kwargs["form"] = InviteForm
        return super().get_form(request, obj, change=change, **kwargs)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        return self.fields if obj is not None else ("email", "role")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        return self.readonly_fields if obj is not None else ()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        authority = authority_of(request)
        if change:
            stored = Membership.objects.select_related("user").get(pk=obj.pk)
            services.set_member_role(authority, membership=stored, role=obj.role)
            services.set_member_state(authority, membership=stored, state=obj.state)
            return
        invitation = services.invite_member(
            authority, email=form.cleaned_data["email"], role=form.cleaned_data["role"]
        )
        obj.pk, obj.user, obj.state = (
            invitation.membership.pk,
            invitation.membership.user,
            invitation.membership.state,
        )
        obj._state.adding = False
        request.once = invitation.path  # type: ignore[attr-defined]

    def log_addition(self, request: HttpRequest, obj: models.Model, message: Any) -> None:
        """The service wrote it down."""

    def log_change(self, request: HttpRequest, obj: models.Model, message: Any) -> None:
        """The service wrote it down."""

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        """The link to hand over, shown on this answer only and the same for every e-mail."""
        return shown_once(
            self,
            request,
            title=_("Invited"),
            text=_(
                "Give this link to the person. It sets a first password; "
                "who has one already simply signs in."
            ),
            secret=request.build_absolute_uri(request.once),  # type: ignore[attr-defined]
        )


class TeamForm(OrganizationForm):
    """A team's name and place."""

    parent = forms.ModelChoiceField(
        queryset=Team.objects.none(),
        to_field_name="uuid",
        required=False,
        label=_("Part of"),
        help_text=_("Members of this team are members of that one too."),
        widget=UnfoldAdminSelectWidget,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        others = Team.objects.filter(
            organization_id=self.organization_id, kind=Team.Kind.TEAM
        ).exclude(pk=self.instance.pk)
        self.fields["parent"].queryset = others  # type: ignore[attr-defined]
        if self.instance.parent_id:
            self.initial["parent"] = self.instance.parent.uuid

    class Meta:
        model = Team
        fields: ClassVar = ["label", "parent"]


@admin.register(Team, site=site)
class TeamAdmin(OrganizationAdmin):
    """Teams. Their integer ids are the framework's own and appear nowhere."""

    capability = PEOPLE
    form = TeamForm
    deletable = True
    public_id = "uuid"
    group = "people"
    icon = "groups"
    sections = (TeamMembersSection,)
    list_display = ("label", "kind", "part_of")
    list_select_related = ("parent",)
    search_fields = ("label",)
    ordering = ("label",)
    fields = ("label", "parent")
    actions = None

    @admin.display(description=_("part of"))
    def part_of(self, team: Team) -> str:
        """The team this one hangs on."""
        return team.parent.label if team.parent else ""

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and not _stands_for_everyone(obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and not _stands_for_everyone(obj)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        authority = authority_of(request)
        values = {"label": form.cleaned_data["label"], "parent": form.cleaned_data["parent"]}
        if change:
            services.change_team(authority, team=obj, **values)
            return
        team = services.create_team(authority, **values)
        obj.__dict__.update(team.__dict__)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        services.delete_team(authority_of(request), team=obj)

    def log_addition(self, request: HttpRequest, obj: models.Model, message: Any) -> None:
        """The service wrote it down."""

    def log_change(self, request: HttpRequest, obj: models.Model, message: Any) -> None:
        """The service wrote it down."""

    def log_deletions(self, request: HttpRequest, queryset: Any) -> None:
        """The service writes it down."""

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        messages.success(request, _("The team was added."))
        return HttpResponseRedirect(reverse("admin:accounts_team_change", args=(obj.uuid,)))

    def response_delete(self, request: HttpRequest, obj_display: str, obj_id: Any) -> HttpResponse:
        messages.success(request, _("The team was deleted."))
        return HttpResponseRedirect(reverse("admin:accounts_team_changelist"))


@admin.register(Project, site=site)
class ProjectAdmin(ArchivableAdmin):
    """Projects and who takes part."""

    group = "knowledge"
    icon = "folder"
    sections = (GrantSection,)
    list_display = ("name", "archived_at", "created_at")
    search_fields = ("name",)
    ordering = ("name",)
    fields = ("name", "description")


class KeyForm(OrganizationForm):
    """A new key for oneself."""

    scopes = forms.MultipleChoiceField(
        label=_("May"), choices=ApiKey.Scope.choices, widget=UnfoldAdminCheckboxSelectMultipleWidget
    )

    class Meta:
        model = ApiKey
        fields: ClassVar = ["name", "scopes", "expires_at"]


@admin.register(ApiKey, site=site)
class ApiKeyAdmin(OrganizationAdmin):
    """Everybody's keys, to look at and revoke; a new one is always one's own."""

    capability = PEOPLE
    form = KeyForm
    changeable = False
    group = "people"
    icon = "key"
    list_display = ("name", "prefix", "owner", "scopes", "expires_at", "last_used_at", "revoked_at")
    list_select_related = ("membership__user",)
    list_filter = ("revoked_at",)
    search_fields = ("name", "prefix")
    ordering = ("-id",)
    fields = ("name", "scopes", "expires_at")
    actions = ("revoke",)

    @admin.display(description=_("acts as"))
    def owner(self, key: ApiKey) -> str:
        """Whom the key acts as."""
        return key.membership.user.email

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        return self.fields if obj is None else self.list_display

    @action(description=_("Revoke"), permissions=["add"])
    def revoke(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """End the selected keys at once."""
        for key in queryset:
            services.revoke_key(authority_of(request), key=key)
        messages.success(request, _("Revoked."))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        key, secret = services.create_key(
            authority_of(request),
            name=form.cleaned_data["name"],
            scopes=form.cleaned_data["scopes"],
            expires_at=form.cleaned_data["expires_at"],
        )
        obj.__dict__.update(key.__dict__)
        request.once = secret  # type: ignore[attr-defined]

    def log_addition(self, request: HttpRequest, obj: models.Model, message: Any) -> None:
        """The service wrote it down."""

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        return shown_once(
            self,
            request,
            title=_("Your new API key"),
            text=_("Copy it now. It is kept nowhere and can't be shown again."),
            secret=request.once,  # type: ignore[attr-defined]
        )


def shown_once(
    model_admin: OrganizationAdmin, request: HttpRequest, *, title: Any, text: Any, secret: str
) -> HttpResponse:
    """A page that shows a secret on this very answer, without passing it through a cookie or the
    session.
    """
    context = {
        **model_admin.admin_site.each_context(request),
        "title": title,
        "text": text,
        "secret": secret,
        "opts": model_admin.opts,
        "back": reverse(
            f"admin:{model_admin.opts.app_label}_{model_admin.opts.model_name}_changelist"
        ),
    }
    response = TemplateResponse(request, "admin/shown_once.html", context)
    response["Cache-Control"] = "no-store"
    return response


def _stands_for_everyone(obj: Any) -> bool:
    return isinstance(obj, Team) and obj.kind == Team.Kind.EVERYONE
