"""The frame's own Django app: start-up wiring only."""

from __future__ import annotations

from django.apps import AppConfig

import kaizen.celery  # noqa: F401  without it, jobs enqueued by the web go to another broker


class KaizenConfig(AppConfig):
    """Carries the management commands of the frame."""

    name = "kaizen"
    label = "kaizen"
