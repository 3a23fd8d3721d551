"""The Django app `conversations`."""

from __future__ import annotations

from django.apps import AppConfig


class ConversationsConfig(AppConfig):
    """Registers `conversations`."""

    name = "conversations"
