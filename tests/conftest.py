"""Fixtures every test shares: real servers, a database per need, factories as the app role.

`db` (pytest-django's) rolls back; `committed_db` gives the test a database of its own, for
websockets, processes, threads and everything else that must commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.cache import cache
from django.db import connections
from pytest_django.plugin import DjangoDbBlocker

from tests import servers

SHARED = Path(__file__).resolve().parent.parent.parent / "shared"


@pytest.fixture(scope="session")
def django_db_setup(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The shared test database: a copy of the template, reached as the app role; never flushed."""
    servers.valkey()
    servers.create_database(servers.DATABASE)
    with django_db_blocker.unblock():
        yield
        connections.close_all()


@pytest.fixture
def committed_db(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """A database of this test's own. Yields its name."""
    name = servers.create_database()
    connection = connections["default"]
    connection.close()
    shared = connection.settings_dict["NAME"]
    connections.settings["default"]["NAME"] = connection.settings_dict["NAME"] = name
    with django_db_blocker.unblock():
        try:
            yield name
        finally:
            connections.close_all()
            connections.settings["default"]["NAME"] = connection.settings_dict["NAME"] = shared
            cache.clear()
            servers.drop_database(name)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of the shared cases and data; skips where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"no shared test data at {SHARED}")
    return SHARED
