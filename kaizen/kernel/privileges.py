"""What the application's database role may do, derived from the models.

The owner runs this after migrating. Append-only tables get SELECT and INSERT, everything else the
four verbs; the app role never owns a table. `check_app_role` is what a process asks before it
serves.
"""

from __future__ import annotations

from django.apps import apps
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import sql

READ_ONLY_TABLES = frozenset({"django_migrations"})


def append_only_tables() -> frozenset[str]:
    """Table names whose model is marked append-only."""
    return frozenset(
        model._meta.db_table
        for model in apps.get_models(include_auto_created=True)
        if getattr(model, "append_only", False)
    )


def grant_app_role(connection: BaseDatabaseWrapper, *, role: str) -> None:
    """Give `role` exactly what the processes need on every table, sequence and function of
    `public`.

    Args:
        connection: connected as the owner.
        role: the app role's name.
    """
    append_only = append_only_tables()
    with connection.cursor() as cursor:
        name = sql.Identifier(role)
        cursor.execute(sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(name))
        cursor.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p')"
        )
        for (table,) in cursor.fetchall():
            verbs = "SELECT, INSERT, UPDATE, DELETE"
            if table in append_only:
                verbs = "SELECT, INSERT"
            elif table in READ_ONLY_TABLES:
                verbs = "SELECT"
            target = sql.Identifier("public", table)
            cursor.execute(sql.SQL("REVOKE ALL ON {} FROM {}").format(target, name))
            cursor.execute(sql.SQL("GRANT " + verbs + " ON {} TO {}").format(target, name))
        cursor.execute(
            sql.SQL("GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {}").format(name)
        )


def find_owned_table(connection: BaseDatabaseWrapper) -> str | None:
    """A table that the connected role owns (it must own none), or None."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') "
            "AND pg_get_userbyid(c.relowner) = current_user LIMIT 1"
        )
        row = cursor.fetchone()
    return None if row is None else str(row[0])
