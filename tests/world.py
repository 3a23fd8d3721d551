"""A small organisation with a readable and a secret document, an agent, and the running product
around it.
"""

from __future__ import annotations

from dataclasses import dataclass

from accounts.models import Membership, Organization, Role
from accounts.permissions import Verb
from agents.models import Agent, LanguageModel
from agents.services import publish_agent
from retrieval.documents import upload
from retrieval.ingest.store import ingest_document
from retrieval.models import Document, Source
from tests import factories
from tests.client import Member
from tests.providers.server import ModelServer
from tests.stack import Stack

MOVING = b"# Moving house\n\nWhoever moves house gets two days of paid leave. Ask your team lead.\n"


@dataclass
class Desk:
    """One organisation: `reader` may read the source, `outsider` may only use the agent."""

    organization: Organization
    admin: Membership
    reader: Membership
    outsider: Membership
    source: Source
    document: Document
    agent: Agent
    stack: Stack

    def sign_in(self, membership: Membership) -> Member:
        """A browser session of a member at the running product."""
        return Member(self.stack.address, self.organization.slug).sign_in(membership.user.email)


def add_document(desk_admin: Membership, source: Source, name: str, data: bytes) -> Document:
    """Upload and index a document as the product does."""
    document = upload(factories.authority_of(desk_admin), source=source, file_name=name, data=data)
    ingest_document(document.pk)
    document.refresh_from_db()
    assert document.state == Document.State.INDEXED, document.state_message
    return document


def make_desk(stack: Stack, *, model: LanguageModel | None = None, slug: str | None = None) -> Desk:
    """Build the organisation in the current (committed) database."""
    organization = factories.make_organization(slug)
    admin = factories.make_member(organization, role=Role.ADMIN)
    reader = factories.make_member(organization)
    outsider = factories.make_member(organization)
    source = factories.make_source(organization)
    factories.grant(admin, Verb.MANAGE, source)
    factories.grant(reader, Verb.VIEW, source)
    document = add_document(admin, source, "moving.md", MOVING)
    agent = factories.make_agent(
        organization, model=model or factories.make_language_model(organization)
    )
    publish_agent(factories.authority_of(admin), agent=agent)
    factories.grant(factories.everyone(organization), Verb.USE, agent)
    agent.refresh_from_db()
    return Desk(organization, admin, reader, outsider, source, document, agent, stack)


def use_model(
    desk: Desk, server: ModelServer, name: str, *, kind: str = "openai_compatible"
) -> Agent:
    """A further agent of the desk on the model server's ready-made model `name`."""
    address = server.anthropic_url if kind == "anthropic" else server.openai_url
    model = factories.make_language_model(
        desk.organization, kind=kind, name=name, base_url=address, api_key="sk-test-key-of-nobody"
    )
    agent = factories.make_agent(desk.organization, model=model)
    publish_agent(factories.authority_of(desk.admin), agent=agent)
    factories.grant(factories.everyone(desk.organization), Verb.USE, agent)
    agent.refresh_from_db()
    return agent
