"""Create and change what the accounts app holds: organisations, members, teams, projects, keys.

Sharing is in `accounts.sharing`, signing in and invitations' acceptance in `accounts.signing`; both
are named here too, since this is where other rooms look.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.db import IntegrityError, connection, transaction

from accounts.authority import Authority, Capability, key_digest
from accounts.invitations import Invitation, invite_member, set_member_role, set_member_state
from accounts.models import (
    ApiKey,
    Idempotency,
    Membership,
    Organization,
    Project,
    Role,
    Team,
    TeamMembership,
    User,
)
from accounts.permissions import Verb, store_grant
from accounts.sharing import grant, list_grants, revoke
from audit.record import record, record_system
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Conflict, Denied, Invalid, Missing
from kaizen.kernel.models import uuid7
from kaizen.kernel.text import is_blank, make_storable

__all__ = [
    "Invitation",
    "add_to_team",
    "change_team",
    "create_key",
    "create_organization",
    "create_project",
    "create_team",
    "delete_team",
    "grant",
    "invite_member",
    "list_grants",
    "remember",
    "remove_from_team",
    "revoke",
    "revoke_key",
    "set_member_role",
    "set_member_state",
]

LONGEST_KEY_LIFE = timedelta(days=366)
DEEPEST_NESTING = 10


@transaction.atomic
def create_organization(*, name: str, slug: str, owner: User) -> Organization:
    """A new tenant with its everyone-team and one owner. For the platform's operator; no member may
    call it.

    Raises Invalid for a slug that can't stand in an address, Conflict when it is taken.
    """
    try:
        validate_slug(slug)
    except ValidationError:
        raise Invalid("A slug has letters, digits, hyphens and underscores only.") from None
    if len(slug) > 40:
        raise Invalid("A slug has at most 40 characters.")
    if Organization.objects.filter(slug=slug).exists():
        raise Conflict(f"There is an organisation at /o/{slug}/ already.")
    organization = Organization.objects.create(name=_name(name), slug=slug)
    _insert_team(organization.id, label="Everyone", kind=Team.Kind.EVERYONE, parent=None)
    Membership.objects.create(
        organization=organization, user=owner, role=Role.OWNER, state=Membership.State.ACTIVE
    )
    record_system(
        organization.id,
        "accounts.organization_created",
        subject=organization,
        data={"slug": slug},
        actor_id=owner.public_id,
    )
    return organization


@transaction.atomic
def create_team(authority: Authority, *, label: str, parent: Team | None = None) -> Team:
    """A team without members. Raises Denied, Conflict for a taken name, Missing for a foreign
    parent.
    """
    authority.check(Capability.PEOPLE)
    label = _name(label)
    _check_parent(authority, team=None, parent=parent)
    _check_label(authority, label, team=None)
    team = _insert_team(authority.organization_id, label=label, kind=Team.Kind.TEAM, parent=parent)
    record(
        authority,
        "accounts.team_changed",
        subject=team,
        data={"act": "created", "team": str(team.uuid)},
    )
    return team


@transaction.atomic
def change_team(authority: Authority, *, team: Team, label: str, parent: Team | None) -> Team:
    """Rename a team or hang it elsewhere. Raises Invalid for a circle or for everyone's team being
    nested.
    """
    _check_team(authority, team)
    label = _name(label)
    _check_parent(authority, team=team, parent=parent)
    _check_label(authority, label, team=team)
    changed = [
        name
        for name, value in (("label", label), ("parent", parent))
        if Team.objects.values_list(name, flat=True).get(pk=team.pk)
        != (value.pk if isinstance(value, Team) else value)
    ]
    team.label, team.parent = label, parent
    team.save(update_fields=["label", "parent"])
    if changed:
        record(
            authority,
            "accounts.team_changed",
            subject=team,
            data={"act": "changed", "team": str(team.uuid), "fields": changed},
        )
    return team


@transaction.atomic
def delete_team(authority: Authority, *, team: Team) -> None:
    """Remove a team, its places and its grants. Raises Conflict while other teams hang on it."""
    _check_team(authority, team)
    if team.kind == Team.Kind.EVERYONE:
        raise Invalid("The team that stands for everyone stays.")
    if team.children.exists():
        raise Conflict("Other teams are nested in this one. Move them first.")
    record(
        authority,
        "accounts.team_changed",
        subject=team,
        data={"act": "deleted", "team": str(team.uuid)},
    )
    team.delete()


@transaction.atomic
def add_to_team(
    authority: Authority,
    *,
    team: Team,
    membership: Membership,
    role: str = TeamMembership.TeamRole.MEMBER,
) -> TeamMembership:
    """Give a member a place in a team, or another role in it."""
    _check_team(authority, team)
    if membership.organization_id != authority.organization_id:
        raise Missing
    if team.kind == Team.Kind.EVERYONE:
        raise Invalid("Everyone is in this team already.")
    if role not in TeamMembership.TeamRole.values:
        raise Invalid("A place in a team is that of a lead or a member.")
    place, created = TeamMembership.objects.update_or_create(
        organization_id=authority.organization_id,
        team=team,
        membership=membership,
        defaults={"role": role},
    )
    record(
        authority,
        "accounts.team_changed",
        subject=team,
        data={
            "act": "member_added" if created else "member_changed",
            "team": str(team.uuid),
            "membership": str(membership.id),
            "role": role,
        },
    )
    return place


@transaction.atomic
def remove_from_team(authority: Authority, *, team: Team, membership: Membership) -> None:
    """Take a member's place in a team away; what they saw through it is gone with the next
    statement.
    """
    _check_team(authority, team)
    count, _ = TeamMembership.objects.filter(
        organization_id=authority.organization_id, team=team, membership=membership
    ).delete()
    if count:
        record(
            authority,
            "accounts.team_changed",
            subject=team,
            data={
                "act": "member_removed",
                "team": str(team.uuid),
                "membership": str(membership.id),
            },
        )


@transaction.atomic
def create_project(authority: Authority, *, name: str, description: str = "") -> Project:
    """A project that its maker manages. Raises Denied, Conflict for a taken name."""
    authority.check(Capability.CONFIGURE)
    name = _name(name)
    if Project.objects.filter(organization_id=authority.organization_id, name=name).exists():
        raise Conflict("There is a project of this name already.")
    project = Project.objects.create(
        organization_id=authority.organization_id,
        name=name,
        description=make_storable(description).text,
    )
    store_grant(
        User.objects.get(pk=authority.user_id),
        Verb.MANAGE,
        project,
        granted_by_id=authority.user_id,
    )
    record(authority, "accounts.project_created", subject=project)
    return project


@transaction.atomic
def create_key(
    authority: Authority, *, name: str, scopes: Iterable[str], expires_at: datetime
) -> tuple[ApiKey, str]:
    """A key that acts as the caller. Returns it with its secret, which is kept nowhere.

    Raises Invalid for unknown scopes or an expiry that is past or over a year away, Denied when a
    key asks for a scope it lacks or a run asks at all.
    """
    if authority.narrowing is not None:
        raise Denied
    wanted = sorted(set(scopes))
    if not wanted or not set(wanted) <= set(ApiKey.Scope.values):
        raise Invalid(f"Choose at least one of these scopes: {', '.join(ApiKey.Scope.values)}.")
    for scope in wanted:
        authority.check_scope(scope)
    if not now() < expires_at <= now() + LONGEST_KEY_LIFE:
        raise Invalid("A key ends in the future, at most a year from now.")
    secret = f"kz_{secrets.token_urlsafe(32)}"
    key = ApiKey.objects.create(
        organization_id=authority.organization_id,
        membership_id=authority.membership_id,
        name=_name(name, longest=80),
        prefix=secret[:10],
        digest=key_digest(secret),
        scopes=wanted,
        expires_at=expires_at,
    )
    record(
        authority,
        "accounts.key_created",
        subject=key,
        data={"scopes": wanted, "expires_at": expires_at.isoformat()},
    )
    return key, secret


@transaction.atomic
def revoke_key(authority: Authority, *, key: ApiKey) -> None:
    """End a key at once: one's own, or anybody's with the right over people. Raises Missing
    otherwise.
    """
    own = key.membership_id == authority.membership_id
    if key.organization_id != authority.organization_id or not (
        own or authority.may(Capability.PEOPLE)
    ):
        raise Missing
    if ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=now()):
        record(authority, "accounts.key_revoked", subject=key)


@transaction.atomic
def remember(
    authority: Authority, *, route: str, key: str, digest: str, make: Callable[[], UUID]
) -> tuple[UUID, bool]:
    """Do `make` once per idempotency key. Returns its id and whether this is a repeat.

    A second caller with the same key waits for the first. Raises Conflict when the key came with
    another request before, Invalid for a key that can't be kept. Nothing is remembered when `make`
    raises.
    """
    if not 0 < len(key) <= 255 or not key.isprintable():
        raise Invalid("An Idempotency-Key has 1 to 255 printable characters.")
    who = {"organization_id": authority.organization_id, "user_id": authority.user_id}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))",
            [f"{authority.organization_id} {authority.user_id} {route} {key}"],
        )
    earlier = Idempotency.objects.filter(**who, route=route, key=key).first()
    if earlier is not None:
        if earlier.request_digest != digest:
            raise Conflict(
                "This Idempotency-Key was used for another request.", code="idempotency_key"
            )
        return earlier.result_id, True
    result = make()
    Idempotency.objects.create(**who, route=route, key=key, request_digest=digest, result_id=result)
    return result, False


def _insert_team(organization_id: UUID, *, label: str, kind: str, parent: Team | None) -> Team:
    identity = uuid7()
    try:
        with transaction.atomic():
            return Team.objects.create(
                organization_id=organization_id,
                uuid=identity,
                name=str(identity),
                label=label,
                kind=kind,
                parent=parent,
            )
    except IntegrityError:
        raise Conflict("There is a team of this name already.") from None


def _check_team(authority: Authority, team: Team) -> None:
    authority.check(Capability.PEOPLE)
    if team.organization_id != authority.organization_id:
        raise Missing


def _check_label(authority: Authority, label: str, *, team: Team | None) -> None:
    others = Team.objects.filter(organization_id=authority.organization_id, label__iexact=label)
    if team is not None:
        others = others.exclude(pk=team.pk)
    if others.exists():
        raise Conflict("There is a team of this name already.")


def _check_parent(authority: Authority, *, team: Team | None, parent: Team | None) -> None:
    if parent is None:
        return
    if parent.organization_id != authority.organization_id:
        raise Missing
    if Team.Kind.EVERYONE in (parent.kind, team.kind if team else None):
        raise Invalid("The team that stands for everyone is neither nested nor nests others.")
    ancestor: Team | None = parent
    for _ in range(DEEPEST_NESTING):
        if ancestor is None:
            return
        if team is not None and ancestor.pk == team.pk:
            raise Invalid("A team can't be nested in itself.")
        ancestor = ancestor.parent
    raise Invalid(f"Teams nest at most {DEEPEST_NESTING} deep.")


def _name(text: str, *, longest: int = 120) -> str:
    """`text` as a name. Raises Invalid when it is blank or too long."""
    name = make_storable(text).text.strip()
    if is_blank(name):
        raise Invalid("Give it a name.")
    if len(name) > longest:
        raise Invalid(f"A name has at most {longest} characters.")
    return name
