"""Fixtures of the walks: two organisations alike, in a database of the module's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django.plugin import DjangoDbBlocker

from tests import factories, servers
from tests.conftest import connected_to
from tests.security.walk_probe import Caller, Worlds
from tests.security.walk_world import build


@pytest.fixture(scope="module")
def worlds(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Worlds]:
    name = servers.create_database()
    with connected_to(name, django_db_blocker):
        yield Worlds(build("home"), build("foreign"), Caller("stranger", factories.make_user()))
    servers.drop_database(name)
