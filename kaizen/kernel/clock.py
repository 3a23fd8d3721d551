"""The one place that tells the time, so that tests can move it.

Durations that decide about authority (leases, expiry) are compared with the database's clock
instead: see `accounts.authority` and `conversations.leases`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from django.db.models import DateTimeField, Func


class ClockTimestamp(Func):
    """The database's clock, which moves inside a transaction too."""

    template = "clock_timestamp()"
    output_field = DateTimeField()


def now() -> datetime:
    """The present instant, aware, in UTC."""
    return datetime.now(tz=UTC)
