"""One measured organisation of an open world: its callers, what each may see, and warm memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import psycopg
from django.db import connection

from accounts.authority import Authority
from kaizen.embedded.environment import SUPERUSER_ROLE
from tests.bench import statements, truth
from tests.bench.server import say
from tests.bench.shape import SHARES
from tests.bench.world import DATABASE, Organization, World

_WARMED = """
SELECT pg_prewarm(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'public' AND c.relkind IN ('r', 'i')
  AND (c.relname LIKE 'retrieval_%' OR c.relname LIKE 'accounts_%' OR c.relname LIKE 'auth_%')
ORDER BY c.relname LIKE '%chunk%' DESC, c.relname LIKE '%lexeme%' DESC,
    c.relname LIKE '%posting%' DESC
"""


@dataclass(frozen=True)
class Caller:
    """A measured caller and which of the stored passages they may see."""

    authority: Authority
    visible: npt.NDArray[np.bool_]

    @property
    def count(self) -> int:
        """How many passages they see."""
        return int(self.visible.sum())


@dataclass(frozen=True)
class Scene:
    """An organisation, its stored vectors and its callers by share."""

    organization: Organization
    stored: truth.Stored
    callers: dict[str, list[Caller]]

    def every(self) -> list[Caller]:
        """All callers, whatever they see."""
        return [caller for share in SHARES for caller in self.callers[share]]


def make_scene(organization: Organization) -> Scene:
    """Read the organisation's vectors and what its callers may see."""
    stored = truth.read_stored(organization)
    callers: dict[str, list[Caller]] = {}
    for share in SHARES:
        callers[share] = []
        for user_id in organization.callers[share]:
            authority = truth.authority_of(user_id, organization)
            callers[share].append(Caller(authority, truth.visible_rows(authority, stored)))
    return Scene(organization, stored, callers)


def scenes(opened: World) -> Iterator[Scene]:
    """Each measured organisation in turn: the vectors of one at a time are in memory."""
    for name, organization in opened.organizations.items():
        say(f"{name}: {organization.passages:,} passages")
        yield make_scene(organization)


def make_ready(opened: World) -> None:
    """The functions to measure beside, and the tables in memory."""
    statements.prepare(opened.server, DATABASE)
    warm(opened)


def warm(opened: World) -> None:
    """Read the tables and indexes of search once, the most used ones last."""
    try:
        with opened.server.connect(DATABASE, role=SUPERUSER_ROLE) as superuser:
            superuser.execute("CREATE EXTENSION IF NOT EXISTS pg_prewarm")
            superuser.execute(_WARMED)
    except psycopg.Error as error:
        say(f"not prewarmed: {error}")


def fits_words(organization: Organization, words: tuple[str, ...]) -> list[str]:
    """The terms that the product looks up for these words."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT t.term FROM retrieval_query_terms(%s, %s::text[]) t",
            [organization.key, list(words)],
        )
        return [row[0] for row in cursor.fetchall()]
