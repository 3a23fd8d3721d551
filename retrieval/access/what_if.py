"""What a change of rights would do, before it is saved: who gains and who loses how many documents.

Promises: the change is made by the very service that would save it, in a savepoint that is rolled
back, and the relation is asked before and after; nothing stays of it, neither rows nor audit nor
jobs. Needs the right to configure and those of the change. Every question is audited.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from django.db import models, transaction

from accounts.authority import Authority, Capability
from accounts.explain import members_reached
from accounts.models import Membership, Project, Team
from accounts.permissions import team_grants_of, user_grants_of
from accounts.services import (
    add_to_team,
    change_team,
    grant,
    remove_from_team,
    revoke,
    set_member_state,
)
from audit.record import record
from retrieval.access.changes import (
    AclStateChange,
    Change,
    GrantChange,
    MembershipStateChange,
    SourceProjectChange,
    TeamMembershipChange,
    TeamParentChange,
    as_it_stands,
    describe,
)
from retrieval.access.snapshots import Difference, Snapshot, only_in, take_snapshot
from retrieval.documents import set_acl_state
from retrieval.models import Document, Source
from retrieval.sources import move_source

# Above this many people whom a change can touch, the first ones by e-mail are compared and the
# answer says how many there are.
MOST_PEOPLE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonImpact:
    """What one member gains and loses, with up to five titles of each."""

    membership_id: UUID
    person: str
    email: str
    gained: int
    lost: int
    gained_titles: tuple[str, ...]
    lost_titles: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """Who gains and loses. `reached` members could be touched, `compared` of them were asked for;
    the totals add up documents over people.
    """

    people: tuple[PersonImpact, ...]
    reached: int
    compared: int
    gained: int
    lost: int


@transaction.atomic
def what_if(authority: Authority, *, change: Change) -> Impact:
    """The impact of `change` on what members may view; nothing is changed, the question is audited.

    Raises Denied and Missing, and whatever saving the change would raise. The number of queries
    doesn't grow with the number of members. Locks what saving would lock, until it is rolled back.
    """
    authority.check(Capability.CONFIGURE)
    change = as_it_stands(authority, change)
    about = describe(change)
    reach = _reach(authority, change)
    members = members_reached(
        authority.organization_id, user_ids=reach.users, group_ids=reach.groups
    )
    reached = members.count()
    asked = list(members.select_related("user").order_by("user__email", "id")[:MOST_PEOPLE])
    user_ids = [member.user_id for member in asked]
    before = take_snapshot(authority, user_ids=user_ids, sources=reach.sources)
    with transaction.atomic():
        _apply(authority, change)
        after = take_snapshot(authority, user_ids=user_ids, sources=reach.sources)
        transaction.set_rollback(True)
    if isinstance(change, AclStateChange):
        gained, lost = _compare_document(change, before, after)
    else:
        gained = only_in(authority, after, before)
        lost = only_in(authority, before, after)
    impact = _as_impact(asked, reached, gained, lost)
    subject = about.pop("subject")
    totals = {"reached": reached, "gained": impact.gained, "lost": impact.lost}
    record(authority, "retrieval.what_if_asked", subject=subject, data={**about, **totals})
    return impact


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reach:
    """Whom a change can touch, and in which sources; None where it may be any."""

    users: Collection[int] = ()
    groups: Collection[int] = ()
    sources: Collection[int] | None = None


def _reach(authority: Authority, change: Change) -> _Reach:
    """A superset of what the change touches."""
    match change:
        case GrantChange(principal=Team() as team, obj=obj):
            return _Reach(groups=[team.pk], sources=_sources_of(obj))
        case GrantChange(principal=principal, obj=obj):
            return _Reach(users=[principal.pk], sources=_sources_of(obj))
        case TeamMembershipChange(membership=member) | MembershipStateChange(membership=member):
            return _Reach(users=[member.user_id])
        case TeamParentChange(team=team):
            return _Reach(groups=[team.pk])
        case SourceProjectChange(source=source, project=project):
            users, groups = _grantees(source.project, project)
            return _Reach(users=users, groups=groups, sources=[source.key])
        case AclStateChange(document=document):
            source = document.source
            users, groups = _grantees(document, source, source.project)
            # Whoever restricts a document keeps managing it.
            users.add(authority.user_id)
            return _Reach(users=users, groups=groups, sources=[source.key])


def _sources_of(obj: Project | Source | Document) -> list[int]:
    match obj:
        case Project():
            return list(Source.objects.filter(project=obj).values_list("key", flat=True))
        case Source():
            return [obj.key]
        case Document():
            return [obj.source.key]


def _grantees(*objects: models.Model | None) -> tuple[set[int], set[int]]:
    """The people and the teams that were granted anything on these objects."""
    users: set[int] = set()
    groups: set[int] = set()
    for obj in objects:
        if obj is not None:
            people = user_grants_of(type(obj))._default_manager.filter(content_object=obj)
            teams = team_grants_of(type(obj))._default_manager.filter(content_object=obj)
            users.update(people.values_list("user_id", flat=True))
            groups.update(teams.values_list("group_id", flat=True))
    return users, groups


def _apply(authority: Authority, change: Change) -> None:
    """Make the change as saving it would."""
    match change:
        case GrantChange(act="add"):
            grant(
                authority,
                principal=change.principal,
                verb=change.verb,
                obj=change.obj,
                expires_at=change.expires_at,
            )
        case GrantChange():
            revoke(authority, principal=change.principal, verb=change.verb, obj=change.obj)
        case TeamMembershipChange(act="add", team=team, membership=membership):
            add_to_team(authority, team=team, membership=membership)
        case TeamMembershipChange(team=team, membership=membership):
            remove_from_team(authority, team=team, membership=membership)
        case TeamParentChange(team=team, parent=parent):
            change_team(authority, team=team, label=team.label, parent=parent)
        case SourceProjectChange(source=source, project=project):
            move_source(authority, source=source, project=project)
        case AclStateChange(document=document, state=state):
            set_acl_state(authority, document=document, state=state)
        case MembershipStateChange(membership=membership, state=state):
            set_member_state(authority, membership=membership, state=state)


def _compare_document(
    change: AclStateChange, before: Snapshot, after: Snapshot
) -> tuple[dict[int, Difference], dict[int, Difference]]:
    """Who sees the one document after and not before, and the reverse: all others stay."""
    document = change.document
    one = Difference(count=1, titles=(document.title,))
    inherit = Document.AclState.INHERIT
    place = document.source.key

    def seeing(snapshot: Snapshot, state: str) -> set[int]:
        return {
            user
            for user, sight in snapshot.items()
            if sight.sees(document.key, source=place, inherits=state == inherit)
        }

    was, will = seeing(before, document.acl_state), seeing(after, change.state)
    return dict.fromkeys(will - was, one), dict.fromkeys(was - will, one)


def _as_impact(
    asked: list[Membership],
    reached: int,
    gained: Mapping[int, Difference],
    lost: Mapping[int, Difference],
) -> Impact:
    nothing = Difference()
    people = []
    for member in asked:
        more, less = gained.get(member.user_id, nothing), lost.get(member.user_id, nothing)
        if more.count or less.count:
            people.append(
                PersonImpact(
                    membership_id=member.pk,
                    person=str(member.user),
                    email=member.user.email,
                    gained=more.count,
                    lost=less.count,
                    gained_titles=more.titles,
                    lost_titles=less.titles,
                )
            )
    people.sort(key=lambda person: (-(person.gained + person.lost), person.email))
    return Impact(
        people=tuple(people),
        reached=reached,
        compared=len(asked),
        gained=sum(person.gained for person in people),
        lost=sum(person.lost for person in people),
    )
