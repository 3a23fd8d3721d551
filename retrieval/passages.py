"""Reading passages again: what a citation, a journal record or a tool call names, under the
caller's live relation.

Promises: text comes out only while the document is visible; old versions stay readable as long as
it is. What is missing from an answer is no longer there for this caller, for whatever reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.db.models import QuerySet

from accounts.authority import Authority
from accounts.relation import parse_id
from audit.record import record
from kaizen.kernel.errors import Missing
from retrieval.acl import get_document, visible_documents
from retrieval.models import Chunk, Document, DocumentVersion

PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A passage that the caller may read now. `digest` is the SHA-256 of its text."""

    chunk_id: UUID
    chunk_key: int
    version_id: UUID
    document_id: UUID
    source_id: UUID
    ordinal: int
    title: str
    source_name: str
    file_name: str
    heading_path: tuple[str, ...]
    page: int | None
    kind: str
    text: str
    digest: str
    is_current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentView:
    """One stretch of a version's passages, in order. `marked` is the passage that was asked for."""

    document: Document
    version: DocumentVersion | None
    is_current: bool
    passages: tuple[Passage, ...]
    marked: UUID | None
    start: int
    total: int

    @property
    def previous_start(self) -> int | None:
        """Where the stretch before this one begins, if there is one."""
        return max(0, self.start - PAGE) if self.start > 0 else None

    @property
    def next_start(self) -> int | None:
        """Where the stretch after this one begins, if there is one."""
        end = self.start + len(self.passages)
        return end if end < self.total else None


def text_digest(text: str) -> str:
    """How a record names the exact text that it stands for."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_passages(authority: Authority, chunk_ids: Iterable[UUID]) -> dict[UUID, Passage]:
    """Those of the passages that the caller may read now, by id. One query."""
    wanted = list(dict.fromkeys(chunk_ids))
    if not wanted:
        return {}
    return {
        chunk.id: as_passage(chunk) for chunk in visible_chunks(authority).filter(pk__in=wanted)
    }


def get_passage(authority: Authority, chunk_id: UUID | str) -> Passage:
    """One passage, opened by a person or a program; audited. Raises Missing."""
    chunk = visible_chunks(authority).filter(pk=parse_id(chunk_id)).first()
    if chunk is None:
        raise Missing
    record_read(authority, chunk.document, version_id=chunk.version_id, passages=1)
    return as_passage(chunk)


def visible_chunks(authority: Authority) -> QuerySet[Chunk]:
    """The passages of all versions of the documents that the caller may view."""
    return Chunk.objects.filter(
        organization_id=authority.organization_id, document__in=visible_documents(authority)
    ).select_related("document__source")


def document_view(
    authority: Authority,
    *,
    document_id: UUID | str,
    chunk_id: UUID | str | None = None,
    number: int | None = None,
    start: int = 0,
) -> DocumentView:
    """A document with up to PAGE of its passages: from `start`, or around the passage `chunk_id`.

    Shows the searched version, the one numbered `number`, or the one that the passage belongs to.
    Audited. Raises Missing when the document isn't visible, or version or passage aren't its.
    """
    document = get_document(authority, document_id)
    version_id, marked = document.current_version_id, None
    if chunk_id is not None:
        chunk = Chunk.objects.filter(document=document, pk=parse_id(chunk_id)).first()
        if chunk is None:
            raise Missing
        version_id, marked = chunk.version_id, chunk.id
        start = max(0, chunk.ordinal - PAGE // 2)
    elif number is not None:
        version_id = document.versions.filter(number=number).values_list("id", flat=True).first()
        if version_id is None:
            raise Missing
    if version_id is None:
        return DocumentView(
            document=document,
            version=None,
            is_current=True,
            passages=(),
            marked=None,
            start=0,
            total=0,
        )
    chunks = Chunk.objects.filter(version_id=version_id).order_by("ordinal")
    total = chunks.count()
    rows = list(chunks.filter(ordinal__gte=max(0, start))[:PAGE])
    for row in rows:
        row.document = document
    record_read(authority, document, version_id=version_id, passages=len(rows))
    return DocumentView(
        document=document,
        version=DocumentVersion.objects.get(pk=version_id),
        is_current=version_id == document.current_version_id,
        passages=tuple(as_passage(row) for row in rows),
        marked=marked,
        start=max(0, start),
        total=total,
    )


def record_read(
    authority: Authority, document: Document, *, version_id: UUID, passages: int
) -> None:
    """Audit that text of a document was opened."""
    record(
        authority,
        "retrieval.document_read",
        subject=document,
        data={"version": str(version_id), "passages": passages},
    )


def as_passage(chunk: Chunk) -> Passage:
    """The value of a chunk whose document and source are loaded."""
    document = chunk.document
    return Passage(
        chunk_id=chunk.id,
        chunk_key=chunk.key,
        version_id=chunk.version_id,
        document_id=document.id,
        source_id=document.source_id,
        ordinal=chunk.ordinal,
        title=document.title,
        source_name=document.source.name,
        file_name=document.file_name,
        heading_path=tuple(chunk.heading_path),
        page=chunk.page,
        kind=chunk.kind,
        text=chunk.text,
        digest=text_digest(chunk.text),
        is_current=chunk.version_id == document.current_version_id,
    )
