"""The rows of retrieval, by what they are about."""

from __future__ import annotations

from retrieval.models.connections import Connection, SyncItem, SyncRun, WaitingReader
from retrieval.models.grants import (
    DocumentTeamGrant,
    DocumentUserGrant,
    SourceTeamGrant,
    SourceUserGrant,
)
from retrieval.models.library import Blob, Chunk, Document, DocumentVersion, Source
from retrieval.models.live import LiveResult, LiveSource, LiveTool, MemberCredential
from retrieval.models.questions import (
    Persona,
    Question,
    QuestionDocument,
    QuestionSet,
    ScoreRow,
    ScoreRun,
)
from retrieval.models.spaces import EmbeddingModel, EmbeddingSpace, RerankModel

__all__ = [
    "Blob",
    "Chunk",
    "Connection",
    "Document",
    "DocumentTeamGrant",
    "DocumentUserGrant",
    "DocumentVersion",
    "EmbeddingModel",
    "EmbeddingSpace",
    "LiveResult",
    "LiveSource",
    "LiveTool",
    "MemberCredential",
    "Persona",
    "Question",
    "QuestionDocument",
    "QuestionSet",
    "RerankModel",
    "ScoreRow",
    "ScoreRun",
    "Source",
    "SourceTeamGrant",
    "SourceUserGrant",
    "SyncItem",
    "SyncRun",
    "WaitingReader",
]
