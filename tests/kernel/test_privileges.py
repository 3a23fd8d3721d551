"""The app role's rights are made from the models, whatever stood there before."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler

from kaizen.embedded.environment import APP_ROLE, OWNER_ROLE
from kaizen.kernel.privileges import append_only_tables, find_owned_table, grant_app_role
from tests import servers

JOURNAL = "conversations_journalevent"


@pytest.fixture
def owner(committed_db: str) -> Iterator[BaseDatabaseWrapper]:
    """The database as its owner sees it."""
    mine = {**connection.settings_dict, "USER": OWNER_ROLE, "NAME": committed_db}
    wrapper = ConnectionHandler({"default": mine})["default"]
    yield wrapper
    wrapper.close()


def execute(owner: BaseDatabaseWrapper, *statements: str) -> None:
    with owner.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def may(table: str) -> set[str]:
    """What the app may do with a table."""
    verbs = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
    with connection.cursor() as cursor:
        found = set()
        for verb in verbs:
            cursor.execute("SELECT has_table_privilege(%s, %s, %s)", [APP_ROLE, table, verb])
            found |= {verb} if cursor.fetchone()[0] else set()
    return found


def test_rights_that_were_given_by_hand_are_taken_back(owner: BaseDatabaseWrapper) -> None:
    execute(owner, f"GRANT ALL ON {JOURNAL} TO {APP_ROLE}")
    assert len(may(JOURNAL)) == 7
    grant_app_role(owner, role=APP_ROLE)
    assert may(JOURNAL) == {"SELECT", "INSERT"}


def test_a_new_table_and_its_sequence_can_be_used(owner: BaseDatabaseWrapper) -> None:
    execute(owner, "CREATE TABLE later (id bigserial PRIMARY KEY, text text)")
    assert may("later") == set()
    grant_app_role(owner, role=APP_ROLE)
    assert may("later") == {"SELECT", "INSERT", "UPDATE", "DELETE"}
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO later (text) VALUES ('x') RETURNING id")
        assert cursor.fetchone() == (1,)


def test_what_was_migrated_can_only_be_read(owner: BaseDatabaseWrapper) -> None:
    grant_app_role(owner, role=APP_ROLE)
    assert may("django_migrations") == {"SELECT"}


def test_doing_it_twice_is_doing_it_once(owner: BaseDatabaseWrapper) -> None:
    tables = [*append_only_tables(), "accounts_organization"]
    before = {table: may(table) for table in tables}
    grant_app_role(owner, role=APP_ROLE)
    grant_app_role(owner, role=APP_ROLE)
    assert {table: may(table) for table in tables} == before


def test_a_table_that_the_app_owns_is_found(owner: BaseDatabaseWrapper, committed_db: str) -> None:
    assert find_owned_table(connection) is None
    assert find_owned_table(owner) is not None
    with psycopg.connect(servers.postgres().superuser_url(committed_db)) as by_superuser:
        by_superuser.execute(f"ALTER TABLE {JOURNAL} OWNER TO {APP_ROLE}")  # type: ignore[arg-type]
    assert find_owned_table(connection) == JOURNAL
