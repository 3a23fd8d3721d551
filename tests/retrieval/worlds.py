"""Worlds for the relation's tests: documents in the index without the cost of reading them, and an
oracle in Python.

The oracle reads the grant tables row by row and knows nothing of the SQL that it checks.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from functools import cache

import numpy as np

from accounts.authority import Authority
from accounts.models import Membership, Project, ProjectTeamGrant, ProjectUserGrant, Team
from kaizen.kernel.clock import now
from retrieval.ingest.chunk import Passage
from retrieval.ingest.contract import Parsed
from retrieval.ingest.embed import Vectors, local_embedder
from retrieval.ingest.index import Ready, replace_passages
from retrieval.models import (
    Blob,
    Document,
    DocumentTeamGrant,
    DocumentUserGrant,
    DocumentVersion,
    Source,
    SourceTeamGrant,
    SourceUserGrant,
)

WORD = "lighthouse"


@cache
def _vector(text: str) -> Vectors:
    return local_embedder().embed_query(text)


class RememberingEmbedder:
    """The local embedder, asked once per text."""

    model, digest, dimension = (
        local_embedder().model,
        local_embedder().digest,
        local_embedder().dimension,
    )

    def embed_query(self, text: str) -> Vectors:
        """See `LocalEmbedder`."""
        return _vector(text)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """See `LocalEmbedder`."""
        return np.stack([_vector(text) for text in texts])

    def count_tokens(self, text: str) -> int:
        """See `LocalEmbedder`."""
        return local_embedder().count_tokens(text)


def index_document(
    source: Source, *, title: str, acl_state: str = Document.AclState.INHERIT, passages: int = 1
) -> Document:
    """A document with one version whose passages hold WORD, written by the product's own index
    writer.
    """
    organization = source.organization
    document = Document.objects.create(
        organization=organization,
        source=source,
        title=title,
        file_name=f"{title}.md",
        external_id=uuid.uuid4().hex,
        acl_state=acl_state,
        state=Document.State.INDEXED,
        passage_count=0,
    )
    blob = Blob.objects.create(
        organization=organization, digest=uuid.uuid4().hex * 2, size=1, storage_name="none"
    )
    version = DocumentVersion.objects.create(
        organization=organization, document=document, number=1, blob=blob, file_name=f"{title}.md"
    )
    texts = [f"The {WORD} keeper of page {number}." for number in range(passages)]
    embedder = RememberingEmbedder()
    replace_passages(
        document,
        Ready(
            version_id=version.pk,
            title=title,
            parsed=Parsed(title, "en", (), None, "text/markdown"),
            passages=[Passage(n, text, (), None, "paragraph", 8) for n, text in enumerate(texts)],
            vectors=embedder.embed_documents(texts),
            embedder=embedder,
        ),
    )
    document.current_version = version
    document.passage_count = passages
    document.save()
    return document


def may_view(authority: Authority, document: Document) -> bool:
    """Whether the caller may view the document, as a person reading the rules would say."""
    membership = Membership.objects.get(pk=authority.membership_id)
    document = Document.objects.select_related("source__project").get(pk=document.pk)
    source, only = document.source, authority.narrowing and authority.narrowing.source_keys
    if (
        membership.state != "active"
        or document.organization_id != authority.organization_id
        or document.deleted_at
        or source.archived_at
        or document.acl_state == "unknown"
        or (only is not None and source.key not in only)
    ):
        return False
    teams = _teams(membership)
    if _granted(DocumentUserGrant, DocumentTeamGrant, document.key, authority, teams):
        return True
    if document.acl_state == "restricted":
        return False
    if _granted(SourceUserGrant, SourceTeamGrant, source.key, authority, teams):
        return True
    project: Project | None = source.project
    return (
        project is not None
        and project.archived_at is None
        and _granted(ProjectUserGrant, ProjectTeamGrant, project.key, authority, teams)
    )


def _teams(membership: Membership) -> set[int]:
    found = set()
    for team in Team.objects.filter(organization=membership.organization):
        belongs = team.kind == "everyone"
        belongs |= team.team_memberships.filter(membership=membership).exists()
        above: Team | None = team
        while belongs and above is not None:
            found.add(above.pk)
            above = above.parent
    return found


def _granted(people: type, groups: type, key: int, authority: Authority, teams: set[int]) -> bool:
    def live(expires_at: datetime | None) -> bool:
        return expires_at is None or expires_at > now()

    rows = [*people.objects.filter(content_object_id=key, user_id=authority.user_id)]
    rows += [row for row in groups.objects.filter(content_object_id=key) if row.group_id in teams]
    return any(live(row.expires_at) for row in rows)
