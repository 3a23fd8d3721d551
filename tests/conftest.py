"""Fixtures every test shares: real servers, a database per need, factories as the app role.

`db` (pytest-django's) rolls back; `committed_db` gives the test a database of its own, for
websockets, processes, threads and everything else that must commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.core.cache import cache
from django.db import connections
from pytest_django.plugin import DjangoDbBlocker

from tests import servers
from tests.providers.server import ModelServer
from tests.providers.thread import serve_in_thread
from tests.stack import RUNTIME_PYTHON, Stack
from tests.world import Desk, make_desk

SHARED = Path(__file__).resolve().parent.parent.parent / "shared"


@pytest.fixture(scope="session")
def django_db_setup(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The shared test database: a copy of the template, reached as the app role; never flushed."""
    servers.valkey()
    servers.create_database(servers.DATABASE)
    with django_db_blocker.unblock():
        yield
        connections.close_all()


@contextmanager
def connected_to(name: str, blocker: DjangoDbBlocker) -> Iterator[None]:
    """Point this process at the database `name` while the block runs."""
    connection = connections["default"]
    connection.close()
    shared = connection.settings_dict["NAME"]
    connections.settings["default"]["NAME"] = connection.settings_dict["NAME"] = name
    with blocker.unblock():
        try:
            yield
        finally:
            connections.close_all()
            connections.settings["default"]["NAME"] = connection.settings_dict["NAME"] = shared


@pytest.fixture
def committed_db(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """A database of this test's own. Yields its name."""
    name = servers.create_database()
    with connected_to(name, django_db_blocker):
        yield name
        cache.clear()
    servers.drop_database(name)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of the shared cases and data; skips where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"no shared test data at {SHARED}")
    return SHARED


@pytest.fixture(scope="session")
def product(django_db_setup: None) -> Iterator[Stack]:
    """The running product (web and runtime) around one database that many tests share.

    Each test has an organisation of its own in it, as customers do.
    """
    if not RUNTIME_PYTHON.exists():
        pytest.skip("the runtime's own environment isn't built: make test builds it")
    servers.valkey()
    with Stack(servers.create_database()) as running:
        running.start("web", "runtime")
        yield running


@pytest.fixture
def desk(product: Stack, django_db_blocker: DjangoDbBlocker) -> Iterator[Desk]:
    """An organisation in the running product."""
    with connected_to(product.database, django_db_blocker):
        yield make_desk(product)


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    """The wire-true model server, on a thread of its own."""
    with serve_in_thread() as server:
        yield server
