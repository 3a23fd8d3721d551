"""Why a member sees a document, or what is missing.

Promises: yes or no is the relation's own answer, asked as that member. The ways to it are then read
row by row: each grant that opens the document, or the first missing link, always in the order of
`Link`. Every question is audited. Not for: what a change would do (`retrieval.access.what_if`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal
from uuid import UUID

from django.db import transaction

from accounts.authority import Authority, Capability, Channel, Narrowing, from_membership
from accounts.explain import (
    Chain,
    Door,
    HeldGrant,
    find_closed_door,
    list_held_grants,
    read_chains,
)
from accounts.models import Membership, Project
from accounts.permissions import IMPLIED_BY, Verb
from audit.record import record
from kaizen.kernel.errors import Conflict, Denied, Missing
from retrieval.acl import visible_documents
from retrieval.models import Document, Source


class Link(StrEnum):
    """What can be missing, in the order in which it is looked for."""

    ORGANIZATION_SUSPENDED = Door.ORGANIZATION_SUSPENDED.value
    PERSON_DEACTIVATED = Door.PERSON_DEACTIVATED.value
    MEMBERSHIP_NOT_ACTIVE = Door.MEMBERSHIP_NOT_ACTIVE.value
    DOCUMENT_DELETED = "document_deleted"
    SOURCE_ARCHIVED = "source_archived"
    SOURCE_RIGHTS_UNKNOWN = "source_rights_unknown"
    DOCUMENT_RIGHTS_UNKNOWN = "document_rights_unknown"
    NO_OWN_GRANT = "restricted_without_own_grant"
    NO_GRANT = "no_grant"
    GRANT_EXPIRED = "grant_expired"
    VERB_TOO_WEAK = "verb_too_weak"
    PROJECT_ARCHIVED = "project_archived"
    NARROWED = "outside_the_run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """An object on the way. Its name is empty for who doesn't see it in the admin."""

    kind: Literal["project", "source", "document"]
    id: UUID
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One grant and how it leads to the document: `things` begins with what was granted."""

    grant: HeldGrant
    things: tuple[Thing, ...]

    @property
    def principal(self) -> Chain:
        """Whose the grant is."""
        return self.grant.principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """The first missing link; `path` is the grant that comes nearest, where there is one."""

    link: Link
    path: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The answer: either `paths` or `lack`."""

    membership_id: UUID
    person: str
    document: Thing
    verb: Verb
    visible: bool
    paths: tuple[Path, ...] = ()
    lack: Lack | None = None


def check_may_explain(authority: Authority) -> None:
    """Raise Denied unless the caller configures or audits the organisation."""
    if not (authority.may(Capability.CONFIGURE) or authority.may(Capability.AUDIT)):
        raise Denied("Your role in this organisation doesn't allow this. Ask an owner or admin.")


@transaction.atomic
def explain(
    authority: Authority,
    *,
    membership: Membership,
    document: Document,
    verb: Verb = Verb.VIEW,
    narrowing: Narrowing | None = None,
) -> Explanation:
    """Whether the member holds `verb` on the document and why, perhaps within a run; audited.

    Raises Denied, Missing for rows of another organisation, Conflict when rights change while they
    are read. A constant number of queries.
    """
    check_may_explain(authority)
    membership = _own_membership(authority, membership)
    document = _own_document(authority, document)
    visible = _is_visible(membership, document, verb=verb, narrowing=narrowing)
    seen_as = _Names(is_shown=authority.may(Capability.CONFIGURE))
    paths = _list_paths(membership, document, seen_as)
    open_paths = tuple(path for path in paths if not _faults(path, document, verb))
    lack = None if visible else _find_lack(membership, document, paths, verb, narrowing)
    if visible and not open_paths:
        raise Conflict("The rights changed while they were read. Ask again.")
    record(
        authority,
        "retrieval.access_explained",
        subject=document,
        data={
            "membership": str(membership.pk),
            "verb": verb,
            "visible": visible,
            "missing": lack.link if lack else None,
        },
    )
    return Explanation(
        membership_id=membership.pk,
        person=str(membership.user),
        document=seen_as.document(document),
        verb=verb,
        visible=visible,
        paths=open_paths if visible else (),
        lack=lack,
    )


