"""The three database roles, the database and its extensions: made by the superuser, safe to repeat.

`kaizen_super` is the launcher's alone, `kaizen_owner` owns database and schema and runs
migrations, `kaizen_app` serves and owns nothing. What the app role may do in tables is granted
after migrating, not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import LiteralString

import psycopg
from psycopg import sql

from kaizen.embedded.environment import APP_ROLE, OWNER_ROLE

EXTENSIONS = ("vector", "pg_trgm", "unaccent", "btree_gin")
LOGIN_ONLY: LiteralString = "LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION"


def create_roles(connection: psycopg.Connection, passwords: Mapping[str, str]) -> None:
    """Make the owner and the app role, or bring back their rights and passwords."""
    for role in (OWNER_ROLE, APP_ROLE):
        found = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone()
        verb = sql.SQL("ALTER ROLE" if found else "CREATE ROLE")
        connection.execute(
            sql.SQL("{} {} {} PASSWORD {}").format(
                verb, sql.Identifier(role), sql.SQL(LOGIN_ONLY), sql.Literal(passwords[role])
            )
        )


def create_database(connection: psycopg.Connection, name: str) -> None:
    """Make the owner's database if it is missing. The connection must be in autocommit mode."""
    found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
    database, owner = sql.Identifier(name), sql.Identifier(OWNER_ROLE)
    if not found:
        connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(database, owner))
    connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
    connection.execute(
        sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, sql.Identifier(APP_ROLE))
    )


def prepare_database(connection: psycopg.Connection) -> None:
    """Inside the database: extensions, and a public schema that only the owner may create in."""
    owner, app = sql.Identifier(OWNER_ROLE), sql.Identifier(APP_ROLE)
    for extension in EXTENSIONS:
        connection.execute(
            sql.SQL("CREATE EXTENSION IF NOT EXISTS {}").format(sql.Identifier(extension))
        )
    connection.execute(sql.SQL("ALTER SCHEMA public OWNER TO {}").format(owner))
    connection.execute(sql.SQL("REVOKE ALL ON SCHEMA public FROM PUBLIC"))
    connection.execute(sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(app))
