"""From a stored document to searchable passages: waiting -> reading -> indexed or failed, with the
reason.

Promises: one worker at a time reads a document, and one that lost its claim writes nothing;
parsing and embedding happen outside any transaction; the new version's passages replace the old
one's in a single transaction. A new version that can't be read leaves the earlier one searchable.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

import numpy as np
from django.db import transaction
from django.db.models import DateTimeField, Func, Q

from kaizen.kernel.errors import Unavailable
from kaizen.kernel.jobs import enqueue
from kaizen.kernel.tenancy import organization_scope
from retrieval.blobs import open_content
from retrieval.embedders.calls import BUSY
from retrieval.embedders.choice import embedder_for
from retrieval.embedders.contract import Embedder, Vectors
from retrieval.embedders.reuse import embed_new
from retrieval.ingest.chunk import Passage, chunk, embedding_text
from retrieval.ingest.contract import EXPAND_JOB
from retrieval.ingest.index import Ready, replace_passages
from retrieval.ingest.parse import ArchiveFound, Parsed, ParseFailure, parse
from retrieval.models import Blob, Document, DocumentVersion
from retrieval.spaces.active import SpaceChanged, find_active_space

logger = logging.getLogger(__name__)

STALE_AFTER = timedelta(seconds=120)
"""A reading whose worker gave no sign of life for so long is up for another."""
_SIGN_OF_LIFE = 5.0
_SLICE = 32


class ClockTimestamp(Func):
    """The database's clock, which moves inside a transaction too."""

    template = "clock_timestamp()"
    output_field = DateTimeField()


class Ended(StrEnum):
    """How an attempt to read a document ended."""

    INDEXED = "indexed"
    FAILED = "failed"
    UNPACKING = "unpacking"  # an archive, left to the job that unpacks it
    NOTHING = "nothing"  # not waiting, or somebody else is reading it
    WAITING = "waiting"  # the embedding provider is busy: the sweep tries again
    LOST = "lost"  # deleted, replaced or taken over meanwhile


@dataclass(frozen=True, slots=True)
class Ingested:
    """The end of an attempt. `message` says why it failed."""

    ended: Ended
    passages: int = 0
    message: str = ""


@dataclass(slots=True)
class _Claim:
    """What a worker holds: the document as it was claimed. `at`, its last sign of life, fences it
    off."""

    document_id: UUID
    organization_id: UUID
    version_id: UUID
    blob: Blob
    file_name: str
    media_type: str
    title: str
    at: datetime


class _ClaimLost(Exception):
    """The document was deleted, replaced or taken over while it was being read."""


def title_from_name(file_name: str) -> str:
    """The title of a document that nobody has read yet."""
    return file_name.rpartition(".")[0].strip() or file_name


def ingest_document(document_id: UUID, *, embedder: Embedder | None = None) -> Ingested:
    """Read, cut, embed and index a waiting document. Safe to call again at any time.

    Failures that concern the file are recorded on the document; anything else is raised, and the
    sweep tries again.
    """
    claim = _claim(document_id)
    if claim is None:
        return Ingested(Ended.NOTHING)
    try:
        try:
            return _read_and_finish(claim, embedder)
        except ArchiveFound:
            return _leave_to_unpack(claim)
        except ParseFailure as failure:
            return _fail(claim, code=failure.code, message=failure.message)
        except FileNotFoundError:
            logger.exception("the bytes of document %s are gone", document_id)
            message = "The stored file is missing. Upload it again."
            return _fail(claim, code="bytes_missing", message=message)
        except Unavailable as failure:
            if failure.code == BUSY:
                return _put_back(claim, failure.message)
            return _fail(claim, code=failure.code, message=failure.message)
    except _ClaimLost:
        return Ingested(Ended.LOST)


def _read_and_finish(claim: _Claim, given: Embedder | None) -> Ingested:
    """Read with the organisation's embedder; once more when that was changed meanwhile."""
    try:
        return _finish(
            claim, _read(claim, given or embedder_for(claim.organization_id, arena=True))
        )
    except SpaceChanged:
        if given is not None:
            raise
        logger.info("the embedding model changed while document %s was read", claim.document_id)
    return _finish(claim, _read(claim, embedder_for(claim.organization_id, arena=True)))


def _claim(document_id: UUID) -> _Claim | None:
    """Take a document that waits, or whose reader fell silent. Skips one that another transaction
    holds."""
    with transaction.atomic():
        document = (
            Document.objects.select_for_update(skip_locked=True, no_key=True)
            .filter(pk=document_id, deleted_at=None)
            .filter(
                Q(state=Document.State.WAITING)
                | Q(state=Document.State.READING, state_at__lt=ClockTimestamp() - STALE_AFTER)
            )
            .first()
        )
        if document is None:
            return None
        version = (
            DocumentVersion.objects.filter(document=document)
            .select_related("blob")
            .order_by("-number")
            .first()
        )
        if version is None:
            return None
        Document.objects.filter(pk=document.pk).update(
            state=Document.State.READING, state_at=ClockTimestamp(), state_message=""
        )
        document.refresh_from_db(fields=["state_at"])
    return _Claim(
        document_id=document.pk,
        organization_id=document.organization_id,
        version_id=version.pk,
        blob=version.blob,
        file_name=version.file_name,
        media_type=version.media_type,
        title=document.title,
        at=document.state_at,
    )


