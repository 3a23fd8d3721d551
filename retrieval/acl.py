"""THE relation for sources, documents and passages: who may do what with them, now.

Promises: the SQL functions `retrieval_visible_sources` and `retrieval_granted_documents` are the
one definition; the querysets here and the search statement call them with the same parameters. An
inheriting document is as its source, a restricted one only by its own grants, one of unknown rights
is nobody's. A run's narrowing always counts. Not for: roles. No role opens content.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL

from accounts.authority import Authority
from accounts.models import Project
from accounts.permissions import Verb, permission_ids
from accounts.relation import Fragment, get_from
from retrieval.models import Document, Source

SOURCES = (
    "SELECT s.key FROM retrieval_visible_sources("
    "%s, %s, %s::integer[], %s::integer[], %s::bigint[]) s"
)
DOCUMENTS = "SELECT d.key FROM retrieval_granted_documents(%s, %s, %s::integer[], %s::bigint[]) d"


class Caller(NamedTuple):
    """The parameters of the relation's functions: who asks, which stored verbs answer, which
    sources at most.
    """

    organization: UUID
    organization_key: int
    user: int
    source_permissions: list[int]
    project_permissions: list[int]
    document_permissions: list[int]
    only: list[int] | None


def caller(authority: Authority, verb: Verb = Verb.VIEW) -> Caller:
    """The relation's parameters for `authority` and `verb`.

    A verb on a project answers for its sources.
    """
    narrowing = authority.narrowing
    keys = None if narrowing is None else narrowing.source_keys
    return Caller(
        organization=authority.organization_id,
        organization_key=authority.organization_key,
        user=authority.user_id,
        source_permissions=permission_ids(Source, verb),
        project_permissions=permission_ids(Project, verb),
        document_permissions=permission_ids(Document, verb),
        only=None if keys is None else sorted(keys),
    )


def source_keys(authority: Authority, verb: Verb = Verb.VIEW) -> Fragment:
    """A SELECT of the keys of the sources on which the caller holds `verb`, by grants on them or
    their project.
    """
    who = caller(authority, verb)
    parameters: tuple[Any, ...] = (
        who.organization,
        who.user,
        who.source_permissions,
        who.project_permissions,
        who.only,
    )
    return Fragment(SOURCES, parameters)


def document_keys(authority: Authority, verb: Verb = Verb.VIEW) -> Fragment:
    """A SELECT of the keys of the documents on which the caller holds `verb` by grants on
    themselves.
    """
    who = caller(authority, verb)
    return Fragment(DOCUMENTS, (who.organization, who.user, who.document_permissions, who.only))


def visible_sources(authority: Authority, verb: Verb = Verb.VIEW) -> QuerySet[Source]:
    """The sources on which the caller holds `verb`; archived ones are nobody's."""
    return Source.objects.filter(
        organization_id=authority.organization_id, key__in=_raw(source_keys(authority, verb))
    )


def visible_documents(authority: Authority, verb: Verb = Verb.VIEW) -> QuerySet[Document]:
    """The documents on which the caller holds `verb`, by their source or by grants of their own."""
    return _living_documents(authority).filter(
        Q(
            acl_state=Document.AclState.INHERIT,
            source__key__in=_raw(source_keys(authority, verb)),
        )
        | Q(key__in=_raw(document_keys(authority, verb)))
    )


def governed_documents(authority: Authority, verb: Verb = Verb.CHANGE) -> QuerySet[Document]:
    """The documents that the caller may remove or whose rights they may set.

    Wider than `visible_documents`: who holds `verb` on a source answers for all that lies in it,
    restricted and unknown documents included, without reading those.
    """
    return _living_documents(authority).filter(
        Q(source__key__in=_raw(source_keys(authority, verb)))
        | Q(key__in=_raw(document_keys(authority, verb)))
    )


def get_source(authority: Authority, source_id: UUID | str, verb: Verb = Verb.VIEW) -> Source:
    """One source. Raises Missing when absent or not visible, Denied when visible but not so far."""
    return get_from(visible_sources(authority, verb), visible_sources(authority), source_id)


def get_document(authority: Authority, document_id: UUID | str, verb: Verb = Verb.VIEW) -> Document:
    """One document with its source.

    Raises Missing when absent or not visible, Denied when visible but not so far.
    """
    return get_from(
        visible_documents(authority, verb).select_related("source"),
        visible_documents(authority),
        document_id,
    )


def get_governed_document(
    authority: Authority, document_id: UUID | str, verb: Verb = Verb.CHANGE
) -> Document:
    """One document to remove or to set the rights of.

    Raises Missing and Denied as `get_document` does.
    """
    return get_from(
        governed_documents(authority, verb).select_related("source"),
        visible_documents(authority),
        document_id,
    )


def _living_documents(authority: Authority) -> QuerySet[Document]:
    return Document.objects.filter(organization_id=authority.organization_id, deleted_at=None)


def _raw(fragment: Fragment) -> RawSQL:
    return RawSQL(fragment.sql, fragment.params)  # noqa: S611  parameters are bound