@dataclass(frozen=True, slots=True)
class _Names:
    """What things are called for the caller: as in the admin's lists, which auditors don't see."""

    is_shown: bool

    def document(self, document: Document) -> Thing:
        shown = self.is_shown and document.deleted_at is None
        return Thing(kind="document", id=document.pk, name=document.title if shown else "")

    def source(self, source: Source) -> Thing:
        return Thing(kind="source", id=source.pk, name=source.name if self.is_shown else "")

    def project(self, project: Project) -> Thing:
        return Thing(kind="project", id=project.pk, name=project.name if self.is_shown else "")


def _own_membership(authority: Authority, membership: Membership) -> Membership:
    found: Membership | None = (
        Membership.objects.filter(organization_id=authority.organization_id, pk=membership.pk)
        .select_related("organization", "user")
        .first()
    )
    if found is None:
        raise Missing
    return found


def _own_document(authority: Authority, document: Document) -> Document:
    found: Document | None = (
        Document.objects.filter(organization_id=authority.organization_id, pk=document.pk)
        .select_related("source__project")
        .first()
    )
    if found is None:
        raise Missing
    return found


def _is_visible(
    membership: Membership, document: Document, *, verb: Verb, narrowing: Narrowing | None
) -> bool:
    """The relation's answer, as the member."""
    try:
        member = from_membership(membership, channel=Channel.COMMAND)
    except Missing:
        return False
    if narrowing is not None:
        member = member.narrowed(narrowing)
    return visible_documents(member, verb).filter(pk=document.pk).exists()


def _list_paths(membership: Membership, document: Document, names: _Names) -> list[Path]:
    """Every grant of the member that could lead to the document, were nothing in its way."""
    chains = read_chains(membership)
    here = (names.document(document),)
    paths = [
        Path(grant=grant, things=here) for grant in list_held_grants(membership, chains, document)
    ]
    if document.acl_state != Document.AclState.INHERIT:
        return paths
    source = document.source
    there = (names.source(source), *here)
    paths += [
        Path(grant=grant, things=there) for grant in list_held_grants(membership, chains, source)
    ]
    if source.project is None:
        return paths
    beyond = (names.project(source.project), *there)
    paths += [
        Path(grant=grant, things=beyond)
        for grant in list_held_grants(membership, chains, source.project)
    ]
    return paths


def _faults(path: Path, document: Document, verb: Verb) -> list[Link]:
    """Why one grant doesn't count, in the order of `Link`."""
    faults = []
    if path.grant.is_over:
        faults.append(Link.GRANT_EXPIRED)
    if path.grant.verb not in IMPLIED_BY[verb]:
        faults.append(Link.VERB_TOO_WEAK)
    project = document.source.project
    through_project = path.things[0].kind == "project"
    if through_project and project is not None and project.archived_at is not None:
        faults.append(Link.PROJECT_ARCHIVED)
    return faults


def _find_lack(
    membership: Membership,
    document: Document,
    paths: list[Path],
    verb: Verb,
    narrowing: Narrowing | None,
) -> Lack:
    """The first missing link. Raises Conflict when nothing is missing by now."""
    gate = _closed_gate(membership, document)
    if gate is not None:
        return Lack(link=gate)
    if not paths:
        restricted = document.acl_state == Document.AclState.RESTRICTED
        return Lack(link=Link.NO_OWN_GRANT if restricted else Link.NO_GRANT)
    order = list(Link)
    nearest = min(
        paths,
        key=lambda path: [
            len(_faults(path, document, verb)),
            *(order.index(fault) for fault in _faults(path, document, verb)),
        ],
    )
    faults = _faults(nearest, document, verb)
    if faults:
        return Lack(link=faults[0], path=nearest)
    only = None if narrowing is None else narrowing.source_keys
    if only is not None and document.source.key not in only:
        return Lack(link=Link.NARROWED, path=nearest)
    raise Conflict("The rights changed while they were read. Ask again.")


def _closed_gate(membership: Membership, document: Document) -> Link | None:
    """What stands in the way of every grant."""
    door = find_closed_door(membership)
    if door is not None:
        return Link(door.value)
    if document.deleted_at is not None:
        return Link.DOCUMENT_DELETED
    if document.source.archived_at is not None:
        return Link.SOURCE_ARCHIVED
    if document.source.acl_unknown_since is not None:
        return Link.SOURCE_RIGHTS_UNKNOWN
    if document.acl_state == Document.AclState.UNKNOWN:
        return Link.DOCUMENT_RIGHTS_UNKNOWN
    return None
