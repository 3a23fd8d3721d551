"""`manage.py split_organizations`: give grown organisations their own partition, as the owner."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from retrieval.partitions import SPLIT_AT, split_grown


class Command(BaseCommand):
    """Needs DATABASE_OWNER_URL."""

    help = f"Give organisations with more than {SPLIT_AT:,} passages their own part of the index."

    def handle(self, *args: Any, **options: Any) -> None:
        if "owner" not in connections:
            raise CommandError(
                "Set DATABASE_OWNER_URL: only the owner may change the index's parts."
            )
        connection = connections["owner"]
        connection.ensure_connection()
        keys = split_grown(connection.connection)
        self.stdout.write(f"{len(keys)} organisations got their own part.")
