"""`manage.py password_link`: a one-time link that sets a person's password, since Kaizen sends no
e-mail.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts.invitations import password_path
from accounts.models import User


class Command(BaseCommand):
    """For the platform's operator only: whoever has the link can sign in as the person."""

    help = "Print a link, valid once and for three days, that sets the password of a person."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(email__iexact=options["email"].strip(), is_active=True).first()
        if user is None:
            raise CommandError("There is no active person with this e-mail.")
        self.stdout.write(password_path(user))
