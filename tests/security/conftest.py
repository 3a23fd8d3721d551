"""Fixtures of the walks (two organisations alike, in a database of the module's own) and of the
admin's forms.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client
from pytest_django.plugin import DjangoDbBlocker

from accounts.models import Membership, Organization, Role
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


@pytest.fixture
def owner() -> Membership:
    """An owner of organisation `home`."""
    return factories.make_member(factories.make_organization("home"), role=Role.OWNER)


@pytest.fixture
def admin(client: Client, owner: Membership) -> Client:
    """Signed in as `owner`."""
    client.force_login(owner.user)
    return client


@pytest.fixture
def elsewhere() -> Organization:
    """Another organisation."""
    return factories.make_organization("elsewhere", name="Elsewhere")
