"""The environment of Kaizen's processes: what is set outside wins, the rest is embedded.

Besides `kaizen.settings` the one place that reads environment variables, since it runs before
there are settings. The owner's database URL is never part of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from kaizen.embedded.paths import Layout, find_layout
from kaizen.embedded.state import State, new_field_key

OWNER_ROLE = "kaizen_owner"
APP_ROLE = "kaizen_app"
SUPERUSER_ROLE = "kaizen_super"
DATABASE = "kaizen"
HOST = "127.0.0.1"
LAUNCHERS = ("up", "doctor")


def outside(name: str) -> str | None:
    """Return a variable set by whoever started this process; empty counts as not set."""
    return os.environ.get(name) or None


def inherited() -> dict[str, str]:
    """Return what the processes take over from outside: all but what only a launcher may hold."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ("DATABASE_OWNER_URL", "KAIZEN_RUNTIME_TOKEN")
    }


def database_url(state: State, *, role: str, database: str = DATABASE) -> str | None:
    """Return the embedded database's URL for a role; None before its first start."""
    port, password = state.get("postgres.port"), state.get(f"postgres.{role}")
    return f"postgresql://{role}:{password}@{HOST}:{port}/{database}" if port and password else None


def valkey_url(state: State) -> str | None:
    """Return the embedded Valkey's URL; None before its first start."""
    port, password = state.get("valkey.port"), state.get("valkey.password")
    return f"redis://:{password}@{HOST}:{port}/0" if port and password else None


def embedded_environment(layout: Layout, state: State) -> dict[str, str]:
    """Return Kaizen's variables: those set outside, else those of what is embedded and started."""
    offered: Mapping[str, str | None] = {
        "DATABASE_URL": database_url(state, role=APP_ROLE),
        "VALKEY_URL": valkey_url(state),
        "STORAGE_URL": f"file://{layout.storage}",
        "KAIZEN_SECRET_KEY": state.secret("secret_key"),
        "KAIZEN_FIELD_KEYS": state.secret("field_keys", make=new_field_key),
        "KAIZEN_HOME": str(layout.home),
        "KAIZEN_DEBUG": "0",
        "KAIZEN_HOSTS": "localhost,127.0.0.1",
    }
    values = {name: outside(name) or value for name, value in offered.items()}
    return {name: value for name, value in values.items() if value is not None}


def adopt_environment(arguments: Sequence[str]) -> None:
    """Give this process the environment of the installation in this checkout, if there is one.

    For `manage.py`, so that a command typed by hand meets the same database as the running
    processes. Not for `up` and `doctor`, which must tell what was set outside from what is
    embedded.
    """
    layout = find_layout()
    if any(name in arguments[1:2] for name in LAUNCHERS):
        return
    if layout.state.exists() and os.access(layout.state, os.R_OK):
        for name, value in embedded_environment(layout, State(layout.state)).items():
            os.environ.setdefault(name, value)
