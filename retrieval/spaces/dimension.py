"""The length of vectors, at the three places where it is written down: the column, the code, the
spaces.

Promises: a mismatch is found at start (a system check, `prepare_database` and `doctor` ask here)
and when a model is entered, and is said in one sentence with what to do; nothing is ever cut or
padded to fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from django.core.checks import CheckMessage, Error, Tags, register
from django.db import connections

from kaizen.kernel.errors import Invalid
from retrieval.embedders.contract import DIMENSION, wrong_length
from retrieval.embedders.local import LocalEmbedder

# PostgreSQL keeps the length of a halfvec as the type's modifier.
COLUMN = """
SELECT a.atttypmod FROM pg_attribute a
WHERE a.attrelid = to_regclass('retrieval_vector') AND a.attname = 'embedding'
"""
SPACES = """
SELECT DISTINCT e.model, e.dimension FROM retrieval_embeddingspace e
WHERE e.state <> 'retired' ORDER BY e.model, e.dimension
"""


class Connected(Protocol):
    """A connection of Django's or psycopg's."""

    def cursor(self) -> AbstractContextManager[Any]: ...


def check_dimension(dimension: int) -> None:
    """Raises Invalid for a model whose vectors the index can't hold."""
    if dimension != DIMENSION:
        raise Invalid(wrong_length(dimension, DIMENSION), code="wrong_dimension")


def find_mismatches(connection: Connected) -> list[str]:
    """What doesn't fit together, a sentence each.

    A database that isn't migrated yet has no column to compare.
    """
    with connection.cursor() as cursor:
        cursor.execute(COLUMN)
        found = cursor.fetchone()
        if found is None:
            return []
        cursor.execute(SPACES)
        spaces = cursor.fetchall()
    column = int(found[0])
    problems = []
    if column != DIMENSION:
        problems.append(
            f"The column retrieval_vector.embedding holds vectors of {column:,} numbers and this "
            f"version of Kaizen writes {DIMENSION:,}. Install the version that the database "
            "belongs to."
        )
    if LocalEmbedder.dimension != column:
        problems.append(
            f"The built-in embedding model has {LocalEmbedder.dimension:,} numbers and the column "
            f"{column:,}."
        )
    problems += [
        f"The embedding space of {model} is of {dimension:,} numbers and the column of "
        f"{column:,}. Change the model in the admin."
        for model, dimension in spaces
        if dimension != column
    ]
    return problems


@register(Tags.database)
def check_vectors(
    app_configs: object, databases: Sequence[str] | None = None, **_: Any
) -> list[CheckMessage]:
    """Django's check: `manage.py check --database default`, and before each migration."""
    return [
        Error(text, id="retrieval.E001")
        for alias in databases or ()
        for text in find_mismatches(connections[alias])
    ]
