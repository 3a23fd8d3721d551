"""Texts of passages that a reader may NOT see, for one purpose: to cover words that an answer took
from them.

Nothing read here may be shown, sent or stored. It is the one reading of passages that doesn't go
through the relation, and it exists so that revoking a grant also reaches the prose of earlier
answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from retrieval.models import Chunk


def read_texts_for_withholding(organization_id: UUID, chunk_ids: Iterable[UUID]) -> dict[UUID, str]:
    """The texts of hidden passages by id."""
    rows = Chunk.objects.filter(organization_id=organization_id, pk__in=set(chunk_ids))
    return dict(rows.values_list("pk", "text"))
