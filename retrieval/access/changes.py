"""Changes of rights as values: what an admin thinks of saving, to be asked about before.

Promises: each kind names exactly what the service of that change takes. Not for: making a change,
or telling what it would do (`retrieval.access.what_if`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Literal

from django.db import models

from accounts.authority import Authority
from accounts.models import Membership, Project, Team, User
from accounts.permissions import Verb
from kaizen.kernel.errors import Missing
from retrieval.models import Document, Source

Act = Literal["add", "remove"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantChange:
    """A verb on an object is given or taken back."""

    act: Act
    principal: User | Team
    verb: Verb
    obj: Project | Source | Document
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamMembershipChange:
    """A member enters or leaves a team."""

    act: Act
    team: Team
    membership: Membership


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamParentChange:
    """A team is hung on another, or on none."""

    team: Team
    parent: Team | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProjectChange:
    """A source is put into a project, or into none."""

    source: Source
    project: Project | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AclStateChange:
    """A document follows its source, only its own grants, or nobody."""

    document: Document
    state: Document.AclState


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipStateChange:
    """A member is suspended or let back in."""

    membership: Membership
    state: Membership.State


Change = (
    GrantChange
    | TeamMembershipChange
    | TeamParentChange
    | SourceProjectChange
    | AclStateChange
    | MembershipStateChange
)


def as_it_stands(authority: Authority, change: Change) -> Change:
    """The change with its rows read anew, so that the caller's own stay as they are.

    Raises Missing for rows of another organisation.
    """
    fresh: dict[str, Any] = {}
    for item in fields(change):
        row = getattr(change, item.name)
        if isinstance(row, models.Model) and not isinstance(row, User):
            found = type(row)._default_manager.filter(
                organization_id=authority.organization_id, pk=row.pk
            )
            fresh[item.name] = found.first()
            if fresh[item.name] is None:
                raise Missing
    return replace(change, **fresh)


def describe(change: Change) -> dict[str, Any]:
    """The change as the audit keeps it: public ids, and what it is mainly about."""
    match change:
        case GrantChange(principal=principal):
            who = (
                ("team", principal.uuid)
                if isinstance(principal, Team)
                else ("person", principal.public_id)
            )
            return {
                "subject": change.obj,
                "change": f"grant_{change.act}",
                "verb": change.verb,
                who[0]: str(who[1]),
            }
        case TeamMembershipChange(team=team, membership=membership):
            return {
                "subject": team,
                "change": f"team_member_{change.act}",
                "team": str(team.uuid),
                "membership": str(membership.pk),
            }
        case TeamParentChange(team=team, parent=parent):
            return {
                "subject": team,
                "change": "team_parent",
                "team": str(team.uuid),
                "parent": str(parent.uuid) if parent else None,
            }
        case SourceProjectChange(source=source, project=project):
            return {
                "subject": source,
                "change": "source_project",
                "project": str(project.pk) if project else None,
            }
        case AclStateChange(document=document, state=state):
            return {"subject": document, "change": "acl_state", "state": state}
        case MembershipStateChange(membership=membership, state=state):
            return {"subject": membership, "change": "member_state", "state": state}
