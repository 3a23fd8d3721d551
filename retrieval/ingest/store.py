"""From a stored document to searchable passages: waiting -> reading -> indexed or failed, with the
reason.

Promises: one worker at a time reads a document, and one that lost its claim writes nothing;
parsing and embedding happen outside any transaction; the new version's passages replace the old
one's in a single transaction. A new version that can't be read leaves the earlier one searchable.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

import numpy as np

from kaizen.kernel.clock import ClockTimestamp
from kaizen.kernel.errors import Unavailable
from kaizen.kernel.jobs import enqueue
from kaizen.kernel.tenancy import organization_scope
from retrieval.blobs import open_content
from retrieval.details import title_from_name
from retrieval.embedders.calls import BUSY
from retrieval.embedders.choice import embedder_for
from retrieval.embedders.contract import Embedder, Vectors
from retrieval.embedders.reuse import embed_new
from retrieval.ingest.chunk import Passage, chunk, embedding_text
from retrieval.ingest.claim import Claim, ClaimLost, claimed, fail, find_claim, give_sign, put_back
from retrieval.ingest.contract import EXPAND_JOB
from retrieval.ingest.index import Ready, replace_passages
from retrieval.ingest.parse import ArchiveFound, Parsed, ParseFailure, parse
from retrieval.models import Document, DocumentVersion
from retrieval.spaces.active import SpaceChanged, find_active_space

logger = logging.getLogger(__name__)

_SLICE = 32


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


def ingest_document(document_id: UUID, *, embedder: Embedder | None = None) -> Ingested:
    """Read, cut, embed and index a waiting document. Safe to call again at any time.

    Failures that concern the file are recorded on the document; anything else is raised, and the
    sweep tries again.
    """
    claim = find_claim(document_id)
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
                put_back(claim, message=failure.message)
                return Ingested(Ended.WAITING, message=failure.message)
            return _fail(claim, code=failure.code, message=failure.message)
    except ClaimLost:
        return Ingested(Ended.LOST)


def _leave_to_unpack(claim: Claim) -> Ingested:
    """An archive waits for the job that makes its entries documents (`retrieval.archives`)."""
    with organization_scope(claim.organization_id):
        put_back(claim)
        enqueue(EXPAND_JOB, document_id=claim.document_id)
    return Ingested(Ended.UNPACKING)


def _fail(claim: Claim, *, code: str, message: str) -> Ingested:
    """An earlier version that could be read stays searchable."""
    stays = "The earlier version is still searched."
    return Ingested(Ended.FAILED, message=fail(claim, code=code, message=message, what_stays=stays))


def _read_and_finish(claim: Claim, given: Embedder | None) -> Ingested:
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


def _read(claim: Claim, embedder: Embedder) -> Ready:
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


def _title(claim: Claim, parsed: Parsed) -> str:
    """A title that somebody gave stays; one taken from the file's name gives way to the document's
    own."""
    return parsed.title if claim.title == title_from_name(claim.file_name) else claim.title


def _embed(
    claim: Claim, embedder: Embedder, *, title: str, passages: Sequence[Passage]
) -> Iterator[Vectors]:
    """Vectors slice by slice, with a sign of life in between; equal texts share one."""
    space = find_active_space(claim.organization_id)
    space_key = space.key if space is not None and space.digest == embedder.digest else None
    for at in range(0, len(passages), _SLICE):
        give_sign(claim, f"{at:,} of {len(passages):,} passages")
        texts = [embedding_text(title, passage) for passage in passages[at : at + _SLICE]]
        vectors, _ = embed_new(
            embedder, texts, organization_id=claim.organization_id, space_key=space_key
        )
        yield vectors


def _finish(claim: Claim, ready: Ready) -> Ingested:
    """Put the new passages in the place of the old ones. Locks the document, then its source."""
    with organization_scope(claim.organization_id):
        document = claimed(claim)
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
