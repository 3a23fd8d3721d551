"""Sharing: who may pass on which verb on an object, and to whom. The only caller of the grant rows'
writers.

An app whose objects inherit (sources, documents) registers its own rule at start-up, so that this
room needs to know no other. A role opens configuration objects to an admin; what is personal is
shared by its holders only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.db import models, transaction

from accounts import relation
from accounts.authority import Authority, Capability
from accounts.models import Membership, Team, User
from accounts.permissions import (
    Origin,
    Verb,
    change_expiry,
    delete_grant,
    grantable_models,
    list_grant_rows,
    store_grant,
)
from accounts.relation import parse_id
from audit.record import record
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Denied, Invalid, Missing

Rule = Callable[[Authority, Verb], models.QuerySet[Any]]
_rules: dict[type[models.Model], Rule] = {}

# Sharing these is up to the people who hold them; a role alone opens none.
PERSONAL_TYPES = frozenset({"conversation", "task"})
NOT_HERE = "That person or team isn't in this organisation."


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One grant as a person sees it. `principal_id` is a person's or team's public id."""

    principal: Literal["person", "team", "everyone"]
    principal_id: UUID
    label: str
    verb: Verb
    origin: Origin
    granted_at: datetime
    expires_at: datetime | None


def register_rule(model: type[models.Model], rule: Rule) -> None:
    """Make `rule` the answer for who holds which verb on objects of `model`. Called at start-up."""
    _rules[model] = rule


def holding(authority: Authority, model: type[models.Model], verb: Verb) -> models.QuerySet[Any]:
    """The objects of `model` on which the caller holds `verb`, by the type's own rule."""
    rule = _rules.get(model)
    return rule(authority, verb) if rule else relation.visible(authority, model, verb)


def get_shareable(authority: Authority, *, type_name: str, object_id: UUID | str) -> models.Model:
    """The object of a grantable type that the caller sees or configures. Raises Missing
    otherwise.
    """
    model = grantable_models().get(type_name)
    if model is None:
        raise Missing
    identity = parse_id(object_id)
    if _configures(authority, model):
        seen = model._default_manager.filter(organization_id=authority.organization_id)
    else:
        seen = holding(authority, model, Verb.VIEW)
    found: models.Model | None = seen.filter(pk=identity).first()
    if found is None:
        raise Missing
    return found


@transaction.atomic
def grant(
    authority: Authority,
    *,
    principal: User | Team,
    verb: Verb,
    obj: models.Model,
    expires_at: datetime | None = None,
) -> bool:
    """Give `principal` one verb on `obj`; a standing grant only gets the new expiry. Returns
    whether it is new.

    Raises Missing when the caller doesn't see the object, Denied without the right to share it or
    when they pass on a verb they lack, Invalid for a principal outside the organisation or an
    expiry in the past.
    """
    check_may_share(authority, verb=verb, obj=obj)
    _check_principal(authority, principal)
    if expires_at is not None and expires_at <= now():
        raise Invalid("The end of a grant lies in the future.")
    origin = Origin.MANUAL if _configures(authority, type(obj)) else Origin.SHARE
    created = store_grant(
        principal, verb, obj, granted_by_id=authority.user_id, origin=origin, expires_at=expires_at
    )
    changed = created or change_expiry(principal, verb, obj, origin=origin, expires_at=expires_at)
    if changed:
        record(
            authority,
            "accounts.grant_added",
            subject=obj,
            data={
                **_described(principal, verb),
                "expires_at": expires_at.isoformat() if expires_at else None,
            },
        )
    return created


@transaction.atomic
def revoke(authority: Authority, *, principal: User | Team, verb: Verb, obj: models.Model) -> bool:
    """Take one verb back; effective in the very next statement. Returns False when there was no
    such grant.

    Who only shares takes back what was shared; who manages or configures also what was granted by
    hand. Grants from a source system stay: they follow that system. Raises as `grant` does.
    """
    check_may_share(authority, verb=verb, obj=obj)
    _check_principal(authority, principal, also_gone=True)
    origins = [Origin.SHARE]
    if _configures(authority, type(obj)) or _holds(authority, Verb.MANAGE, obj):
        origins.append(Origin.MANUAL)
    removed = [origin for origin in origins if delete_grant(principal, verb, obj, origin=origin)]
    if removed:
        record(authority, "accounts.grant_removed", subject=obj, data=_described(principal, verb))
    return bool(removed)


