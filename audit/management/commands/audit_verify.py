"""`manage.py audit_verify`: recompute the hash chains and say what was found."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from audit.chain import verify
from audit.models import AuditEvent


class Command(BaseCommand):
    """Exits non-zero when a chain is broken."""

    help = "Verify the audit chain of one organisation (by id) or of all."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--organization", type=UUID, help="only this organisation's id")

    def handle(self, *args: Any, **options: Any) -> None:
        only: UUID | None = options["organization"]
        ids = (
            [only]
            if only
            else list(
                AuditEvent.objects.order_by().values_list("organization_id", flat=True).distinct()
            )
        )
        broken = 0
        for organization_id in ids:
            verdict = verify(organization_id)
            state = f"BROKEN: {verdict.fault}" if verdict.fault else "valid"
            self.stdout.write(
                f"{organization_id}  {state}  {verdict.sealed} sealed, "
                f"{verdict.unsealed} not yet  head {verdict.head}"
            )
            broken += verdict.fault is not None
        if broken:
            raise CommandError(f"{broken} of {len(ids)} chains are broken.")
