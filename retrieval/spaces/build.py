"""Builds the space of another model beside the active one, switches to it, and empties the old one.

Promises: a slice's vectors and the progress are one transaction, under a lease, so that no two
workers do a slice and a killed one's is done again; a row says of rights what its document says at
that moment; the switch happens only when, with writers shut out, every passage in the index has
its vector. Texts are embedded outside any transaction.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from cryptography.fernet import InvalidToken
from django.db import IntegrityError, connection
from django.db.models import F

from audit.record import record_system
from kaizen.kernel.clock import ClockTimestamp
from kaizen.kernel.errors import Unavailable
from kaizen.kernel.tenancy import organization_scope
from retrieval.embedders.choice import LOST_KEY, embedder_of_space
from retrieval.embedders.contract import REFUSED, Embedder, Vectors
from retrieval.embedders.reuse import embed_new
from retrieval.models import EmbeddingSpace
from retrieval.models.spaces import LONGEST_ERROR
from retrieval.spaces.lease import Lease, LeaseLost, claim, hold, release, signs_of_life
from retrieval.spaces.texts import Text, lacks_any, list_texts
from retrieval.vectors import vector_literal

SLICE = 128
REMOVED_AT_ONCE = 5_000
GRACE = timedelta(seconds=120)
"""A search that began before the switch still finds the old vectors for so long."""
_PAUSE = 0.2
_LONGEST_WAIT = timedelta(minutes=30)

# The documents' rows are locked, so that their rights can't change under what is written of them.
# Those that somebody else holds are left for the next round: nobody waits for us while we wait.
_DOCUMENTS = """
SELECT d.key FROM retrieval_document d WHERE d.organization_id = %(organization_id)s
  AND d.key = ANY (%(documents)s) ORDER BY d.key FOR NO KEY UPDATE SKIP LOCKED
"""
_INSERT = """
INSERT INTO retrieval_vector
    (organization_key, source_key, document_key, chunk_key, inherits, space_key, embedding)
SELECT l.organization_key, s.key, d.key, l.chunk_key, d.acl_state = 'inherit', %(space)s,
    n.value::halfvec
FROM unnest(%(chunks)s::bigint[], %(values)s::text[]) AS n (key, value)
JOIN retrieval_lexeme l ON l.organization_key = %(organization)s AND l.chunk_key = n.key
JOIN retrieval_document d ON d.key = l.document_key AND d.deleted_at IS NULL
JOIN retrieval_source s ON s.id = d.source_id
WHERE d.key = ANY (%(documents)s)
ON CONFLICT DO NOTHING
"""
_DIGESTS = """
UPDATE retrieval_chunk c SET digest = n.digest
FROM unnest(%(chunks)s::bigint[], %(digests)s::text[]) AS n (key, digest)
WHERE c.organization_id = %(organization_id)s AND c.key = n.key AND c.digest <> n.digest
"""
_EMPTY = """
WITH x AS MATERIALIZED (
    SELECT chunk_key FROM retrieval_vector
    WHERE organization_key = %(organization)s AND space_key = %(space)s
    ORDER BY chunk_key LIMIT %(most)s FOR UPDATE SKIP LOCKED
)
DELETE FROM retrieval_vector v USING x
WHERE v.organization_key = %(organization)s AND v.space_key = %(space)s
  AND v.chunk_key = x.chunk_key
"""
_ANY_LEFT = """
SELECT EXISTS (SELECT 1 FROM retrieval_vector
               WHERE organization_key = %(organization)s AND space_key = %(space)s)
"""


class Built(StrEnum):
    """How a worker's time at a space ended."""

    SWITCHED = "switched"
    MORE = "more"  # its time is over, there is more to do
    WAITING = "waiting"  # the model failed; later again
    NOTHING = "nothing"  # nothing to do, or somebody else is at it
    LOST = "lost"  # cancelled or taken over meanwhile


def build_space(space_id: UUID, *, seconds: float, embedder: Embedder | None = None) -> Built:
    """Build for about so long, and switch when all is there. Safe to call again at any time."""
    lease = claim(space_id)
    if lease is None:
        return Built.NOTHING
    ends = time.monotonic() + seconds
    try:
        with signs_of_life(lease):
            is_switched = _build(lease, ends, embedder)
    except LeaseLost:
        return Built.LOST
    except Unavailable as error:
        _wait(lease, error)
        return Built.WAITING
    if is_switched:
        return Built.SWITCHED
    release(lease)
    return Built.MORE


