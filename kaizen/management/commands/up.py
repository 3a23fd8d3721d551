"""`manage.py up`: serves everything on this machine. The work is in `kaizen.embedded.launch`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from kaizen.embedded.console import Console
from kaizen.embedded.environment import outside
from kaizen.embedded.launch import Options, serve
from kaizen.embedded.paths import find_layout

DEFAULT_PORT = "8000"


class Command(BaseCommand):
    """Starts the stores that aren't set in the environment, and all of Kaizen's processes."""

    help = "Serve Kaizen on this machine: database, web, worker, beat and agent runtime."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        port = outside("KAIZEN_PORT") or DEFAULT_PORT
        web = outside("KAIZEN_WEB_PROCESSES") or "1"
        parser.add_argument("--port", default=port, type=int, help=f"default {DEFAULT_PORT}")
        parser.add_argument("--web", default=web, type=int, help="web processes, default 1")
        parser.add_argument("--demo", default=None, action="store_true", help="load the demo")
        parser.add_argument("--no-demo", dest="demo", action="store_false", help="do not load it")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Serve until interrupted, then end with the right exit code."""
        wanted = Options(
            port=options["port"], web_processes=max(1, options["web"]), demo=options["demo"]
        )
        code = serve(find_layout(), wanted, console=Console())
        if code:
            sys.exit(code)
