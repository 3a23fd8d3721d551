"""The upkeep of postings: folds what was indexed lately into segments, and segments into larger
ones.

Promises: what lies in the tail is found as well as what is folded, so nothing waits for this; a
passage is in the tail or in one segment, never both; a worker may die at any instant, since each
fold is one transaction. One worker at a time folds for an organisation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db import connection, transaction

# An organisation's tail is folded once it is this long; below, searching it costs little.
LONGEST_TAIL = 400
# Segments do not grow beyond this many passages, so that a fold stays short.
LARGEST_SEGMENT = 50_000
# A segment is rewritten when so much of it is dead.
_MOST_DEAD = 0.2


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment's living and dead passages. `is_waited_for`: a dead one is back in the tail."""

    living: int
    dead: int
    is_waited_for: bool = False


def find_long_tails(*, limit: int = 20) -> list[int]:
    """Keys of organisations whose tail, or whose dead passages, are worth a fold."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT organization_key FROM retrieval_lexeme WHERE segment IS NULL
            GROUP BY 1 HAVING count(*) >= %(longest)s
            UNION
            SELECT organization_key FROM retrieval_tombstone
            GROUP BY 1 HAVING count(*) >= %(longest)s
            ORDER BY 1 LIMIT %(limit)s
            """,
            {"longest": LONGEST_TAIL, "limit": limit},
        )
        return [row[0] for row in cursor.fetchall()]


def fold_organization(organization_key: int) -> int:
    """Fold each source's tail, one transaction a source. Returns how many passages were folded;
    0 as well when another worker is at it.
    """
    return sum(_fold_source(organization_key, key) for key in _sources_to_fold(organization_key))


def choose_segments(tail: int, segments: Mapping[int, Segment]) -> list[int]:
    """Which segments to rewrite together with `tail` passages.

    Those that are much dead or waited for, then the small ones: one at most twice as large as all
    below it joins them, so that a source has few segments and each passage is rewritten seldom.
    """
    chosen = [
        key
        for key, segment in segments.items()
        if segment.is_waited_for or segment.dead > _MOST_DEAD * (segment.living + segment.dead)
    ]
    total = tail + sum(segments[key].living for key in chosen)
    others = sorted((segment.living, key) for key, segment in segments.items() if key not in chosen)
    for living, key in others:
        if living > 2 * total or total + living > LARGEST_SEGMENT:
            break
        chosen.append(key)
        total += living
    return sorted(chosen)


def _sources_to_fold(organization_key: int) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT source_key FROM retrieval_lexeme
            WHERE organization_key = %(key)s AND segment IS NULL
            UNION SELECT source_key FROM retrieval_tombstone WHERE organization_key = %(key)s
            ORDER BY 1
            """,
            {"key": organization_key},
        )
        return [row[0] for row in cursor.fetchall()]


def _fold_source(organization_key: int, source_key: int) -> int:
    parameters = {"key": organization_key, "source": source_key}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_try_advisory_xact_lock(hashtextextended('fold ' || %(key)s, 0))", parameters
        )
        if not cursor.fetchone()[0]:
            return 0
        cursor.execute(
            "SELECT count(*) FROM retrieval_lexeme WHERE organization_key = %(key)s "
            "AND source_key = %(source)s AND segment IS NULL",
            parameters,
        )
        tail = cursor.fetchone()[0]
        cursor.execute(
            """
            SELECT segment, sum(living), sum(dead), bool_or(waited_for) FROM (
                SELECT l.segment, count(*) AS living, 0 AS dead, false AS waited_for
                FROM retrieval_lexeme l
                WHERE l.organization_key = %(key)s AND l.source_key = %(source)s
                  AND l.segment IS NOT NULL GROUP BY 1
                UNION ALL
                SELECT t.segment, 0, count(*), bool_or(EXISTS (
                    SELECT 1 FROM retrieval_lexeme l WHERE l.organization_key = %(key)s
                      AND l.chunk_key = t.chunk_key AND l.segment IS NULL))
                FROM retrieval_tombstone t
                WHERE t.organization_key = %(key)s AND t.source_key = %(source)s GROUP BY 1
            ) s GROUP BY 1
            """,
            parameters,
        )
        segments = {row[0]: Segment(int(row[1]), int(row[2]), row[3]) for row in cursor.fetchall()}
        chosen = choose_segments(tail, segments)
        if tail == 0 and not chosen:
            return 0
        cursor.execute(
            "SELECT retrieval_fold(%(key)s, %(source)s, %(segments)s::bigint[])",
            {**parameters, "segments": chosen},
        )
        folded: int = cursor.fetchone()[0]
    return folded
