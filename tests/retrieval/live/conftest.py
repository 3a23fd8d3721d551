"""A live source on a running server, an admin who set it up, and two members with their own
accounts there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from accounts.authority import Authority
from accounts.models import Membership, Organization, Role
from accounts.permissions import Verb
from retrieval.live.accounts import connect_account
from retrieval.live.reads import Read, read_live_source
from retrieval.live.sources import allow_tools, ask_for_tools, create_live_source
from retrieval.models import LiveSource, Source
from tests import factories
from tests.retrieval.live.server import McpServer, mcp_server

ADA, BOB, ADMIN = "ada-token-0001", "bob-token-0002", "admin-token-0003"


@dataclass(frozen=True)
class Scene:
    """Ada and Bob may view the live source; each has tickets of their own behind their token."""

    server: McpServer
    organization: Organization
    admin: Membership
    ada: Membership
    bob: Membership
    live: LiveSource

    @property
    def source(self) -> Source:
        return self.live.source

    @property
    def as_admin(self) -> Authority:
        return factories.authority_of(self.admin)

    @property
    def as_ada(self) -> Authority:
        return factories.authority_of(self.ada)

    @property
    def as_bob(self) -> Authority:
        return factories.authority_of(self.bob)

    def read(self, authority: Authority, *, tool: str = "search_tickets", **arguments: Any) -> Read:
        """Read the source by its name."""
        return read_live_source(
            authority, source=self.source.name, tool=tool, arguments=arguments or {"query": ""}
        )


@pytest.fixture
def server(settings: Any) -> Iterator[McpServer]:
    """A server that the egress guard lets through."""
    rows = {
        ADA: ["Printer on floor 2 is broken", "Ada asks for a chair"],
        BOB: ["Bob asks for a desk"],
        ADMIN: [],
    }
    with mcp_server(rows=rows) as running:
        settings.EGRESS_ALLOW = (running.site.allowed,)
        yield running


@pytest.fixture
def scene(db: None, server: McpServer) -> Scene:
    """The live source as an admin leaves it, in the shared test database."""
    return make_scene(server)


def make_scene(server: McpServer) -> Scene:
    """One tool allowed, two members granted, in whatever database is current."""
    organization = factories.make_organization()
    admin = factories.make_member(organization, role=Role.ADMIN)
    ada, bob = factories.make_member(organization), factories.make_member(organization)
    as_admin = factories.authority_of(admin)
    live = create_live_source(as_admin, name="Tickets", description="Help desk", url=server.url)
    connect_account(as_admin, source_id=live.source_id, token=ADMIN)
    ask_for_tools(as_admin, live=live)
    allow_tools(as_admin, live=live, names=["search_tickets"])
    for member in (ada, bob):
        factories.grant(member, Verb.VIEW, live.source)
    server.site.asked.clear()
    return Scene(server, organization, admin, ada, bob, live)


@pytest.fixture
def connected(scene: Scene) -> Scene:
    """Both members have connected their accounts."""
    connect_account(scene.as_ada, source_id=scene.source.pk, token=ADA)
    connect_account(scene.as_bob, source_id=scene.source.pk, token=BOB)
    scene.server.site.asked.clear()
    return scene
