"""Partitions of the index: an organisation that has grown gets its own, and with it a graph of its
vectors.

For the owner's connection only, since the processes' role owns nothing; `manage.py
split_organizations` and each `prepare_database` run it. Searches go on meanwhile; what an
organisation in the shared partition writes waits until the rows have moved.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

# Below this many passages distances are computed faster than a graph is walked.
SPLIT_AT = 8_000
_TABLES = ("retrieval_vector", "retrieval_lexeme", "retrieval_posting")
_GROWN = """
SELECT organization_key FROM retrieval_vector_rest
GROUP BY organization_key HAVING count(*) > %s ORDER BY count(*) DESC
"""
# m and ef_construction decide recall on hard questions, more than the beam does.
_GRAPH = """
CREATE INDEX CONCURRENTLY {name} ON {table} USING hnsw (embedding halfvec_ip_ops)
WITH (m = 32, ef_construction = 256)
"""


def split_grown(connection: psycopg.Connection[Any], *, at: int = SPLIT_AT) -> list[int]:
    """Give every organisation with more than `at` passages in the shared partition its own.

    Also finishes what an interrupted run began. Returns their keys. The connection must be the
    owner's and in autocommit.
    """
    grown = [row[0] for row in connection.execute(_GROWN, [at]).fetchall()]
    for key in grown:
        _move(connection, key)
    for key in _without_graph(connection):
        _build_graph(connection, key)
    return grown


def _move(connection: psycopg.Connection[Any], key: int) -> None:
    """One transaction: no statement finds the organisation half moved."""
    with connection.transaction():
        for table in _TABLES:
            names = {
                "parent": sql.Identifier(table),
                "rest": sql.Identifier(f"{table}_rest"),
                "own": sql.Identifier(f"{table}_{key}"),
                "key": sql.Literal(key),
            }
            for statement in (
                "LOCK TABLE {rest} IN SHARE ROW EXCLUSIVE MODE",
                "CREATE TABLE {own} (LIKE {parent} INCLUDING ALL)",
                "INSERT INTO {own} SELECT * FROM {rest} WHERE organization_key = {key}",
                # The triggers of a true deletion would bury what only moves.
                "ALTER TABLE {rest} DISABLE TRIGGER USER",
                "DELETE FROM {rest} WHERE organization_key = {key}",
                "ALTER TABLE {rest} ENABLE TRIGGER USER",
                "ALTER TABLE {parent} ATTACH PARTITION {own} FOR VALUES IN ({key})",
                "ANALYZE {own}",
            ):
                connection.execute(sql.SQL(statement).format(**names))


def _without_graph(connection: psycopg.Connection[Any]) -> list[int]:
    rows = connection.execute(
        """
        SELECT substring(c.relname FROM '[0-9]+$')::bigint FROM pg_inherits i
        JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'retrieval_vector'::regclass AND c.relname ~ '^retrieval_vector_[0-9]+$'
          AND to_regclass(c.relname || '_graph') IS NULL
        """
    ).fetchall()
    return [row[0] for row in rows]


def _build_graph(connection: psycopg.Connection[Any], key: int) -> None:
    """Under another name until it is whole: the router goes by the name."""
    table, name = f"retrieval_vector_{key}", f"retrieval_vector_{key}_graph"
    building = sql.Identifier(f"{name}_new")
    connection.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(building))
    connection.execute(sql.SQL(_GRAPH).format(name=building, table=sql.Identifier(table)))
    connection.execute(
        sql.SQL("ALTER INDEX {} RENAME TO {}").format(building, sql.Identifier(name))
    )
