"""Whoever pushes or unpacks a document sets its rights with it: the verbs for that, on top of the
connectors' own writer of grants.

Promises: what stands afterwards is exactly what was told, for an archive and its parts alike;
grants given by hand are never touched; names that nobody here bears wait. Runs in the caller's
transaction, with the document locked.
"""

from __future__ import annotations

from collections.abc import Sequence

from accounts.permissions import team_grants_of, user_grants_of
from retrieval.connectors.contract import Acl, Principal
from retrieval.connectors.rights import forget_rights, mirror_rights
from retrieval.ingest.index import set_inheritance
from retrieval.models import Document, WaitingReader
from retrieval.parts import with_parts


def set_readers(document: Document, readers: Sequence[Principal] | None) -> bool:
    """Let exactly `readers` read a document, beside whom grants given by hand name; None hides it
    from everybody until its rights are known. Returns whether that changed anything.
    """
    acl = None if readers is None else Acl(tuple(readers))
    changed = mirror_rights(document.organization_id, {document.pk: acl}, [document])
    document.refresh_from_db(fields=["acl_state"])
    return changed > 0


def follow_source(document: Document) -> bool:
    """Let a document be as its source, and forget the readers that were told for it.

    Returns whether that changed anything.
    """
    forget_rights(document.organization_id, [document])
    changed = [one for one in with_parts(document) if one.acl_state != Document.AclState.INHERIT]
    for one in changed:
        one.acl_state = Document.AclState.INHERIT
        one.save(update_fields=["acl_state"])
        set_inheritance(one)
    return bool(changed)


def copy_grants(document: Document, to: Document) -> None:
    """Give a new document the grants that another has on itself, from the same givers."""
    for table in (user_grants_of(Document), team_grants_of(Document)):
        rows = list(table._default_manager.filter(content_object_id=document.key))
        for row in rows:
            row.pk, row.content_object_id = None, to.key
            row._state.adding = True
        table._default_manager.bulk_create(rows, ignore_conflicts=True)
    WaitingReader.objects.bulk_create(
        [
            WaitingReader(
                organization_id=to.organization_id, document=to, kind=row.kind, name=row.name
            )
            for row in WaitingReader.objects.filter(document=document)
        ],
        ignore_conflicts=True,
    )
