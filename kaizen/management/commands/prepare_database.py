"""`manage.py prepare_database`: migrate as the owner and give the app role its rights; `--check`
only looks.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import OperationalError

from kaizen.kernel.privileges import find_owned_table, grant_app_role
from retrieval.partitions import split_grown
from retrieval.spaces.dimension import find_mismatches

EXTENSIONS = ("vector", "pg_trgm", "unaccent", "btree_gin")
RUN_AS_OWNER = (
    "DATABASE_OWNER_URL=postgresql://<owner>:<password>@<host>/<database> "
    "manage.py prepare_database"
)


class Command(BaseCommand):
    """Never migrates without an owner; refuses to call a database ready that isn't."""

    help = (
        "Migrate the database as its owner and grant the app role exactly what the processes need."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--check", action="store_true", help="change nothing, fail when something is missing"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["check"]:
                self._check()
            else:
                self._prepare()
        except OperationalError as error:
            raise CommandError(f"The database can't be reached: {error}") from error

    def _prepare(self) -> None:
        if "owner" not in connections:
            raise CommandError(f"Set DATABASE_OWNER_URL, then run: {RUN_AS_OWNER}")
        self._check_extensions("owner")
        call_command("migrate", database="owner", interactive=False, verbosity=0, skip_checks=True)
        role = urlsplit(settings.DATABASE_URL).username
        if not role:
            raise CommandError("DATABASE_URL must name the app role.")
        grant_app_role(connections["owner"], role=role)
        split_grown(connections["owner"].connection)
        self._check()

    def _check(self) -> None:
        connection = connections["default"]
        self._check_extensions("default")
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
        if pending:
            raise CommandError(f"{len(pending)} migrations are pending. Run: {RUN_AS_OWNER}")
        mismatches = find_mismatches(connection)
        if mismatches:
            raise CommandError(" ".join(mismatches))
        owned = find_owned_table(connection)
        if owned is not None:
            raise CommandError(
                f"The app role owns the table {owned}. Give it to the owner: "
                f"ALTER TABLE {owned} OWNER TO <owner>; then run: {RUN_AS_OWNER}"
            )

    def _check_extensions(self, alias: str) -> None:
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT extname FROM pg_extension")
            found = {row[0] for row in cursor.fetchall()}
        missing = [name for name in EXTENSIONS if name not in found]
        if missing:
            commands = " ".join(f"CREATE EXTENSION {name};" for name in missing)
            raise CommandError(
                f"Extensions are missing. As a superuser in this database run: {commands}"
            )
