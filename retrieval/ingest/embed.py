"""The names under which the embedder was known before `retrieval.embedders`."""

from __future__ import annotations

from retrieval.embedders.contract import Embedder, Vectors
from retrieval.embedders.local import LocalEmbedder, local_embedder

__all__ = ["Embedder", "LocalEmbedder", "Vectors", "local_embedder"]
