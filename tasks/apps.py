"""The Django app `tasks`."""

from __future__ import annotations

from django.apps import AppConfig


class TasksConfig(AppConfig):
    """Registers `tasks`."""

    name = "tasks"
