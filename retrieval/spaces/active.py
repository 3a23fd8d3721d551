"""The organisation's active space, held while something is written into it.

Promises: nothing is written into a space that is being switched off: the writer's share lock and
the switch's lock exclude each other, so the switch sees every passage. Not for: reading, which
names a space by its digest and needs no lock.
"""

from __future__ import annotations

from typing import cast
from uuid import UUID

from django.db import connection

from kaizen.kernel.errors import Conflict
from retrieval.embedders.contract import Embedder
from retrieval.models import EmbeddingSpace

_HOLD = """
SELECT s.key, s.digest FROM retrieval_embeddingspace s
WHERE s.organization_id = %(organization)s AND s.state = 'active' FOR SHARE
"""
_ACTIVE = EmbeddingSpace.State.ACTIVE


class SpaceChanged(Conflict):
    """The organisation's passages are embedded by another model meanwhile: embed again."""


def find_active_space(organization_id: UUID) -> EmbeddingSpace | None:
    """The space that queries are asked of. None until something was indexed or chosen."""
    found: EmbeddingSpace | None = EmbeddingSpace.objects.filter(
        organization_id=organization_id, state=_ACTIVE
    ).first()
    return found


def hold_active_space(organization_id: UUID, embedder: Embedder) -> int:
    """The key of the active space for vectors of `embedder`, made on first use.

    Locks it against a switch until the caller's transaction ends; other writers go on. Raises
    SpaceChanged when it holds another model's vectors.
    """
    found = _hold(organization_id)
    if found is None:
        EmbeddingSpace.objects.get_or_create(
            organization_id=organization_id,
            state=_ACTIVE,
            defaults={
                "model": embedder.model,
                "digest": embedder.digest,
                "dimension": embedder.dimension,
            },
        )
        found = _hold(organization_id)
    if found is None or found[1] != embedder.digest:
        raise SpaceChanged
    return found[0]


def _hold(organization_id: UUID) -> tuple[int, str] | None:
    with connection.cursor() as cursor:
        cursor.execute(_HOLD, {"organization": organization_id})
        return cast("tuple[int, str] | None", cursor.fetchone())
