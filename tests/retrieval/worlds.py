"""Worlds for the relation's tests: documents in the index without the cost of reading them, and an
oracle in Python.

The oracle reads the grant tables row by row and knows nothing of the SQL that it checks.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import cache

import numpy as np

from accounts.authority import Authority
from accounts.models import (
    Membership,
    Organization,
    Project,
    ProjectTeamGrant,
    ProjectUserGrant,
    Team,
    TeamMembership,
)
from kaizen.kernel.clock import now
from retrieval.embedders.contract import Vectors
from retrieval.embedders.local import local_embedder
from retrieval.ingest.chunk import Passage
from retrieval.ingest.contract import Parsed
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
    source: Source,
    *,
    title: str,
    acl_state: str = Document.AclState.INHERIT,
    passages: int = 1,
    of: str = "page",
    word: str = f"{WORD} keeper",
) -> Document:
    """A document with one version whose passages hold WORD, written by the product's own index
    writer.
    """
    texts = [f"The {word} of {of} {number}." for number in range(passages)]
    return _index(source, texts, title=title, acl_state=acl_state)


def index_text(source: Source, text: str, *, title: str, language: str = "en") -> Document:
    """A document of one passage in a language."""
    return _index(source, [text], title=title, language=language)


def _index(
    source: Source,
    texts: list[str],
    *,
    title: str,
    acl_state: str = Document.AclState.INHERIT,
    language: str = "en",
) -> Document:
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
    embedder = RememberingEmbedder()
    replace_passages(
        document,
        Ready(
            version_id=version.pk,
            title=title,
            parsed=Parsed(title, language, (), None, "text/markdown"),
            passages=[Passage(n, text, (), None, "paragraph", 8) for n, text in enumerate(texts)],
            vectors=embedder.embed_documents(texts),
            embedder=embedder,
        ),
    )
    document.current_version = version
    document.passage_count = len(texts)
    document.save()
    return document


class Rules:
    """The rules as a person reads them, over every row as it stands now, without a word of SQL
    logic.
    """

    def __init__(self, organization: Organization) -> None:
        self.documents = {
            document.pk: document for document in Document.objects.select_related("source__project")
        }
        self.members = {member.pk: member for member in Membership.objects.all()}
        self.teams = {team.pk: team for team in Team.objects.filter(organization=organization)}
        self.places = {(row.team_id, row.membership_id) for row in TeamMembership.objects.all()}
        self.grants = {
            table: [*table.objects.all()]
            for table in (
                *(DocumentUserGrant, DocumentTeamGrant),
                *(SourceUserGrant, SourceTeamGrant),
                *(ProjectUserGrant, ProjectTeamGrant),
            )
        }

    def may_view(self, authority: Authority, document_id: uuid.UUID) -> bool:
        """Whether the caller may view the document."""
        membership, document = self.members[authority.membership_id], self.documents[document_id]
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
        teams = self._teams_of(membership)

        def granted(people: type, groups: type, key: int) -> bool:
            rows = [row for row in self.grants[people] if row.user_id == authority.user_id]
            rows += [row for row in self.grants[groups] if row.group_id in teams]
            live = [row for row in rows if row.expires_at is None or row.expires_at > now()]
            return any(row.content_object_id == key for row in live)

        if granted(DocumentUserGrant, DocumentTeamGrant, document.key):
            return True
        if document.acl_state == "restricted":
            return False
        if granted(SourceUserGrant, SourceTeamGrant, source.key):
            return True
        project: Project | None = source.project
        if project is None or project.archived_at is not None:
            return False
        return granted(ProjectUserGrant, ProjectTeamGrant, project.key)

    def _teams_of(self, membership: Membership) -> set[int]:
        found = set()
        for team in self.teams.values():
            if team.kind != "everyone" and (team.pk, membership.pk) not in self.places:
                continue
            above: int | None = team.pk
            while above is not None:
                found.add(above)
                above = self.teams[above].parent_id
        return found
