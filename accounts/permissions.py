"""Grants: who was given which verb on which object. The only importer of django-guardian.

guardian stores the rows and is never asked: it knows no nesting, inheritance or organisation-wide
grants. Whether somebody may do something is answered by `accounts.relation` alone.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import models
from guardian.models import GroupObjectPermissionBase, UserObjectPermissionBase

from kaizen.kernel.clock import now
from kaizen.kernel.errors import Invalid

if TYPE_CHECKING:
    from accounts.models import Team, User


class Verb(StrEnum):
    """What may be done with an object. `IMPLIED_BY` says which stored verbs answer for it."""

    VIEW = "view"
    USE = "use"
    CHANGE = "change"
    SHARE = "share"
    MANAGE = "manage"


# manage > share, change > use > view: expanded when read, so that a grant stays one row.
IMPLIED_BY: dict[Verb, tuple[Verb, ...]] = {
    Verb.VIEW: (Verb.VIEW, Verb.USE, Verb.CHANGE, Verb.SHARE, Verb.MANAGE),
    Verb.USE: (Verb.USE, Verb.CHANGE, Verb.SHARE, Verb.MANAGE),
    Verb.CHANGE: (Verb.CHANGE, Verb.MANAGE),
    Verb.SHARE: (Verb.SHARE, Verb.MANAGE),
    Verb.MANAGE: (Verb.MANAGE,),
}


class Origin(models.TextChoices):
    """Where a grant comes from; part of its identity, so that a sync never removes a person's
    grant.
    """

    MANUAL = "manual", "by hand"
    CONNECTOR = "connector", "from the source system"
    SHARE = "share", "shared by a member"


def verbs_of(model_name: str) -> list[Any]:
    """The `Meta.permissions` of a grantable model: one per verb."""
    return [(f"{verb}_{model_name}", f"Can {verb} {model_name}") for verb in Verb]


class GrantBase(models.Model):
    """What every grant row carries beside principal, permission and object."""

    organization = models.ForeignKey(
        "accounts.Organization", on_delete=models.CASCADE, related_name="+"
    )
    origin = models.CharField(max_length=16, choices=Origin.choices, default=Origin.MANUAL)
    granted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    granted_at = models.DateTimeField(default=now)
    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True


class UserGrantBase(GrantBase, UserObjectPermissionBase):
    """A grant to one person. Subclasses add `content_object`, a foreign key with
    `to_field="key"`.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")

    class Meta:
        abstract = True


class TeamGrantBase(GrantBase, GroupObjectPermissionBase):
    """A grant to a team (or to everyone, which is a team of its own kind)."""

    group = models.ForeignKey("auth.Group", on_delete=models.CASCADE, related_name="+")

    class Meta:
        abstract = True


def user_grant_constraints(name: str) -> dict[str, Any]:
    """`Meta` members of a user grant table: identity, and the reverse index for "who can see
    this".
    """
    return {
        "unique_together": [("organization", "user", "permission", "content_object", "origin")],
        "indexes": [
            models.Index(fields=["user", "permission", "content_object"], name=f"{name}_user"),
            models.Index(fields=["content_object", "permission", "user"], name=f"{name}_object"),
        ],
    }


def team_grant_constraints(name: str) -> dict[str, Any]:
    """`Meta` members of a team grant table."""
    return {
        "unique_together": [("organization", "group", "permission", "content_object", "origin")],
        "indexes": [
            models.Index(fields=["group", "permission", "content_object"], name=f"{name}_group"),
            models.Index(fields=["content_object", "permission", "group"], name=f"{name}_object"),
        ],
    }


def user_grants_of(model: type[models.Model]) -> type[UserGrantBase]:
    """The direct-foreign-key table that holds grants of `model` to people."""
    return _grant_table(model, UserGrantBase)


def team_grants_of(model: type[models.Model]) -> type[TeamGrantBase]:
    """The direct-foreign-key table that holds grants of `model` to teams."""
    return _grant_table(model, TeamGrantBase)


G = TypeVar("G", bound=GrantBase)