def list_grants(authority: Authority, *, obj: models.Model) -> list[Grant]:
    """Who was given what on `obj` directly, people first; at most 500. Raises as `grant` does."""
    check_may_share(authority, verb=Verb.VIEW, obj=obj)
    people, teams = list_grant_rows(obj, limit=500)
    return [
        *(_as_grant(row, "person", row.user.public_id, row.user.email) for row in people),
        *(
            _as_grant(
                row,
                "everyone" if row.group.team.kind == Team.Kind.EVERYONE else "team",
                row.group.team.uuid,
                row.group.team.label,
            )
            for row in teams
        ),
    ]


def check_may_share(authority: Authority, *, verb: Verb, obj: models.Model) -> None:
    """Raise unless the caller may give or take `verb` on `obj`. A run never may."""
    if obj.organization_id != authority.organization_id:  # type: ignore[attr-defined]
        raise Missing
    if _configures(authority, type(obj)):
        return
    if not _holds(authority, Verb.VIEW, obj):
        raise Missing
    if authority.narrowing is not None or not _holds(authority, Verb.SHARE, obj):
        raise Denied("You may see this but not share it.")
    if not _holds(authority, verb, obj):
        raise Denied("You can only pass on what you may do yourself.")


def find_principal(authority: Authority, text: str) -> User | Team | None:
    """The person by e-mail, the team by name, or everyone, within the caller's organisation; or
    None.
    """
    wanted = text.strip()
    if wanted.lower() == "everyone":
        return Team.objects.get(organization_id=authority.organization_id, kind=Team.Kind.EVERYONE)
    if "@" in wanted:
        return _people(authority).filter(email__iexact=wanted).first()
    return (
        Team.objects.filter(organization_id=authority.organization_id, label__iexact=wanted)
        .order_by("uuid")
        .first()
    )


def get_principal(
    authority: Authority, *, kind: str, principal_id: UUID | str | None
) -> User | Team:
    """The principal named from outside by its public id. Raises Invalid, alike for unknown and
    foreign ones.
    """
    found: User | Team | None = None
    if kind == "everyone":
        found = find_principal(authority, "everyone")
    elif principal_id is not None:
        identity = parse_id(principal_id)
        if (
            kind == "person"
        ):  # Suspended ones too: what they hold can be taken away; `grant` refuses them.
            found = User.objects.filter(
                memberships__organization_id=authority.organization_id, public_id=identity
            ).first()
        elif kind == "team":
            found = Team.objects.filter(
                organization_id=authority.organization_id, uuid=identity
            ).first()
    if found is None:
        raise Invalid(NOT_HERE)
    return found


def _configures(authority: Authority, model: type[models.Model]) -> bool:
    return authority.may(Capability.CONFIGURE) and model._meta.model_name not in PERSONAL_TYPES


def _holds(authority: Authority, verb: Verb, obj: models.Model) -> bool:
    return holding(authority, type(obj), verb).filter(pk=obj.pk).exists()


def _people(authority: Authority) -> models.QuerySet[User]:
    return User.objects.filter(
        memberships__organization_id=authority.organization_id,
        memberships__state__in=[Membership.State.ACTIVE, Membership.State.INVITED],
    )


def _check_principal(
    authority: Authority, principal: User | Team, *, also_gone: bool = False
) -> None:
    if isinstance(principal, Team):
        known = principal.organization_id == authority.organization_id
    elif also_gone:  # What a suspended member holds can still be taken away.
        known = principal.memberships.filter(organization_id=authority.organization_id).exists()
    else:
        known = _people(authority).filter(pk=principal.pk).exists()
    if not known:
        raise Invalid(NOT_HERE)


def _described(principal: User | Team, verb: Verb) -> dict[str, str]:
    if isinstance(principal, Team):
        return {"verb": verb, "team": str(principal.uuid)}
    return {"verb": verb, "person": str(principal.public_id)}


def _as_grant(
    row: Any, principal: Literal["person", "team", "everyone"], principal_id: UUID, label: str
) -> Grant:
    return Grant(
        principal=principal,
        principal_id=principal_id,
        label=label,
        verb=Verb(row.permission.codename.partition("_")[0]),
        origin=Origin(row.origin),
        granted_at=row.granted_at,
        expires_at=row.expires_at,
    )
