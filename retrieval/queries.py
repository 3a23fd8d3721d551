"""Reads for pages and API: lists and counts, all of them after the relation."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from accounts.authority import Authority
from accounts.permissions import Verb
from retrieval.acl import visible_documents, visible_sources
from retrieval.models import Document, Source

UNFINISHED = (Document.State.WAITING, Document.State.READING)
PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many documents of a source the caller may view, and how far their reading is."""

    documents: int = 0
    waiting: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """A source in a list, with what the caller sees of it."""

    id: UUID
    name: str
    description: str
    documents: int
    waiting: int
    failed: int


def list_sources(authority: Authority) -> list[SourceRow]:
    """The sources that the caller may view, by name, with counts of the documents they may view.

    Two queries.
    """
    counts = count_documents(authority)
    none = Counts()
    rows = []
    for source in visible_sources(authority).order_by("name", "id"):
        found = counts.get(source.id, none)
        rows.append(
            SourceRow(
                id=source.id,
                name=source.name,
                description=source.description,
                documents=found.documents,
                waiting=found.waiting,
                failed=found.failed,
            )
        )
    return rows


def count_documents(authority: Authority, *, source: Source | None = None) -> dict[UUID, Counts]:
    """Counts by source id, of one source or of all."""
    documents = visible_documents(authority)
    if source is not None:
        documents = documents.filter(source=source)
    rows = documents.values("source_id").annotate(
        documents=Count("id"),
        waiting=Count("id", filter=Q(state__in=UNFINISHED)),
        failed=Count("id", filter=Q(state=Document.State.FAILED)),
    )
    return {
        row["source_id"]: Counts(
            documents=row["documents"], waiting=row["waiting"], failed=row["failed"]
        )
        for row in rows
    }


def count_unfinished(authority: Authority) -> int:
    """How many documents that the caller may view are still being read."""
    return visible_documents(authority).filter(state__in=UNFINISHED).count()


def list_documents(authority: Authority, *, source: Source) -> QuerySet[Document]:
    """The documents of a source that the caller may view, newest first."""
    return visible_documents(authority).filter(source=source).order_by("-id")


def list_shared_documents(authority: Authority) -> list[Document]:
    """Documents that the caller may view although their source is closed to them; at most PAGE."""
    return list(
        visible_documents(authority)
        .exclude(source__in=visible_sources(authority))
        .select_related("source")
        .order_by("title", "id")[:PAGE]
    )


def may_change_source(authority: Authority, source: Source) -> bool:
    """Whether the caller may add and remove documents."""
    return visible_sources(authority, Verb.CHANGE).filter(pk=source.pk).exists()


def may_change_document(authority: Authority, document: Document) -> bool:
    """Whether the caller may replace, retry and delete a document."""
    return visible_documents(authority, Verb.CHANGE).filter(pk=document.pk).exists()
