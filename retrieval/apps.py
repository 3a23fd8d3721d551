"""The Django app `retrieval`."""

from __future__ import annotations

from django.apps import AppConfig


class RetrievalConfig(AppConfig):
    """Registers `retrieval`."""

    name = "retrieval"
