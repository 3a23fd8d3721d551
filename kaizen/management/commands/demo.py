"""`manage.py demo`: walks the main job against the running system, or loads the demo.

The work is in `kaizen.demo`.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from kaizen.demo import load
from kaizen.demo.browser import Refused
from kaizen.demo.logins import list_logins
from kaizen.demo.walk import walk
from kaizen.embedded.environment import outside
from kaizen.embedded.paths import find_layout
from kaizen.embedded.running import read_record
from kaizen.kernel.errors import KaizenError

DEFAULT_ADDRESS = "http://127.0.0.1:8000"


class Command(BaseCommand):
    """Log-ins and answers go to standard output, progress to standard error."""

    help = "Ask the demo's questions of the running system, or load the demo."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--load", action="store_true", help="load it, or finish loading it")
        what.add_argument(
            "--load-if-empty",
            action="store_true",
            help="load it only where there is no organisation yet",
        )
        parser.add_argument(
            "--address", default="", help=f"of the running system, {DEFAULT_ADDRESS} by default"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Load and print the log-ins, or walk and end with 1 if an answer broke a promise."""
        try:
            if options["load"] or options["load_if_empty"]:
                self._load(is_only_if_empty=options["load_if_empty"])
            elif walk(options["address"] or find_address(), self._say):
                sys.exit(1)
        except (KaizenError, Refused) as error:
            raise CommandError(str(error)) from None

    def _load(self, *, is_only_if_empty: bool) -> None:
        if is_only_if_empty:
            if not load.load_if_empty(self._tell):
                return
        else:
            load.load(self._tell)
        for line in list_logins():
            self._say(line)

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()

    def _tell(self, line: str) -> None:
        self.stderr.write(line, lambda text: text)
        self.stderr.flush()


def find_address() -> str:
    """Where Kaizen runs: as set outside, else as `make up` wrote down, else the default."""
    return (
        outside("KAIZEN_ADDRESS")
        or str(read_record(find_layout()).get("address") or "")
        or DEFAULT_ADDRESS
    )
