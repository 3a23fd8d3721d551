"""Reads of the accounts app."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.models import AnonymousUser

from accounts.authority import Authority
from accounts.models import Membership, Organization, Team, User


def list_memberships(user: User | AnonymousUser | None) -> list[Membership]:
    """The active memberships of a person, by organisation name; at most 100. None: a key's."""
    if user is None or not user.is_authenticated:
        return []
    return list(
        Membership.objects.filter(
            user_id=user.pk,
            state=Membership.State.ACTIVE,
            organization__state=Organization.State.ACTIVE,
        )
        .select_related("organization", "user")
        .order_by("organization__name")[:100]
    )


def get_everyone(organization_id: UUID) -> Team:
    """The team that stands for everyone in an organisation."""
    return Team.objects.get(organization_id=organization_id, kind=Team.Kind.EVERYONE)


def get_organization(authority: Authority) -> Organization:
    """The caller's organisation."""
    return Organization.objects.get(pk=authority.organization_id)
