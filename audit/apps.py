"""The Django app `audit`."""

from __future__ import annotations

from django.apps import AppConfig


class AuditConfig(AppConfig):
    """Registers `audit`."""

    name = "audit"
