"""Fixtures of the walks (two organisations alike, in a database of the module's own) and of the
admin's forms.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client, override_settings
from pytest_django.plugin import DjangoDbBlocker

from accounts.models import Membership, Organization, Role
from tests import factories, servers
from tests.conftest import connected_to
from tests.security.walk_probe import Caller, Worlds
from tests.security.walk_world import build
from tests.websites import website


@pytest.fixture(scope="module")
def worlds(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Worlds]:
    name = servers.create_database()
    with website() as site, override_settings(EGRESS_ALLOW=(site.allowed,)):
        site.serve("/page", "<title>A page of the walk</title><p>Of the walk.")
        with connected_to(name, django_db_blocker):
            home, foreign = build("home"), build("foreign")
            home.page_url = foreign.page_url = f"{site.origin}/page"
            yield Worlds(home, foreign, Caller("stranger", factories.make_user()))
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
