"""Vectors that are there already: equal texts share one computation, wherever they stand.

Promises: never another organisation's vectors, never another space's; a vector is found by the
digest of the very text that is embedded. That a passage exists elsewhere is nowhere shown, so
rights play no part here: a vector says no more than the text that is being embedded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

import numpy as np
from django.db import connection

from retrieval.embedders.contract import Embedder, Vectors, embed_counted

_FIND = """
SELECT DISTINCT ON (c.digest) c.digest, v.embedding::real[]
FROM retrieval_chunk c
JOIN retrieval_embeddingspace s ON s.key = %(space)s AND s.organization_id = c.organization_id
JOIN accounts_organization o ON o.id = c.organization_id
JOIN retrieval_vector v ON v.organization_key = o.key AND v.space_key = s.key
    AND v.chunk_key = c.key
WHERE c.organization_id = %(organization)s AND c.digest = ANY (%(digests)s)
ORDER BY c.digest, c.key
"""


def embedding_digest(text: str) -> str:
    """32 hex characters that stand for a text as it is embedded: kept as `Chunk.digest`."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def find_vectors(
    organization_id: UUID, space_key: int, digests: Collection[str]
) -> dict[str, Vectors]:
    """The vectors in this space of passages with these digests, as far as there are any.

    One query. Digests of no text ("") find nothing.
    """
    wanted = sorted({digest for digest in digests if digest})
    if not wanted:
        return {}
    parameters: dict[str, Any] = {
        "space": space_key,
        "organization": organization_id,
        "digests": wanted,
    }
    with connection.cursor() as cursor:
        cursor.execute(_FIND, parameters)
        rows = cursor.fetchall()
    return {digest: _normalised(values) for digest, values in rows}


def embed_new(
    embedder: Embedder,
    texts: Sequence[str],
    *,
    organization_id: UUID,
    space_key: int | None,
) -> tuple[Vectors, int]:
    """The vectors of `texts`: those that `space_key` has are copied, each other text is embedded
    once.

    Returns them with the tokens charged. Raises Unavailable as the embedder does.
    """
    digests = [embedding_digest(text) for text in texts]
    known = {} if space_key is None else find_vectors(organization_id, space_key, digests)
    missing = {
        digest: text for digest, text in zip(digests, texts, strict=True) if digest not in known
    }
    tokens = 0
    if missing:
        rows, tokens = embed_counted(embedder, list(missing.values()))
        known |= dict(zip(missing, rows, strict=True))
    vectors = np.zeros((len(texts), embedder.dimension), dtype=np.float32)
    for at, digest in enumerate(digests):
        vectors[at] = known[digest]
    return vectors, tokens


def _normalised(values: Sequence[float]) -> Vectors:
    """Half precision rounds, so the length isn't quite one any more."""
    vector = np.asarray(values, dtype=np.float32)
    return (vector / max(float(np.linalg.norm(vector)), 1e-12)).astype(np.float32)
