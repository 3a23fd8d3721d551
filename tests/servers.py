"""The real PostgreSQL and Valkey of one test run: addresses are chosen on import, servers start
when first needed.

One cluster a run, in a folder of its own. The owner migrates a template database once; every test
database is a copy of it, and the tests reach it as the app role.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import subprocess
import sys
import uuid
from functools import cache
from pathlib import Path

import psycopg
from psycopg import sql

from kaizen.embedded.cluster import find_installation
from kaizen.embedded.environment import APP_ROLE, HOST, OWNER_ROLE, SUPERUSER_ROLE
from kaizen.embedded.ports import choose_port
from kaizen.embedded.postgres import Postgres
from kaizen.embedded.state import State
from kaizen.embedded.valkey import Valkey

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".kaizen" / "test" / str(os.getpid())
CACHE = ROOT / ".kaizen" / "test-cache"
TEMPLATE = "kaizen_template"
DATABASE = "kaizen_test"
PASSWORD = "test-password-of-this-machine-only"
POSTGRES_PORT = choose_port(None)
VALKEY_PORT = choose_port(str(POSTGRES_PORT + 1))


def database_url(name: str = DATABASE, *, role: str = APP_ROLE) -> str:
    """The address of a test database for a role."""
    return f"postgresql://{role}:{PASSWORD}@{HOST}:{POSTGRES_PORT}/{name}"


def valkey_url() -> str:
    """The address of the test Valkey."""
    return f"redis://:{PASSWORD}@{HOST}:{VALKEY_PORT}/0"


def _state() -> State:
    HOME.mkdir(parents=True, exist_ok=True)
    state = State(HOME / "state.json")
    for name in (
        "postgres.kaizen_super",
        "postgres.kaizen_owner",
        "postgres.kaizen_app",
        "valkey.password",
    ):
        state.put(name, PASSWORD)
    state.put("postgres.port", str(POSTGRES_PORT))
    state.put("valkey.port", str(VALKEY_PORT))
    return state


@cache
def postgres() -> Postgres:
    """The started server with the migrated template. Stopped and removed when the run ends."""
    server = Postgres(HOME / "postgres", state=_state(), durable=False)
    atexit.register(_remove)
    server.start()
    atexit.register(server.stop)
    server.create_roles_and_database(TEMPLATE)
    dump = CACHE / f"template-{_schema_digest()}.sql"
    if dump.exists():
        _run_client("psql", "--quiet", "--set=ON_ERROR_STOP=1", "--file", str(dump))
    else:
        _migrate()
        CACHE.mkdir(parents=True, exist_ok=True)
        draft = dump.with_suffix(f".{os.getpid()}")
        _run_client("pg_dump", "--file", str(draft))
        draft.replace(dump)
    with psycopg.connect(server.superuser_url(), autocommit=True) as connection:
        connection.execute(
            sql.SQL("ALTER DATABASE {} IS_TEMPLATE true").format(sql.Identifier(TEMPLATE))
        )
    return server


def _schema_digest() -> str:
    """Of everything that a migrated database follows from."""
    files = [*ROOT.glob("*/migrations/*.py"), *(ROOT / "kaizen" / "kernel").glob("*.py")]
    files += [
        ROOT / "requirements.lock",
        *ROOT.glob("*/models.py"),
        *ROOT.glob("agents/models/*.py"),
    ]
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:24]


def _migrate() -> None:
    migrate = subprocess.run(
        [sys.executable, "manage.py", "prepare_database"],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "KAIZEN_TEST_DATABASE_URL": database_url(TEMPLATE),
            "DATABASE_OWNER_URL": database_url(TEMPLATE, role=OWNER_ROLE),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if migrate.returncode != 0:
        raise RuntimeError(
            f"the template database can't be prepared:\n{migrate.stdout}{migrate.stderr}"
        )


def _run_client(program: str, *arguments: str) -> None:
    """Run one of PostgreSQL's own programs on the template, as the superuser."""
    done = subprocess.run(
        [
            str(find_installation() / "bin" / program),
            *arguments,
            f"--dbname={database_url(TEMPLATE, role=SUPERUSER_ROLE)}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{program} failed: {done.stderr}")


@cache
def valkey() -> Valkey:
    """The started Valkey."""
    server = Valkey(HOME / "valkey", state=_state())
    server.start()
    atexit.register(server.stop)
    return server


def create_database(name: str | None = None) -> str:
    """A fresh copy of the template; returns its name."""
    name = name or f"kaizen_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres().superuser_url(), autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {}").format(
                sql.Identifier(name), sql.Identifier(TEMPLATE), sql.Identifier(OWNER_ROLE)
            )
        )
    return name


def drop_database(name: str) -> None:
    """Remove a test database, whoever is still connected."""
    with psycopg.connect(postgres().superuser_url(), autocommit=True) as connection:
        connection.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        )


def _remove() -> None:
    shutil.rmtree(HOME, ignore_errors=True)
