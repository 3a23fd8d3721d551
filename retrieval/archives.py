"""An archive becomes the documents it holds: waiting -> reading -> expanded, with what was refused.

Promises: each entry is stored in a transaction of its own, under the archive's external id and its
path, so a worker killed in the middle loses and doubles none; one that lost its claim writes
nothing; a part begins with the archive's rights in the transaction that makes it. Only a whole
archive takes away the parts that are no longer in it. Locks: archive, blob, part, source.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from contextlib import closing
from uuid import UUID

from audit.record import record_system
from kaizen.kernel.clock import ClockTimestamp
from kaizen.kernel.errors import TooLarge
from kaizen.kernel.jobs import enqueue
from kaizen.kernel.tenancy import organization_scope
from retrieval.blobs import open_content, read_content, store_content
from retrieval.details import external_key, title_from_name
from retrieval.ingest.claim import (
    Claim,
    ClaimLost,
    claimed,
    fail,
    find_claim,
    give_sign,
    put_back,
)
from retrieval.ingest.contract import ParseLimits
from retrieval.ingest.index import remove_passages
from retrieval.ingest.parse import Entry, ParseFailure, Refused, archive_media_type, unpack
from retrieval.intake import INGEST_JOB, add_version, is_newest, make_document, wait
from retrieval.models import Document, DocumentVersion
from retrieval.parts import is_part, lock_parts, mark_of, remove_document
from retrieval.rights import copy_grants

logger = logging.getLogger(__name__)

EXPANDED = "expanded"
_REFUSED_NAMED = 50
_REASONS_NAMED = 3
_LIMITS = ParseLimits()


def expand_document(document_id: UUID, *, limits: ParseLimits = _LIMITS) -> str:
    """Make an archive that waits the documents it holds. Safe to call again at any time.

    Returns how it ended: expanded, failed, lost, or nothing when it isn't this worker's to do.
    """
    claim = find_claim(document_id)
    if claim is None:
        return "nothing"
    try:
        try:
            return _expand(claim, limits)
        except ParseFailure as failure:
            if failure.code == "unsupported":
                return _give_back(claim)
            return _fail(claim, code=failure.code, message=failure.message)
        except FileNotFoundError:
            logger.exception("the bytes of document %s are gone", document_id)
            message = "The stored file is missing. Upload it again."
            return _fail(claim, code="bytes_missing", message=message)
    except ClaimLost:
        return "lost"


def _expand(claim: Claim, limits: ParseLimits) -> str:
    with open_content(claim.blob) as file:
        data = file.read()
    media_type = archive_media_type(data, name=claim.file_name)
    if not media_type:
        return _give_back(claim)
    _begin(claim, media_type)
    kept: set[UUID] = set()
    refused: list[Refused] = []
    with closing(unpack(data, name=claim.file_name, limits=limits)) as found:
        for entry in found:
            outcome = _store(claim, entry) if isinstance(entry, Entry) else entry
            if isinstance(outcome, Refused):
                refused.append(outcome)
            else:
                kept.add(outcome)
            give_sign(claim, f"{len(kept):,} files unpacked")
    return _finish(claim, kept, refused)


def _begin(claim: Claim, media_type: str) -> None:
    """Say that it is an archive before its first part is made: from here on it has parts.

    Raises ParseFailure for one that came out of another.
    """
    with organization_scope(claim.organization_id):
        document = claimed(claim)
        if is_part(document):
            raise ParseFailure(
                "nested_archive",
                "This is an archive inside an archive. Unpack it and upload it by itself.",
            )
        remove_passages(document)
        Document.objects.filter(pk=document.pk).update(media_type=media_type, passage_count=0)


def _store(claim: Claim, entry: Entry) -> UUID | Refused:
    """Make one entry a document, or its next version; returns its id."""
    name = entry.path.rpartition("/")[2]
    try:
        content = read_content(entry.data)
    except TooLarge as error:
        return Refused(entry.path, error.message)
    with organization_scope(claim.organization_id):
        archive = claimed(claim)
        blob = store_content(archive.organization_id, content)
        part = make_document(
            archive.source,
            external_id=_key(archive, entry.path),
            file_name=name,
            uploaded_by_id=archive.uploaded_by_id,
        )
        is_new = not part.versions.exists()
        if not is_new and part.revision != mark_of(archive):
            return Refused(entry.path, "Another document of this source has its place.")
        if is_newest(part, content):
            return part.pk
        number = add_version(part, blob=blob, file_name=name, media_type="")
        part.title = title_from_name(name)
        part.path = _path(archive, entry.path)
        part.revision = mark_of(archive)
        if is_new:
            part.url = archive.url
            part.acl_state = archive.acl_state
            copy_grants(archive, part)
        wait(part)
        record_system(
            archive.organization_id,
            "retrieval.document_added",
            subject=part,
            data={
                "digest": content.digest,
                "size": len(content.data),
                "version": number,
                "archive": str(archive.pk),
            },
        )
    return part.pk


def _finish(claim: Claim, kept: set[UUID], refused: list[Refused]) -> str:
    """Take away the parts that are no longer inside, and say what came of the archive."""
    with organization_scope(claim.organization_id):
        archive = claimed(claim)
        for part in lock_parts(archive):
            if part.pk not in kept:
                remove_document(part)
                data = {"archive": str(archive.pk)}
                record_system(
                    archive.organization_id,
                    "retrieval.document_deleted",
                    subject=part,
                    data=data,
                )
        state = Document.State.INDEXED if kept else Document.State.FAILED
        archive.current_version_id = claim.version_id
        archive.save(update_fields=["current_version"])
        Document.objects.filter(pk=archive.pk).update(
            state=state,
            state_code=EXPANDED if kept else "no_files",
            state_message=_summary(len(kept), refused),
            state_at=ClockTimestamp(),
        )
        DocumentVersion.objects.filter(pk=claim.version_id).update(warnings=_warnings(refused))
    return EXPANDED if kept else "failed"


def _fail(claim: Claim, *, code: str, message: str) -> str:
    """Parts that were there or came out by then stay."""
    fail(claim, code=code, message=message)
    return "failed"


def _give_back(claim: Claim) -> str:
    """It is no archive (any more): whoever reads documents is to read it."""
    with organization_scope(claim.organization_id):
        put_back(claim)
        enqueue(INGEST_JOB, document_id=claim.document_id)
    return "nothing"


def _key(archive: Document, path: str) -> str:
    key = f"{archive.external_id}!/{path}"
    if len(key) <= 1000:
        return external_key(key)
    digest = hashlib.sha256(key.encode()).hexdigest()
    return f"{archive.external_id[:60]}… sha256:{digest}"


def _path(archive: Document, path: str) -> str:
    """`archive.zip/folder/file.md`, below the folder that the archive lies in."""
    place = archive.path
    if place.rpartition("/")[2] != archive.file_name:
        place = f"{place.rstrip('/')}/{archive.file_name}" if place else archive.file_name
    return f"{place}/{path}"[:1000]


def _summary(kept: int, refused: list[Refused]) -> str:
    what = f"Expanded into {kept:,} {'document' if kept == 1 else 'documents'}"
    if not kept:
        what = "Nothing in this archive can be read"
    if not refused:
        return f"{what}."
    reasons = Counter(entry.reason.rstrip(".") for entry in refused).most_common(_REASONS_NAMED)
    named = "; ".join(
        f"{entry_reason} ({count:,})" if count > 1 else entry_reason
        for entry_reason, count in reasons
    )
    return f"{what}, {len(refused):,} refused: {named}."[:500]


def _warnings(refused: list[Refused]) -> list[str]:
    lines = [f"{entry.path[:150]}: {entry.reason}"[:300] for entry in refused[:_REFUSED_NAMED]]
    if len(refused) > _REFUSED_NAMED:
        lines.append(f"{len(refused) - _REFUSED_NAMED:,} more files were refused.")
    return lines
