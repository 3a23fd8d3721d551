"""The relation: the one answer to "may I", "which ones" and "why", for every grantable type.

It is SQL over the live grants: own ones, those of one's teams and their parents, and everyone's.
It is joined in the query and never applied to rows afterwards. `retrieval.acl` builds inheritance
and restriction on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

from django.db import models
from django.db.models.expressions import RawSQL

from accounts.permissions import Verb, permission_ids, team_grants_of, user_grants_of
from kaizen.kernel.errors import Denied, Missing

if TYPE_CHECKING:
    from accounts.authority import Authority

M = TypeVar("M", bound=models.Model)


class Fragment(NamedTuple):
    """A piece of SQL with its parameters, in order."""

    sql: str
    params: tuple[Any, ...]


# Each clause is named: a test removes them one by one and expects another test to fail.
OWN_GRANTS = """
SELECT g.content_object_id FROM {user_grants} g
WHERE g.organization_id = %s AND g.user_id = %s AND g.permission_id = ANY(%s)
  AND (g.expires_at IS NULL OR g.expires_at > now())
  AND EXISTS (SELECT 1 FROM accounts_principals(%s, %s))
"""
TEAM_GRANTS = """
SELECT g.content_object_id FROM {team_grants} g
WHERE g.organization_id = %s AND g.permission_id = ANY(%s)
  AND (g.expires_at IS NULL OR g.expires_at > now())
  AND g.group_id IN (SELECT accounts_principals(%s, %s))
"""


def granted(authority: Authority, model: type[models.Model], verb: Verb) -> Fragment:
    """A SELECT of the object keys of `model` on which the caller holds `verb`, by grants alone."""
    sql = (OWN_GRANTS + "UNION" + TEAM_GRANTS).format(
        user_grants=user_grants_of(model)._meta.db_table,
        team_grants=team_grants_of(model)._meta.db_table,
    )
    who = (authority.organization_id, authority.user_id)
    permissions = permission_ids(model, verb)
    return Fragment(sql, (*who, permissions, *who, authority.organization_id, permissions, *who))


def visible(authority: Authority, model: type[M], verb: Verb = Verb.VIEW) -> models.QuerySet[M]:
    """The objects of `model` on which the caller holds `verb`, as a queryset to build on."""
    fragment = granted(authority, model, verb)
    grants: Any = user_grants_of(model)
    target = grants._meta.get_field("content_object").target_field.name
    return model._default_manager.filter(
        organization_id=authority.organization_id,
        **{f"{target}__in": RawSQL(fragment.sql, fragment.params)},  # noqa: S611  parameters are bound
    )


def get(authority: Authority, model: type[M], object_id: UUID | str, verb: Verb = Verb.VIEW) -> M:
    """The object with public id `object_id`, if the caller holds `verb` on it.

    Raises Missing when it is absent or not visible (the same answer), Denied when visible but not
    so far.
    """
    return get_from(visible(authority, model, verb), visible(authority, model), object_id)


def get_from(allowed: models.QuerySet[M], seen: models.QuerySet[M], object_id: UUID | str) -> M:
    """`get` over given querysets: `allowed` holds the verb, `seen` may be viewed."""
    identity = parse_id(object_id)
    found = allowed.filter(pk=identity).first()
    if found is not None:
        return found
    if seen.filter(pk=identity).exists():
        raise Denied
    raise Missing


def parse_id(object_id: UUID | str) -> UUID:
    """A public id from outside. Raises Missing when it isn't one: a wrong id is an absent
    object.
    """
    if isinstance(object_id, UUID):
        return object_id
    try:
        return UUID(object_id)
    except ValueError:
        raise Missing from None
