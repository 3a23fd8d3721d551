"""`manage.py create_organization`: a new tenant with its owner, for the platform's operator."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from accounts.invitations import password_path
from accounts.models import User
from accounts.services import create_organization
from kaizen.kernel.errors import KaizenError


class Command(BaseCommand):
    """Makes the organisation, and the owner where the e-mail is new."""

    help = "Create an organisation with one owner; prints a link that sets a new owner's password."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="in every address: /o/<slug>/")
        parser.add_argument("--name", required=True)
        parser.add_argument("--owner", required=True, help="e-mail address")

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        email = options["owner"].strip().lower()
        owner = User.objects.filter(email__iexact=email).first()
        owner = owner or User.objects.create_user(email)
        try:
            organization = create_organization(
                name=options["name"], slug=options["slug"], owner=owner
            )
        except KaizenError as error:
            raise CommandError(error.message) from None
        self.stdout.write(f"Created {organization.name} at /o/{organization.slug}/.")
        if not owner.has_usable_password():
            self.stdout.write(f"{email} sets a password once at {password_path(owner)}")
