"""Migration operations that Django lacks: append-only tables, tenant-true foreign keys, cascades
in the database.

Each is reversible. They state their SQL in `database_forwards` only; the model state is untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import migrations

_REFUSE = """
CREATE OR REPLACE FUNCTION kaizen_refuse_change() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    IF current_setting('kaizen.purge', true) = TG_TABLE_NAME THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END $$
"""


def append_only(*tables: str) -> migrations.RunSQL:
    """A trigger per table that refuses UPDATE and DELETE for everybody, the owner included."""
    forward: list[Any] = [_REFUSE]
    backward: list[Any] = []
    for table in tables:
        forward.append(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION kaizen_refuse_change()"
        )
        backward.append(f"DROP TRIGGER IF EXISTS {table}_append_only ON {table}")
    return migrations.RunSQL(forward, backward)


def tenant_foreign_keys(*links: tuple[str, str, str], deferrable: bool = True) -> migrations.RunSQL:
    """Composite foreign keys (organization_id, column) -> parent (organization_id, id).

    Args:
        links: (child table, child column, parent table). The parent gets UNIQUE (organization_id,
        id) once.

    A child then can't point into another organisation, whatever code wrote it.
    """
    forward: list[Any] = []
    backward: list[Any] = []
    for parent in sorted({parent for _, _, parent in links}):
        name = f"{parent}_organization_id_uniq"
        forward.append(
            f"DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conname = '{name}') THEN "
            f"ALTER TABLE {parent} ADD CONSTRAINT {name} UNIQUE (organization_id, id); END IF; END $$"
        )
    for child, column, parent in links:
        name = f"{child}_{column}_tenant_fk"
        late = " DEFERRABLE INITIALLY DEFERRED" if deferrable else ""
        forward.append(
            f"ALTER TABLE {child} ADD CONSTRAINT {name} FOREIGN KEY (organization_id, {column}) "
            f"REFERENCES {parent} (organization_id, id){late}"
        )
        backward.append(f"ALTER TABLE {child} DROP CONSTRAINT IF EXISTS {name}")
    return migrations.RunSQL(forward, backward)


def cascade_in_database(*links: tuple[str, str, str, str]) -> migrations.RunPython:
    """Rebuild single-column foreign keys as ON DELETE CASCADE, since raw deletes happen (case K09).

    Args:
        links: (child table, child column, parent table, parent column).
    """

    def rebuild(schema_editor: Any, *, action: str) -> None:
        with schema_editor.connection.cursor() as cursor:
            for child, column, parent, target in links:
                for name in _foreign_keys(cursor, child=child, column=column):
                    cursor.execute(f'ALTER TABLE {child} DROP CONSTRAINT "{name}"')
                cursor.execute(
                    f"ALTER TABLE {child} ADD CONSTRAINT {child}_{column}_fk FOREIGN KEY ({column}) "
                    f"REFERENCES {parent} ({target}) {action} DEFERRABLE INITIALLY DEFERRED"
                )

    def forwards(apps: Any, schema_editor: Any) -> None:
        schema_editor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        rebuild(schema_editor, action="ON DELETE CASCADE")

    def backwards(apps: Any, schema_editor: Any) -> None:
        schema_editor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        rebuild(schema_editor, action="")

    return migrations.RunPython(forwards, backwards)


def _foreign_keys(cursor: Any, *, child: str, column: str) -> Sequence[str]:
    cursor.execute(
        "SELECT k.conname FROM pg_constraint k JOIN pg_attribute a "
        "ON a.attrelid = k.conrelid AND a.attnum = ANY(k.conkey) "
        "WHERE k.contype = 'f' AND k.conrelid = %s::regclass AND a.attname = %s "
        "AND array_length(k.conkey, 1) = 1",
        [child, column],
    )
    return [row[0] for row in cursor.fetchall()]