@cache
def _grant_table(model: type[models.Model], base: type[G]) -> type[G]:
    # guardian's own look-up follows reverse relations, which these tables don't have
    # (`related_name="+"`).
    for table in apps.get_models():
        if (
            issubclass(table, base)
            and table._meta.get_field("content_object").related_model is model
        ):
            return table
    raise LookupError(f"{model.__name__} can't be granted")


@cache
def permission_id(model: type[models.Model], verb: Verb) -> int:
    """The id of the permission row for one verb on one type. Fixed once migrated."""
    content_type = ContentType.objects.get_for_model(model)
    return Permission.objects.get(
        content_type=content_type, codename=f"{verb}_{model._meta.model_name}"
    ).pk


def permission_ids(model: type[models.Model], verb: Verb) -> list[int]:
    """The ids of every stored verb that answers for `verb` on `model`."""
    return [permission_id(model, stored) for stored in IMPLIED_BY[verb]]


def store_grant(
    principal: User | Team,
    verb: Verb,
    obj: models.Model,
    *,
    granted_by_id: int | None,
    origin: Origin = Origin.MANUAL,
    expires_at: datetime | None = None,
) -> bool:
    """Write one grant row. Returns False when the very same grant stood already.

    Raises Invalid when the principal belongs to another organisation than the object. Rights of
    the caller are checked by `accounts.services.grant`, which is what everything else calls.
    """
    model, principal_fields = _row(principal, obj)
    organization_id = obj.organization_id  # type: ignore[attr-defined]
    _, created = model._default_manager.get_or_create(
        organization_id=organization_id,
        permission_id=permission_id(type(obj), verb),
        content_object=obj,
        origin=origin,
        **principal_fields,
        defaults={"granted_by_id": granted_by_id, "expires_at": expires_at},
    )
    return created


def delete_grant(
    principal: User | Team, verb: Verb, obj: models.Model, *, origin: Origin = Origin.MANUAL
) -> bool:
    """Delete one grant row; gone in the very next statement. Returns False when there was none."""
    model, principal_fields = _row(principal, obj)
    count, _ = model._default_manager.filter(
        permission_id=permission_id(type(obj), verb),
        content_object=obj,
        origin=origin,
        **principal_fields,
    ).delete()
    return count > 0


def change_expiry(
    principal: User | Team,
    verb: Verb,
    obj: models.Model,
    *,
    origin: Origin,
    expires_at: datetime | None,
) -> bool:
    """Set the end of a standing grant. Returns False when it had that end already."""
    model, principal_fields = _row(principal, obj)
    rows = model._default_manager.filter(
        permission_id=permission_id(type(obj), verb),
        content_object=obj,
        origin=origin,
        **principal_fields,
    )
    return rows.exclude(expires_at=expires_at).update(expires_at=expires_at) > 0


def list_grant_rows(
    obj: models.Model, *, limit: int
) -> tuple[list[UserGrantBase], list[TeamGrantBase]]:
    """The grant rows on `obj`: people's by e-mail, then teams' by name."""
    people = user_grants_of(type(obj))._default_manager.filter(content_object=obj)
    teams = team_grants_of(type(obj))._default_manager.filter(content_object=obj)
    return (
        list(people.select_related("user", "permission").order_by("user__email", "id")[:limit]),
        list(
            teams.select_related("group__team", "permission").order_by("group__team__label", "id")[
                :limit
            ]
        ),
    )


@cache
def grantable_models() -> dict[str, type[models.Model]]:
    """Every type that grants exist for, by its model name. Complete once all apps are loaded."""
    return {
        model._meta.model_name or "": model
        for model in apps.get_models()
        if any(
            codename == f"{Verb.VIEW}_{model._meta.model_name}"
            for codename, _ in model._meta.permissions
        )
    }


def _row(principal: User | Team, obj: models.Model) -> tuple[type[models.Model], dict[str, Any]]:
    if hasattr(principal, "group_ptr_id"):
        if principal.organization_id != obj.organization_id:  # type: ignore[attr-defined,union-attr]
            raise Invalid("That team belongs to another organisation.")
        return team_grants_of(type(obj)), {"group_id": principal.group_ptr_id}
    return user_grants_of(type(obj)), {"user_id": principal.pk}
