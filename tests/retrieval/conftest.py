"""Fixtures of the retrieval tests: an organisation with an owner and a member, and documents in its
index.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from accounts.authority import Authority
from accounts.models import Membership, Organization, Role
from accounts.permissions import Verb
from retrieval.documents import upload
from retrieval.ingest.store import Ended, ingest_document
from retrieval.models import Document, Source
from tests import factories


@dataclass(frozen=True)
class Library:
    """An organisation whose owner manages one source, and a member without any grant."""

    organization: Organization
    owner: Membership
    member: Membership
    source: Source

    @property
    def as_owner(self) -> Authority:
        return factories.authority_of(self.owner)

    @property
    def as_member(self) -> Authority:
        return factories.authority_of(self.member)

    def add(
        self, text: str | bytes, name: str = "page.md", *, source: Source | None = None, **more: str
    ) -> Document:
        """Upload as the owner and read at once; it must be readable."""
        document = upload(
            self.as_owner,
            source=source or self.source,
            file_name=name,
            data=text if isinstance(text, bytes) else text.encode(),
            start=False,
            **more,
        )
        ingested = ingest_document(document.pk)
        assert ingested.ended is Ended.INDEXED, ingested
        document.refresh_from_db()
        return document


@pytest.fixture
def library(db: None) -> Library:
    """A library in the shared test database."""
    return make_library()


def make_library() -> Library:
    """A library in whatever database is current."""
    organization = factories.make_organization()
    owner = factories.make_member(organization, role=Role.OWNER)
    member = factories.make_member(organization)
    source = factories.make_source(organization, name="Library")
    factories.grant(owner, Verb.MANAGE, source)
    return Library(organization, owner, member, source)