def _read(claim: _Claim, embedder: Embedder) -> Ready:
    """Parse and embed, outside any transaction."""
    with open_content(claim.blob) as file:
        data = file.read()
    parsed = parse(data, name=claim.file_name, media_type=claim.media_type or None)
    passages = chunk(parsed, count_tokens=embedder.count_tokens)
    if not passages:
        raise ParseFailure("no_text", "The file holds no text.")
    title = _title(claim, parsed)
    vectors = np.concatenate(list(_embed(claim, embedder, title=title, passages=passages)))
    return Ready(
        version_id=claim.version_id,
        title=title,
        parsed=parsed,
        passages=passages,
        vectors=vectors,
        embedder=embedder,
    )


def _title(claim: _Claim, parsed: Parsed) -> str:
    """A title that somebody gave stays; one taken from the file's name gives way to the document's
    own."""
    return parsed.title if claim.title == title_from_name(claim.file_name)[:300] else claim.title


def _embed(
    claim: _Claim, embedder: Embedder, *, title: str, passages: Sequence[Passage]
) -> Iterator[Vectors]:
    """Vectors slice by slice, with a sign of life in between; equal texts share one."""
    last_sign = time.monotonic()
    space = find_active_space(claim.organization_id)
    space_key = space.key if space is not None and space.digest == embedder.digest else None
    for at in range(0, len(passages), _SLICE):
        if time.monotonic() - last_sign > _SIGN_OF_LIFE:
            _give_sign(claim, f"{at:,} of {len(passages):,} passages")
            last_sign = time.monotonic()
        texts = [embedding_text(title, passage) for passage in passages[at : at + _SLICE]]
        vectors, _ = embed_new(
            embedder, texts, organization_id=claim.organization_id, space_key=space_key
        )
        yield vectors


def _give_sign(claim: _Claim, progress: str) -> None:
    """Say that the reading goes on, and how far it is."""
    with transaction.atomic():
        document = _claimed(claim)
        Document.objects.filter(pk=document.pk).update(
            state_at=ClockTimestamp(), state_message=progress
        )
        document.refresh_from_db(fields=["state_at"])
    claim.at = document.state_at


def _claimed(claim: _Claim) -> Document:
    """The claimed document, locked. Raises _ClaimLost when it is no longer this worker's."""
    document: Document | None = (
        Document.objects.select_for_update(no_key=True)
        .filter(
            pk=claim.document_id,
            deleted_at=None,
            state=Document.State.READING,
            state_at=claim.at,
        )
        .first()
    )
    if document is None:
        raise _ClaimLost
    return document


def _finish(claim: _Claim, ready: Ready) -> Ingested:
    """Put the new passages in the place of the old ones. Locks the document, then its source."""
    with organization_scope(claim.organization_id):
        document = _claimed(claim)
        replace_passages(document, ready)
        document.current_version_id = ready.version_id
        document.title = ready.title
        document.language = ready.parsed.language[:16]
        document.media_type = ready.parsed.media_type[:120]
        document.state = Document.State.INDEXED
        document.state_code = document.state_message = ""
        document.passage_count = len(ready.passages)
        document.save(
            update_fields=[
                *_take_over(document, ready.parsed),
                "current_version",
                "title",
                "language",
                "media_type",
                "state",
                "state_code",
                "state_message",
                "passage_count",
            ]
        )
        Document.objects.filter(pk=document.pk).update(state_at=ClockTimestamp())
        DocumentVersion.objects.filter(pk=ready.version_id).update(
            encoding=(ready.parsed.encoding or "")[:40],
            warnings=[warning[:300] for warning in ready.parsed.warnings],
        )
    return Ingested(Ended.INDEXED, len(ready.passages))


def _take_over(document: Document, parsed: Parsed) -> list[str]:
    """Set author, date and tags that the file names, where nobody gave any; returns what was."""
    found = {"author": parsed.author, "dated_at": parsed.dated_at, "tags": list(parsed.tags)}
    names = [name for name, value in found.items() if value and not getattr(document, name)]
    for name in names:
        setattr(document, name, found[name])
    return names


def _leave_to_unpack(claim: _Claim) -> Ingested:
    """An archive waits for the job that makes its entries documents (`retrieval.archives`).

    The state's code stays: it counts how often a worker fell silent over it.
    """
    with organization_scope(claim.organization_id):
        document = _claimed(claim)
        Document.objects.filter(pk=document.pk).update(
            state=Document.State.WAITING, state_at=ClockTimestamp()
        )
        enqueue(EXPAND_JOB, document_id=document.pk)
    return Ingested(Ended.UNPACKING)


def _put_back(claim: _Claim, message: str) -> Ingested:
    """Let the document wait for the next sweep, with the reason."""
    with organization_scope(claim.organization_id):
        document = _claimed(claim)
        Document.objects.filter(pk=document.pk).update(
            state=Document.State.WAITING, state_message=message[:500], state_at=ClockTimestamp()
        )
    return Ingested(Ended.WAITING, message=message)


def _fail(claim: _Claim, *, code: str, message: str) -> Ingested:
    """Write down why; an earlier version that could be read stays searchable."""
    with organization_scope(claim.organization_id):
        document = _claimed(claim)
        if document.current_version_id is not None:
            message = f"{message} The earlier version is still searched."
        Document.objects.filter(pk=document.pk).update(
            state=Document.State.FAILED,
            state_code=code[:40],
            state_message=message[:500],
            state_at=ClockTimestamp(),
        )
    return Ingested(Ended.FAILED, message=message)
