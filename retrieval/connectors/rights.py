"""The rights of a source system as grants here: the only writer of grants of origin *connector*.

Promises: after `mirror_rights` the connector's grants on each document are exactly its readers
upstream that somebody here bears the name of; the other names wait; grants given by hand are never
touched; no passage is read or embedded again. Runs in the caller's transaction, with the documents
locked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models.functions import Lower

from accounts.models import Membership, Team
from accounts.permissions import (
    Origin,
    Verb,
    permission_id,
    team_grants_of,
    user_grants_of,
)
from audit.record import record_system
from kaizen.kernel.text import make_storable
from retrieval.connectors.contract import Acl, Principal, PrincipalKind
from retrieval.ingest.index import set_inheritance
from retrieval.models import Document, WaitingReader
from retrieval.parts import lock_parts, with_parts

_BATCH = 1000


@dataclass(frozen=True, slots=True)
class _Name:
    """A reader upstream, spelled so that two of the same are equal."""

    kind: str
    name: str


@dataclass(slots=True)
class _Rights:
    """Who may read one document: people, teams (everyone is one), and names that wait."""

    users: set[int] = field(default_factory=set)
    groups: set[int] = field(default_factory=set)
    waiting: set[_Name] = field(default_factory=set)


def mirror_rights(
    organization_id: UUID, acls: Mapping[UUID, Acl | None], documents: Iterable[Document]
) -> int:
    """Make the rights of `documents` what `acls` says by document id; returns how many changed.

    What came out of an archive has the archive's rights. None is unknown: the document is nobody's
    until a later sync knows.
    """
    by_id = {document.pk: document for document in documents}
    acls = dict(acls)
    for document in list(by_id.values()):
        for part in lock_parts(document):
            by_id[part.pk], acls[part.pk] = part, acls[document.pk]
    wanted = _resolve(
        organization_id,
        {pk: _names(acl) if acl is not None else set() for pk, acl in acls.items()},
    )
    changed = 0
    present = _present(organization_id, list(by_id.values()))
    for pk, acl in acls.items():
        state = Document.AclState.UNKNOWN if acl is None else Document.AclState.RESTRICTED
        differs = _write(by_id[pk], present[pk], wanted[pk])
        if by_id[pk].acl_state != state:
            by_id[pk].acl_state = state
            by_id[pk].save(update_fields=["acl_state"])
            set_inheritance(by_id[pk])
            differs = True
        if differs:
            changed += 1
            record_system(
                organization_id,
                "retrieval.rights_mirrored",
                subject=by_id[pk],
                data={
                    "acl_state": state,
                    "people": len(wanted[pk].users),
                    "teams": len(wanted[pk].groups),
                    "unknown_names": len(wanted[pk].waiting),
                },
            )
    return changed


def hide(document: Document) -> None:
    """Make a document nobody's: its rights can't be read."""
    if document.acl_state == Document.AclState.UNKNOWN:
        return
    document.acl_state = Document.AclState.UNKNOWN
    document.save(update_fields=["acl_state"])
    set_inheritance(document)
    data = {"acl_state": Document.AclState.UNKNOWN}
    record_system(
        document.organization_id, "retrieval.rights_mirrored", subject=document, data=data
    )


def find_waiting(organization_id: UUID, source_id: UUID) -> list[UUID]:
    """Documents of a source with a name that somebody here bears by now; at most 1,000."""
    rows = WaitingReader.objects.filter(
        organization_id=organization_id,
        document__source_id=source_id,
        document__deleted_at=None,
    )
    names = {_Name(kind, name) for kind, name in rows.values_list("kind", "name").distinct()}
    known = _known(organization_id, names)
    borne = [name for name in names if name in known]
    found: set[UUID] = set()
    for kind in PrincipalKind:
        of_kind = [name.name for name in borne if name.kind == kind]
        found |= set(rows.filter(kind=kind, name__in=of_kind).values_list("document_id", flat=True))
    return sorted(found)[:_BATCH]


def grant_waiting(organization_id: UUID, documents: Iterable[Document]) -> None:
    """Give the grants that waited for a name on these documents, locked by the caller."""
    documents = list(documents)
    waiting: dict[UUID, set[_Name]] = defaultdict(set)
    for row in WaitingReader.objects.filter(document__in=documents):
        waiting[row.document_id].add(_Name(row.kind, row.name))
    present = _present(organization_id, documents)
    resolved = _resolve(organization_id, waiting)
    for document in documents:
        now_known = resolved.get(document.pk, _Rights())
        rights = _Rights(
            users=present[document.pk].users | now_known.users,
            groups=present[document.pk].groups | now_known.groups,
            waiting=now_known.waiting,
        )
        for part in lock_parts(document):
            _write(part, _present(organization_id, [part])[part.pk], rights)
        if _write(document, present[document.pk], rights):
            data = {"people": len(rights.users), "teams": len(rights.groups)}
            record_system(organization_id, "retrieval.rights_mirrored", subject=document, data=data)


def forget_rights(organization_id: UUID, documents: Iterable[Document]) -> None:
    """Take back every grant of a connector on these documents: nobody keeps them up to date any
    more.
    """
    keys = [one.key for document in documents for one in with_parts(document)]
    for table in (user_grants_of(Document), team_grants_of(Document)):
        table._default_manager.filter(
            organization_id=organization_id, content_object_id__in=keys, origin=Origin.CONNECTOR
        ).delete()
    WaitingReader.objects.filter(document__key__in=keys).delete()


def _names(acl: Acl) -> set[_Name]:
    return {_spell(reader) for reader in acl.readers}


def _spell(reader: Principal) -> _Name:
    kind = PrincipalKind(reader.kind)
    if kind is PrincipalKind.EVERYONE:
        return _Name(kind, "")
    name = make_storable(reader.name).text.strip()[:254]
    return _Name(kind, name.lower() if kind is PrincipalKind.EMAIL else name)


def _resolve(organization_id: UUID, names: Mapping[UUID, set[_Name]]) -> dict[UUID, _Rights]:
    known = _known(organization_id, set().union(*names.values()))
    result: dict[UUID, _Rights] = {}
    for pk, of_document in names.items():
        rights = result[pk] = _Rights()
        for name in of_document:
            if name not in known:
                rights.waiting.add(name)
            elif name.kind == PrincipalKind.EMAIL:
                rights.users.add(known[name])
            else:
                rights.groups.add(known[name])
    return result


def _known(organization_id: UUID, names: Iterable[_Name]) -> dict[_Name, int]:
    """The names that somebody here bears, with the key of the person or team.

    A team is found by its exact name, and never the one that stands for everyone: that has a kind
    of its own. Suspended and invited members count; a grant gives them nothing until they are
    active.
    """
    by_kind: dict[str, list[str]] = defaultdict(list)
    for name in names:
        by_kind[name.kind].append(name.name)
    known: dict[_Name, int] = {}
    if emails := by_kind[PrincipalKind.EMAIL]:
        people = (
            Membership.objects.filter(organization_id=organization_id)
            .annotate(address=Lower("user__email"))
            .filter(address__in=emails)
            .values_list("address", "user_id")
        )
        known |= {_Name(PrincipalKind.EMAIL, email): key for email, key in people}
    teams = Team.objects.filter(organization_id=organization_id)
    if labels := by_kind[PrincipalKind.TEAM]:
        found = teams.filter(label__in=labels, kind=Team.Kind.TEAM).values_list("label", "pk")
        known |= {_Name(PrincipalKind.TEAM, label): key for label, key in found}
    if PrincipalKind.EVERYONE in by_kind:
        for key in teams.filter(kind=Team.Kind.EVERYONE).values_list("pk", flat=True):
            known[_Name(PrincipalKind.EVERYONE, "")] = key
    return known


def _present(organization_id: UUID, documents: list[Document]) -> dict[UUID, _Rights]:
    """What stands now, of the connector's own."""
    by_key = {document.key: document.pk for document in documents}
    result = {document.pk: _Rights() for document in documents}
    at = {
        "organization_id": organization_id,
        "content_object_id__in": list(by_key),
        "permission_id": permission_id(Document, Verb.VIEW),
        "origin": Origin.CONNECTOR,
        "expires_at": None,
    }
    users = user_grants_of(Document)._default_manager.filter(**at)
    for key, user in users.values_list("content_object_id", "user_id"):
        result[by_key[key]].users.add(user)
    groups = team_grants_of(Document)._default_manager.filter(**at)
    for key, group in groups.values_list("content_object_id", "group_id"):
        result[by_key[key]].groups.add(group)
    for row in WaitingReader.objects.filter(document__in=documents):
        result[row.document_id].waiting.add(_Name(row.kind, row.name))
    return result


