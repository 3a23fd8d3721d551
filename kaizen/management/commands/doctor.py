"""`manage.py doctor`: says what is there, what is missing, and what mends it."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from kaizen.embedded.diagnosis import diagnose
from kaizen.embedded.failures import LaunchError
from kaizen.embedded.paths import find_layout
from kaizen.embedded.running import read_record


class Command(BaseCommand):
    """Ends with 1 when something is missing."""

    help = "Name the missing piece when something does not work."
    requires_system_checks: list[str] = []

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Look and tell."""
        layout = find_layout()
        try:
            findings = diagnose(layout)
        except LaunchError as error:
            raise CommandError(str(error)) from error
        for finding in findings:
            mark = "ok     " if finding.is_well else "MISSING"
            self.stdout.write(f"{mark}  {finding.subject}: {finding.text}")
        address = read_record(layout).get("address")
        if address:
            self.stdout.write(f"Running at {address}. Logs: {layout.log}")
        if not all(finding.is_well for finding in findings):
            sys.exit(1)
