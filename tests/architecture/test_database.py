"""What must hold of every table, read from the models and from the database itself."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.db import connection, models

from kaizen.kernel.privileges import append_only_tables, find_owned_table

pytestmark = pytest.mark.django_db

# Tables that belong to no organisation, with the reason. Nothing else may.
WITHOUT_ORGANIZATION = {
    "accounts.Organization": "the tenant itself",
    "accounts.User": "a person may be in several organisations",
    "accounts.User_groups": "Django's, unused: rights are grants",
    "accounts.User_user_permissions": "Django's, unused: rights are grants",
    "admin.LogEntry": "Django's, unused: the admin's history is the audit",
    "auth.Group": "Django's parent of Team, which has one",
    "auth.Group_permissions": "Django's, unused: rights are grants",
    "auth.Permission": "the verbs there are",
    "contenttypes.ContentType": "the types there are",
    "guardian.GroupObjectPermission": "guardian's generic table, unused: grants have their own",
    "guardian.UserObjectPermission": "guardian's generic table, unused: grants have their own",
    "sessions.Session": "a person's session, for all their organisations",
}
# Unique indexes of ours that don't lead with the organisation, with the reason.
UNIQUE_BY_THEMSELVES = {
    "accounts_organization.slug": "it names the organisation",
    "accounts_organization.key": "integer keys come from one sequence",
    "accounts_project.key": "integer keys come from one sequence",
    "retrieval_source.key": "integer keys come from one sequence",
    "retrieval_document.key": "integer keys come from one sequence",
    "retrieval_chunk.key": "integer keys come from one sequence",
    "retrieval_embeddingspace.key": "integer keys come from one sequence",
    "accounts_team.uuid": "the public id, since Group's own key is an integer",
    "accounts_user.public_id": "the public id of a person, in all their organisations",
    "accounts_user.lower(email)": "people sign in by e-mail, whatever the organisation",
    "accounts_user_groups.user_id": "Django's, unused",
    "accounts_user_user_permissions.user_id": "Django's, unused",
    "audit_auditlink.event_id": "an event is sealed once, in one chain",
}
OUR_TABLES = ("accounts_", "audit_", "retrieval_", "agents_", "conversations_", "tasks_")


def rows(sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def test_every_table_belongs_to_an_organisation() -> None:
    without = {
        model._meta.label
        for model in apps.get_models(include_auto_created=True)
        if not {"organization", "organization_id"}
        & {field.name for field in model._meta.get_fields()}
    }
    assert without == set(WITHOUT_ORGANIZATION)


def test_no_organisation_is_null() -> None:
    found = rows(
        "SELECT table_name FROM information_schema.columns WHERE table_schema = 'public' "
        "AND column_name IN ('organization_id', 'organization_key') AND is_nullable = 'YES'"
    )
    assert found == []


def test_unique_keys_lead_with_the_organisation() -> None:
    found = rows(
        "SELECT t.relname, pg_get_indexdef(i.indexrelid, 1, true) FROM pg_index i "
        "JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace n ON n.oid = t.relnamespace "
        "WHERE n.nspname = 'public' AND i.indisunique AND NOT i.indisprimary"
    )
    others = {
        f"{table}.{first.replace('(email)::text', 'email').replace('::text', '')}"
        for table, first in found
        if table.startswith(OUR_TABLES) and first not in ("organization_id", "organization_key")
    }
    assert {name.replace("lower((email))", "lower(email)") for name in others} == set(
        UNIQUE_BY_THEMSELVES
    )


def test_no_cascade_reaches_an_append_only_table() -> None:
    append_only = append_only_tables()
    assert append_only == {
        "agents_agentversion",
        "agents_ledgerentry",
        "agents_promptversion",
        "audit_auditevent",
        "audit_auditlink",
        "conversations_journalevent",
    }
    found = rows(
        "SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE contype = 'f' "
        "AND confdeltype <> 'a' AND conrelid::regclass::text = ANY(%s)",
        sorted(append_only),
    )
    assert found == []
    for model in apps.get_models():
        if model._meta.db_table in append_only:
            for field in model._meta.local_fields:
                if isinstance(field, models.ForeignKey):
                    assert field.remote_field.on_delete is models.PROTECT, str(field)


def test_append_only_tables_refuse_change_by_a_trigger_too() -> None:
    found = rows(
        "SELECT t.relname, p.proname, g.tgenabled FROM pg_trigger g "
        "JOIN pg_class t ON t.oid = g.tgrelid JOIN pg_proc p ON p.oid = g.tgfoid "
        "WHERE NOT g.tgisinternal AND g.tgname LIKE '%%_append_only'"
    )
    assert set(found) == {(table, "kaizen_refuse_change", "O") for table in append_only_tables()}


def test_the_app_role_has_exactly_what_the_processes_need() -> None:
    verbs = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
    held: dict[str, set[str]] = {}
    tables = rows(
        "SELECT c.oid, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p')"
    )
    for identity, table in tables:
        answers = rows(
            "SELECT "
            + ", ".join(f"has_table_privilege(current_user, %s::oid, '{verb}')" for verb in verbs),
            *[identity] * len(verbs),
        )[0]
        held[table] = {verb for verb, holds in zip(verbs, answers, strict=True) if holds}
    append_only = append_only_tables()
    for table, verbs_held in held.items():
        expected = {"SELECT", "INSERT", "UPDATE", "DELETE"}
        if table in append_only:
            expected = {"SELECT", "INSERT"}
        elif table == "django_migrations":
            expected = {"SELECT"}
        assert verbs_held == expected, table
    assert append_only <= set(held)


def test_the_app_role_owns_nothing_and_can_make_nothing() -> None:
    assert find_owned_table(connection) is None
    owned = rows(
        "SELECT relname FROM pg_class WHERE pg_get_userbyid(relowner) = current_user "
        "AND relpersistence <> 't' UNION ALL "
        "SELECT proname FROM pg_proc WHERE pg_get_userbyid(proowner) = current_user UNION ALL "
        "SELECT nspname FROM pg_namespace WHERE pg_get_userbyid(nspowner) = current_user "
        "AND nspname NOT LIKE 'pg\\_%%temp%%'"
    )
    assert owned == []
    may = rows(
        "SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls, "
        "has_schema_privilege(current_user, 'public', 'CREATE') "
        "FROM pg_roles WHERE rolname = current_user"
    )
    assert may == [(False,) * 6]


# Names no object, and a SET clause would keep it from being inlined into millions of rows.
JUST_ARITHMETIC = {"retrieval_impact"}


def test_every_function_of_ours_runs_as_its_caller_with_a_fixed_search_path() -> None:
    found = rows(
        "SELECT p.proname, p.prosecdef, p.proconfig FROM pg_proc p "
        "JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'public' "
        "AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')"
    )
    assert {"accounts_principals", "kaizen_refuse_change"} <= {name for name, _, _ in found}
    for name, definer, settings in found:
        assert definer is False, name
        if name in JUST_ARITHMETIC:
            continue
        assert any(setting.startswith("search_path=") for setting in settings or ()), name


# Foreign keys without the organisation in them, with the reason.
NOT_BY_TENANT = {
    ("accounts_team", "parent_id"): "Team's key is Group's; `accounts.services` checks it",
    ("accounts_teammembership", "team_id"): "Team's key is Group's; `accounts.services` checks it",
}


def test_a_child_cannot_point_into_another_organisation() -> None:
    """Every reference between tables of organisations is backed by one with the organisation."""
    composite = {
        (table, columns[1])
        for table, columns in rows(
            "SELECT c.conrelid::regclass::text, array_agg(a.attname::text ORDER BY k.n) "
            "FROM pg_constraint c CROSS JOIN unnest(c.conkey) WITH ORDINALITY k(attnum, n) "
            "JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.attnum "
            "WHERE c.contype = 'f' GROUP BY c.oid HAVING count(*) = 2"
        )
        if columns[0] == "organization_id"
    }
    with_organization = {
        model
        for model in apps.get_models(include_auto_created=True)
        if any(field.name == "organization" for field in model._meta.get_fields())
    }
    single = {
        (model._meta.db_table, field.column)
        for model in with_organization
        for field in model._meta.local_fields
        if isinstance(field, models.ForeignKey)
        and field.related_model in with_organization
        and field.name != "content_object"  # Grants: joined by object and organisation at once.
    }
    assert single - composite == set(NOT_BY_TENANT)
