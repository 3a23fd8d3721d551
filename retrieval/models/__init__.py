"""The rows of retrieval, by what they are about."""

from __future__ import annotations

from retrieval.models.grants import (
    DocumentTeamGrant,
    DocumentUserGrant,
    SourceTeamGrant,
    SourceUserGrant,
)
from retrieval.models.library import Blob, Chunk, Document, DocumentVersion, Source
from retrieval.models.spaces import EmbeddingSpace

__all__ = [
    "Blob",
    "Chunk",
    "Document",
    "DocumentTeamGrant",
    "DocumentUserGrant",
    "DocumentVersion",
    "EmbeddingSpace",
    "Source",
    "SourceTeamGrant",
    "SourceUserGrant",
]