def _write(document: Document, present: _Rights, wanted: _Rights) -> bool:
    """Write the difference. Returns whether there was one."""
    if present == wanted:
        return False
    at = {
        "organization_id": document.organization_id,
        "content_object_id": document.key,
        "permission_id": permission_id(Document, Verb.VIEW),
        "origin": Origin.CONNECTOR,
    }
    user_table, group_table = user_grants_of(Document), team_grants_of(Document)
    gone = present.users - wanted.users, present.groups - wanted.groups
    user_table._default_manager.filter(**at, user_id__in=gone[0]).delete()
    group_table._default_manager.filter(**at, group_id__in=gone[1]).delete()
    user_table._default_manager.bulk_create(
        [user_table(**at, user_id=key) for key in sorted(wanted.users - present.users)],
        ignore_conflicts=True,
    )
    group_table._default_manager.bulk_create(
        [group_table(**at, group_id=key) for key in sorted(wanted.groups - present.groups)],
        ignore_conflicts=True,
    )
    for name in present.waiting - wanted.waiting:
        WaitingReader.objects.filter(document=document, kind=name.kind, name=name.name).delete()
    WaitingReader.objects.bulk_create(
        [
            WaitingReader(
                organization_id=document.organization_id,
                document=document,
                kind=name.kind,
                name=name.name,
            )
            for name in wanted.waiting - present.waiting
        ],
        ignore_conflicts=True,
    )
    return True
