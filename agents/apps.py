"""The Django app `agents`."""

from __future__ import annotations

from django.apps import AppConfig


class AgentsConfig(AppConfig):
    """Registers `agents`."""

    name = "agents"