def empty_space(space_id: UUID) -> bool:
    """Remove a slice of a retired space's vectors, some time after it was retired.

    Returns whether there is more. Rows that somebody else holds are left for the next time.
    """
    space = (
        EmbeddingSpace.objects.select_related("organization")
        .filter(pk=space_id, state=EmbeddingSpace.State.RETIRED, emptied_at=None)
        .filter(retired_at__lte=ClockTimestamp() - GRACE)
        .first()
    )
    if space is None:
        return False
    parameters = {
        "organization": space.organization.key,
        "space": space.key,
        "most": REMOVED_AT_ONCE,
    }
    with organization_scope(space.organization_id), connection.cursor() as cursor:
        cursor.execute(_EMPTY, parameters)
        cursor.execute(_ANY_LEFT, parameters)
        is_more = bool(cursor.fetchone()[0])
        if not is_more:
            EmbeddingSpace.objects.filter(pk=space.pk).update(emptied_at=ClockTimestamp())
    return is_more


def _build(lease: Lease, ends: float, embedder: Embedder | None) -> bool:
    """Slice after slice until the switch, or until the time is over."""
    spaces = EmbeddingSpace.objects.select_related("embedding_model")
    try:
        space = spaces.get(pk=lease.space_id)
    except InvalidToken:
        raise Unavailable(LOST_KEY, code=REFUSED) from None
    embedder = embedder or embedder_of_space(space, arena=True)
    cursor = space.cursor
    while True:
        texts = list_texts(
            organization_key=lease.organization_key,
            space_key=lease.space_key,
            after=cursor,
            most=SLICE,
        )
        if texts:
            vectors, tokens = embed_new(
                embedder,
                [text.text for text in texts],
                organization_id=lease.organization_id,
                space_key=lease.space_key,
            )
            written = _write(lease, texts, vectors, tokens)
            cursor = texts[-1].chunk_key
        elif cursor:
            # The next round begins at the front: what changed, and what somebody held.
            cursor = 0
            continue
        elif _switch(lease):
            return True
        else:
            written = 0
        if not written:
            time.sleep(_PAUSE)
        if time.monotonic() >= ends:
            return False


def _write(lease: Lease, texts: Sequence[Text], vectors: Vectors, tokens: int) -> int:
    """One slice with its progress. Locks the space, then those documents that nobody else holds.

    Returns how many rows were written. Raises LeaseLost.
    """
    parameters: dict[str, Any] = {
        "organization_id": lease.organization_id,
        "organization": lease.organization_key,
        "space": lease.space_key,
        "documents": sorted({text.document_key for text in texts}),
        "chunks": [text.chunk_key for text in texts],
        "digests": [text.digest for text in texts],
        "values": [vector_literal(vector) for vector in vectors],
    }
    with hold(lease) as space, connection.cursor() as cursor:
        cursor.execute(_DOCUMENTS, parameters)
        parameters["documents"] = [row[0] for row in cursor.fetchall()]
        cursor.execute(_INSERT, parameters)
        written = max(0, cursor.rowcount)
        if any(text.digest != text.stored_digest for text in texts):
            cursor.execute(_DIGESTS, parameters)
        EmbeddingSpace.objects.filter(pk=space.pk).update(
            cursor=texts[-1].chunk_key,
            done=F("done") + written,
            tokens=F("tokens") + tokens,
            failures=0,
            last_error="",
        )
    return written


def _switch(lease: Lease) -> bool:
    """Make the space the active one, if with writers shut out no passage lacks a vector in it.

    Locks the organisation's active space, which waits for those who write into it and makes others
    wait, then this one. Raises LeaseLost.
    """
    active = EmbeddingSpace.objects.filter(
        organization_id=lease.organization_id, state=EmbeddingSpace.State.ACTIVE
    )
    try:
        with organization_scope(lease.organization_id):
            old = active.select_for_update().first()
            with hold(lease) as space:
                if lacks_any(organization_key=lease.organization_key, space_key=lease.space_key):
                    return False
                _exchange(old, space)
    except IntegrityError:
        # The organisation's very first document was indexed at the same instant.
        return False
    return True


def _exchange(old: EmbeddingSpace | None, new: EmbeddingSpace) -> None:
    moment = ClockTimestamp()
    if old is not None:
        EmbeddingSpace.objects.filter(pk=old.pk).update(
            state=EmbeddingSpace.State.RETIRED, retired_at=moment
        )
    EmbeddingSpace.objects.filter(pk=new.pk).update(
        state=EmbeddingSpace.State.ACTIVE, activated_at=moment, lease_until=None
    )
    record_system(
        new.organization_id,
        "retrieval.embedding_switched",
        subject=new,
        data={"passages": new.done, "tokens": new.tokens},
    )


def _wait(lease: Lease, error: Unavailable) -> None:
    """Say why, and when it is tried again: later each time, and as the provider asked."""
    space = EmbeddingSpace.objects.get(pk=lease.space_id)
    pause = timedelta(seconds=min(10 * 2 ** min(space.failures, 8), 1_800))
    if error.code != REFUSED:
        pause = max(pause, timedelta(seconds=min(error.retry_after, 1_800)))
    release(
        lease,
        failures=F("failures") + 1,
        last_error=error.message[:LONGEST_ERROR],
        retry_at=ClockTimestamp() + min(pause, _LONGEST_WAIT),
    )
