"""Which embedder serves an organisation: that of its active space, the built-in one until it chose.

Promises: one small query a call, engines kept for the process; a model that can't be used just now
is an embedder whose calls raise Unavailable, so that search goes on by words alone. Not for:
changing the model (`retrieval.spaces.changes`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from cryptography.fernet import InvalidToken

from kaizen.kernel.errors import Unavailable
from kaizen.kernel.models import exact_json
from retrieval.embedders.contract import REFUSED, Embedder, Vectors
from retrieval.embedders.local import LocalEmbedder, local_embedder
from retrieval.embedders.remote import Remote, RemoteEmbedder, Sizing
from retrieval.models import EmbeddingModel, EmbeddingSpace

LOST_KEY = "The key of the embedding model can't be decrypted. Enter it anew."


@dataclass(frozen=True, slots=True)
class AbsentEmbedder:
    """Stands for a model that can't be used, and says why when it is asked."""

    model: str
    digest: str
    dimension: int
    reason: str

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Raises Unavailable."""
        raise Unavailable(self.reason, code=REFUSED)

    def embed_query(self, text: str) -> Vectors:
        """Raises Unavailable."""
        raise Unavailable(self.reason, code=REFUSED)

    def count_tokens(self, text: str) -> int:
        """As the built-in tokenizer counts."""
        return local_embedder().count_tokens(text)


def embedder_for(organization_id: UUID, *, arena: bool = False) -> Embedder:
    """The embedder of the organisation's active space. One query."""
    spaces = EmbeddingSpace.objects.filter(
        organization_id=organization_id, state=EmbeddingSpace.State.ACTIVE
    )
    try:
        space = spaces.select_related("embedding_model").first()
    except InvalidToken:
        space = spaces.get()
        return AbsentEmbedder(space.model, space.digest, space.dimension, LOST_KEY)
    return local_embedder(arena=arena) if space is None else embedder_of_space(space, arena=arena)


def embedder_of_space(space: EmbeddingSpace, *, arena: bool = False) -> Embedder:
    """The embedder whose vectors `space` holds."""
    if space.embedding_model is None:
        found: Embedder = local_embedder(arena=arena)
    else:
        found = embedder_of(space.embedding_model, arena=arena)
    if found.digest != space.digest:
        reason = f"The index was made with {space.model}, which isn't what is installed now."
        return AbsentEmbedder(space.model, space.digest, space.dimension, reason)
    return found


def embedder_of(model: EmbeddingModel, *, arena: bool = False) -> Embedder:
    """The embedder that `model` describes, the same one each time."""
    if model.kind == EmbeddingModel.Kind.LOCAL:
        return local_embedder(arena=arena)
    return _remote(
        Remote(
            base_url=model.base_url,
            name=model.name,
            digest=digest_of(model),
            dimension=model.dimension,
            sizing=Sizing(model.sizing),
            api_key=model.api_key,
            query_prefix=model.query_prefix,
            passage_prefix=model.passage_prefix,
            batch=model.batch,
        )
    )


def digest_of(model: EmbeddingModel) -> str:
    """Over everything that the vectors follow from: models of one digest give the same ones."""
    if model.kind == EmbeddingModel.Kind.LOCAL:
        return LocalEmbedder.digest
    parts = [
        model.kind,
        model.name,
        model.base_url.rstrip("/"),
        model.dimension,
        model.sizing,
        model.query_prefix,
        model.passage_prefix,
    ]
    return hashlib.sha256(exact_json(parts).encode()).hexdigest()


@lru_cache(maxsize=256)
def _remote(remote: Remote) -> RemoteEmbedder:
    return RemoteEmbedder(remote)
