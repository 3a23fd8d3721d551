"""The measurements' own PostgreSQL: one data folder a world, kept between runs.

Loading and measuring start the server differently; a folder belongs to one run at a time. Needs no
Django, since Django's settings want the address that is found here.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import psycopg

from kaizen.embedded import postgres as launcher
from kaizen.embedded.environment import APP_ROLE, OWNER_ROLE, SUPERUSER_ROLE
from kaizen.embedded.postgres import Postgres
from kaizen.embedded.state import State
from kaizen.embedded.tuning import machine_megabytes, server_settings
from tests import servers

ROOT = servers.ROOT
HOME = Path(os.environ.get("KAIZEN_BENCH_HOME") or ROOT / ".kaizen" / "bench").absolute()
TEMPLATE = "kaizen_template"
_started = time.monotonic()


def say(text: str) -> None:
    """One line of progress, with the seconds since the start."""
    sys.stdout.write(f"[{time.monotonic() - _started:7.1f} s] {text}\n")
    sys.stdout.flush()


def memory_settings() -> dict[str, str]:
    """Sized by the machine: the vectors of the largest world stay in memory where they can."""
    megabytes = machine_megabytes()
    return {
        "shared_buffers": f"{min(5120, max(128, megabytes // 4))}MB",
        "effective_cache_size": f"{megabytes // 2}MB",
        "work_mem": "64MB",
        "maintenance_work_mem": f"{min(3072, max(128, megabytes // 8))}MB",
        "jit": "off",
        "random_page_cost": "1.1",
        "max_connections": "100",
        "track_io_timing": "off",
    }


_LOADING = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "1h",
    "autovacuum": "off",
}


class BenchServer:
    """A running server of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.postgres = Postgres(
            folder / "postgres", state=State(folder / "state.json"), durable=True, tell=say
        )

    def start(self, *, loading: bool = False) -> None:
        """Start it with the settings for loading or for measuring."""

        def settings(**options: object) -> dict[str, str]:
            product = server_settings(**options)  # type: ignore[arg-type]
            return product | memory_settings() | (_LOADING if loading else {})

        with mock.patch.object(launcher, "server_settings", settings):
            self.postgres.start()

    def stop(self) -> None:
        """Stop it; a checkpoint of a large load takes its time."""
        if self.postgres.process is not None:
            with self.connect("postgres", role=SUPERUSER_ROLE) as connection:
                connection.execute("CHECKPOINT")
        self.postgres.stop(seconds=120.0)

    def restart(self, *, loading: bool) -> None:
        """Stop and start with other settings."""
        self.stop()
        self.start(loading=loading)

    def url(self, database: str, *, role: str = APP_ROLE) -> str:
        """The address of a database for a role."""
        return self.postgres.url(role, database)

    def connect(self, database: str, *, role: str = APP_ROLE) -> psycopg.Connection:
        """A connection in autocommit."""
        return psycopg.connect(self.url(database, role=role), autocommit=True)

    def has(self, database: str) -> bool:
        """Whether the database is there."""
        with self.connect("postgres", role=SUPERUSER_ROLE) as connection:
            found = connection.execute(
                "SELECT 1 FROM pg_database WHERE datname = %s", [database]
            ).fetchone()
        return found is not None

    def make_template(self) -> None:
        """Migrate a database as the product does, once a folder."""
        if self.has(TEMPLATE):
            with self.connect("postgres", role=SUPERUSER_ROLE) as connection:
                marked = connection.execute(
                    "SELECT datistemplate FROM pg_database WHERE datname = %s", [TEMPLATE]
                ).fetchone()
                if marked and marked[0]:
                    return
                connection.execute(f"DROP DATABASE {TEMPLATE} WITH (FORCE)")
        say("migrating")
        self.postgres.create_roles_and_database(TEMPLATE)
        with (
            mock.patch.object(servers, "database_url", self._migration_url),
            mock.patch.dict(os.environ),
        ):
            servers._migrate()
        with self.connect("postgres", role=SUPERUSER_ROLE) as connection:
            connection.execute(f"ALTER DATABASE {TEMPLATE} IS_TEMPLATE true")

    def _migration_url(self, name: str = TEMPLATE, *, role: str = APP_ROLE) -> str:
        return self.url(name, role=role)

    def make_database(self, name: str) -> None:
        """A fresh copy of the template, in the place of one that was there."""
        self.make_template()
        with self.connect("postgres", role=SUPERUSER_ROLE) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} OWNER {OWNER_ROLE}")


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the folder against other runs. Exits with a sentence when one has it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"{folder} is in use by another run of the bench.") from None
        yield


@contextmanager
def running(folder: Path, *, loading: bool = False) -> Iterator[BenchServer]:
    """The server of a folder while the block runs."""
    with held(folder):
        server = BenchServer(folder)
        server.start(loading=loading)
        try:
            yield server
        finally:
            server.stop()


def use(url: str) -> None:
    """Point Django at a database and set it up. Once a process, before any product import."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    os.environ["KAIZEN_TEST_DATABASE_URL"] = url
    import django

    django.setup()
