"""The Django app `accounts`."""

from __future__ import annotations

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Registers `accounts`."""

    name = "accounts"
