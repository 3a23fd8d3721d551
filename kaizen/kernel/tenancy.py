"""The scope of a request, job or frame: one short transaction with the organisation set in it.

`SET LOCAL kaizen.organization` is the hook for row-level security. A stream never holds a scope
open.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import connection, transaction

if TYPE_CHECKING:
    from accounts.authority import Authority


@contextmanager
def scope(authority: Authority) -> Iterator[None]:
    """Run the block in one transaction as the caller's organisation."""
    with organization_scope(authority.organization_id):
        yield


@contextmanager
def organization_scope(organization_id: UUID) -> Iterator[None]:
    """Like `scope`, for the platform's own sweeps that act for one organisation without a
    caller.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('kaizen.organization', %s, true)", [str(organization_id)]
            )
        yield
