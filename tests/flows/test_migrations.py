"""The newest migrations go back and forth: what stands afterwards is what stood before."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import psycopg
import pytest

from kaizen.embedded.environment import OWNER_ROLE
from tests import servers

_FUNCTIONS = """
SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid) FROM pg_proc p
JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = 'public' AND p.prokind = 'f'
  AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
"""
_COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns
WHERE table_schema = 'public'
"""
_CONSTRAINTS = """
SELECT c.conrelid::regclass::text, pg_get_constraintdef(c.oid) FROM pg_constraint c
JOIN pg_namespace n ON n.oid = c.connamespace WHERE n.nspname = 'public'
"""
_INDEXES = "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'public'"
# What the newest migrations stand on, to be moved along with them.
BEFORE = {"accounts": "0002_relation", "retrieval": "0009_lexical"}


@pytest.fixture
def database(django_db_setup: None) -> Iterator[str]:
    """A database of the test's own."""
    name = servers.create_database()
    yield name
    servers.drop_database(name)


def test_the_newest_migrations_go_back_and_forth(database: str) -> None:
    before = _schema(database)
    for app, name in reversed(BEFORE.items()):
        _migrate(database, app, name)
    between = _schema(database)
    assert between["functions"] != before["functions"]
    _migrate(database)
    assert _schema(database) == before


def _migrate(database: str, *to: str) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "migrate", "--database", "owner", "--no-input", *to],
        cwd=servers.ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "KAIZEN_TEST_DATABASE_URL": servers.database_url(database),
            "DATABASE_OWNER_URL": servers.database_url(database, role=OWNER_ROLE),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _schema(database: str) -> dict[str, set[tuple[str, ...]]]:
    """What the migrations made, as the server tells it."""
    asked = {
        "functions": _FUNCTIONS,
        "columns": _COLUMNS,
        "constraints": _CONSTRAINTS,
        "indexes": _INDEXES,
    }
    with psycopg.connect(servers.database_url(database, role=OWNER_ROLE)) as owner:
        return {name: set(owner.execute(sql).fetchall()) for name, sql in asked.items()}
