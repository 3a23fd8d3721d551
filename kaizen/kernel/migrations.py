"""Migration operations that Django lacks: append-only tables, tenant-true foreign keys, cascades
in the database.

Each is reversible. They state their SQL in `database_forwards` only; the model state is untouched.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations

_REFUSE = """
CREATE OR REPLACE FUNCTION kaizen_refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    IF current_setting('kaizen.purge', true) = TG_TABLE_NAME THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END $$
"""


_ADD_UNIQUE = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conname = '{name}') THEN
        ALTER TABLE {parent} ADD CONSTRAINT {name} UNIQUE (organization_id, id);
    END IF;
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
        forward.append(_ADD_UNIQUE.format(parent=parent, name=name))
    for child, column, parent in links:
        name = f"{child}_{column}_tenant_fk"
        late = " DEFERRABLE INITIALLY DEFERRED" if deferrable else ""
        forward.append(
            f"ALTER TABLE {child} ADD CONSTRAINT {name} FOREIGN KEY (organization_id, {column}) "
            f"REFERENCES {parent} (organization_id, id){late}"
        )
        backward.append(f"ALTER TABLE {child} DROP CONSTRAINT IF EXISTS {name}")
    return migrations.RunSQL(forward, backward)


_REBUILD = """
DO $$
DECLARE old text;
BEGIN
    SET CONSTRAINTS ALL IMMEDIATE;
    FOR old IN
        SELECT k.conname FROM pg_constraint k
        JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey)
        WHERE k.contype = 'f' AND k.conrelid = '{child}'::regclass AND a.attname = '{column}'
          AND array_length(k.conkey, 1) = 1
    LOOP
        EXECUTE format('ALTER TABLE {child} DROP CONSTRAINT %I', old);
    END LOOP;
    ALTER TABLE {child} ADD CONSTRAINT {child}_{column}_fk FOREIGN KEY ({column})
        REFERENCES {parent} ({target}) {action} DEFERRABLE INITIALLY DEFERRED;
END $$
"""


def cascade_in_database(*links: tuple[str, str, str, str]) -> migrations.RunSQL:
    """Rebuild single-column foreign keys as ON DELETE CASCADE, since raw deletes happen (case K09).

    Args:
        links: (child table, child column, parent table, parent column).
    """
    forward: list[Any] = []
    backward: list[Any] = []
    for child, column, parent, target in links:
        names = {"child": child, "column": column, "parent": parent, "target": target}
        forward.append(_REBUILD.format(**names, action="ON DELETE CASCADE"))
        backward.append(_REBUILD.format(**names, action=""))
    return migrations.RunSQL(forward, backward)
