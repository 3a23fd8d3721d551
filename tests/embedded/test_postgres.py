"""The embedded PostgreSQL: its roles, its repair after kills, and the ways root runs it."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from kaizen.embedded import account
from kaizen.embedded.account import AS_ROOT, Way
from kaizen.embedded.cluster import find_installation
from kaizen.embedded.failures import LaunchError
from kaizen.embedded.postgres import Postgres


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """One started server with roles and a database."""
    postgres = Postgres(tmp_path_factory.mktemp("server") / "postgres", durable=False)
    postgres.start()
    postgres.create_roles_and_database("kaizen")
    yield postgres
    postgres.stop()


def one(url: str, statement: str) -> object:
    """Run a statement and return its first value."""
    with psycopg.connect(url) as connection:
        row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]


def test_app_role_may_not_create_a_table(server: Postgres) -> None:
    with (
        psycopg.connect(server.url("kaizen_app", "kaizen")) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute("CREATE TABLE mine (number int)")


def test_owner_role_may_create_a_table_and_is_no_superuser(server: Postgres) -> None:
    url = server.url("kaizen_owner", "kaizen")
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE theirs (vector halfvec(3))")
    assert one(url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False


def test_app_role_bypasses_nothing(server: Postgres) -> None:
    statement = (
        "SELECT rolsuper OR rolbypassrls OR rolcreatedb OR rolcreaterole OR rolreplication "
        "FROM pg_roles WHERE rolname = 'kaizen_app'"
    )
    assert one(server.url(), statement) is False


def test_roles_and_database_can_be_made_twice(server: Postgres) -> None:
    server.create_roles_and_database("kaizen")
    assert one(server.url(), "SELECT current_user::text") == "kaizen_app"


def test_extensions_are_there(server: Postgres) -> None:
    names = one(server.url(), "SELECT array_agg(extname::text) FROM pg_extension")
    assert isinstance(names, list)
    assert {"vector", "pg_trgm", "unaccent", "btree_gin"} <= set(names)


def test_another_password_is_refused(server: Postgres) -> None:
    url = f"postgresql://kaizen_app:wrong@127.0.0.1:{server.state.get('postgres.port')}/kaizen"
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url)


def test_word_parser_knows_letters_and_punctuation_beyond_ascii(server: Postgres) -> None:
    found = one(server.url(), "SELECT to_tsvector('simple', 'naïve — “Straße”')::text")
    assert found == "'naïve':1 'straße':2"


def test_secrets_are_for_their_owner_only(server: Postgres) -> None:
    assert server.state.path.stat().st_mode & 0o777 == 0o600


def test_killed_server_starts_again_with_its_data(tmp_path: Path) -> None:
    postgres = Postgres(tmp_path / "postgres")
    postgres.start()
    try:
        with psycopg.connect(postgres.superuser_url(), autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
        assert postgres.process is not None
        postgres.process.kill()
        postgres.process.wait()
        postgres.start()
        assert one(postgres.superuser_url(), "SELECT number FROM kept") == 7
    finally:
        postgres.stop()


def test_server_left_by_a_killed_launcher_is_replaced(tmp_path: Path) -> None:
    left = Postgres(tmp_path / "postgres", durable=False)
    left.start()
    successor = Postgres(tmp_path / "postgres", durable=False)
    successor.start()
    try:
        assert left.process is not None
        assert left.process.wait(timeout=5) == 0
        assert one(successor.superuser_url(), "SELECT 1") == 1
    finally:
        successor.stop()


def test_half_made_data_folder_is_made_anew(tmp_path: Path) -> None:
    half = tmp_path / "postgres" / "data.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    postgres = Postgres(tmp_path / "postgres", durable=False)
    postgres.start()
    postgres.stop()
    assert not half.exists()


def test_data_of_another_version_is_refused_in_words(tmp_path: Path) -> None:
    postgres = Postgres(tmp_path / "postgres", durable=False)
    postgres.start()
    postgres.stop()
    (tmp_path / "postgres" / "data" / "PG_VERSION").write_text("15\n")
    with pytest.raises(LaunchError, match="written by PostgreSQL 15, and 18 is installed"):
        postgres.start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another account for PostgreSQL")
@pytest.mark.parametrize("way", AS_ROOT)
def test_root_runs_it_each_way(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not below pytest's own folder, which only root may enter: that is what "copied" is for.
    folder = Path("/tmp") / f"kaizen-as-{way}-{os.getpid()}"
    folder.mkdir(mode=0o755)
    monkeypatch.setattr(account, "PUBLIC_FOLDER", folder / "public")
    postgres = Postgres(folder / "postgres", durable=False, ways=(way,))
    try:
        postgres.start()
    except LaunchError as error:
        pytest.skip(f"this machine does not allow it: {error}")
    else:
        assert one(postgres.superuser_url(), "SELECT 1") == 1
    finally:
        postgres.stop()
        shutil.rmtree(folder)


def test_only_programs_of_the_wheel_are_used() -> None:
    assert (find_installation() / "bin" / "postgres").is_file()


def test_stop_is_prompt_while_a_client_is_connected(tmp_path: Path) -> None:
    postgres = Postgres(tmp_path / "postgres", durable=False)
    postgres.start()
    with psycopg.connect(postgres.superuser_url()):
        process = postgres.process
        postgres.stop(seconds=5)
    assert process is not None
    assert process.returncode != -signal.SIGKILL
