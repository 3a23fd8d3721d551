"""The relation in random worlds, against a reader of the rules: queryset and search never differ
from it (G1).
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from datetime import timedelta

import pytest

from accounts.authority import Authority, Narrowing
from accounts.models import Membership, Team, TeamMembership
from accounts.permissions import (
    Verb,
    delete_grant,
    store_grant,
    team_grants_of,
    user_grants_of,
)
from kaizen.kernel.clock import now
from retrieval.acl import visible_documents
from retrieval.ingest.index import remove_passages, set_inheritance
from retrieval.models import Document, Source
from retrieval.postings import fold_organization
from retrieval.search import search
from tests import factories
from tests.retrieval.worlds import WORD, RememberingEmbedder, Rules, index_document

SEED = int(os.environ.get("KAIZEN_SEED", "20261"))
SOAK = os.environ.get("KAIZEN_ROUNDS") == "soak"
WORLDS, STEPS, CHECKS = (100, 20, 10) if SOAK else (5, 20, 10)


class World:
    """One random organisation and a foreign one, changed step by step."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.organization = factories.make_organization()
        self.members = [factories.make_member(self.organization) for _ in range(5)]
        other = factories.make_organization()
        self.members += [
            factories.make_member(other, user=self.members[0].user),
            factories.make_member(other),
        ]
        self.teams: list[Team] = []
        for _ in range(4):
            parent = dice.choice([None, *self.teams])
            members = dice.sample(self.members[:5], dice.randint(0, 2))
            self.teams.append(factories.make_team(self.organization, *members, parent=parent))
        self.projects = [factories.make_project(self.organization) for _ in range(2)]
        self.sources = [self._make_source() for _ in range(4)]
        foreign = factories.make_source(other)
        self.documents = [self._make_document(dice.choice(self.sources)) for _ in range(12)]
        self.documents.append(self._make_document(foreign))
        for _ in range(24):
            self.give()

    def _make_source(self) -> Source:
        project = self.dice.choice([None, *self.projects])
        return factories.make_source(self.organization, project=project)

    def _make_document(self, source: Source) -> Document:
        state = self.dice.choice(["inherit", "inherit", "inherit", "restricted", "unknown"])
        return index_document(source, title=f"Document {self.dice.random()}", acl_state=state)

    def give(self) -> None:
        """One random grant, which may be over already."""
        everyone = factories.everyone(self.organization)
        principal = self.dice.choice(
            [*(member.user for member in self.members[:5]), *self.teams, everyone]
        )
        obj = self.dice.choice([*self.projects, *self.sources, *self.documents[:12]])
        hours = self.dice.choice([None, None, -1, 1])
        store_grant(
            principal,
            self.dice.choice(list(Verb)),
            obj,
            granted_by_id=None,
            expires_at=None if hours is None else now() + timedelta(hours=hours),
        )

    def take(self) -> None:
        """Take back every grant of one verb on one object."""
        obj = self.dice.choice([*self.projects, *self.sources, *self.documents[:12]])
        for principal in (self.dice.choice(self.members[:5]).user, self.dice.choice(self.teams)):
            delete_grant(principal, self.dice.choice(list(Verb)), obj)
        for table in (user_grants_of(type(obj)), team_grants_of(type(obj))):
            row = table._default_manager.filter(content_object=obj).order_by("?").first()
            if row is not None:
                row.delete()

    def restrict(self) -> None:
        """Another permission state for one document."""
        document = self.dice.choice(self.documents)
        document.acl_state = self.dice.choice(list(Document.AclState))
        document.save(update_fields=["acl_state"])
        set_inheritance(document)

    def archive(self) -> None:
        """A source or a project goes away or comes back."""
        row = self.dice.choice([*self.sources, *self.projects])
        row.archived_at = None if row.archived_at else now()
        row.save(update_fields=["archived_at"])

    def move(self) -> None:
        """A source changes its project."""
        source = self.dice.choice(self.sources)
        source.project = self.dice.choice([None, *self.projects])
        source.save(update_fields=["project"])

    def fold(self) -> None:
        """Postings are folded, wholly or for now not at all."""
        fold_organization(self.organization.key)

    def replace(self) -> None:
        """A document goes away and another comes."""
        place = self.dice.randrange(12)
        document = self.documents[place]
        remove_passages(document)
        Document.objects.filter(pk=document.pk).update(deleted_at=now(), passage_count=0)
        self.documents[place] = self._make_document(self.dice.choice(self.sources))

    def join_or_leave(self) -> None:
        """A member enters or leaves a team."""
        team, member = self.dice.choice(self.teams), self.dice.choice(self.members[:5])
        place, is_new = TeamMembership.objects.get_or_create(
            organization=self.organization, team=team, membership=member
        )
        if not is_new:
            place.delete()

    def change(self) -> None:
        """One random change."""
        changes: list[Callable[[], None]] = [
            self.give,
            self.give,
            self.give,
            self.take,
            self.restrict,
            self.archive,
            self.move,
            self.join_or_leave,
            self.fold,
            self.fold,
            self.replace,
        ]
        self.dice.choice(changes)()

    def caller(self) -> Authority:
        """A random member, sometimes within a run that may use only some sources."""
        member: Membership = self.dice.choice(self.members)
        authority = factories.authority_of(member)
        if self.dice.random() < 0.7:
            return authority
        chosen = self.dice.sample(self.sources, self.dice.randint(0, 3))
        return authority.narrowed(Narrowing(source_keys=frozenset(s.key for s in chosen)))


@pytest.mark.django_db
@pytest.mark.soak
@pytest.mark.parametrize("number", range(WORLDS))
def test_every_surface_agrees_with_the_rules(number: int) -> None:
    world = World(random.Random(SEED + number))
    embedder = RememberingEmbedder()
    sizes = set()
    for step in range(STEPS):
        world.change()
        rules = {member.organization_id: Rules(member.organization) for member in world.members}
        for _ in range(CHECKS):
            who = world.caller()
            rule = rules[who.organization_id]
            expected = {row.pk for row in world.documents if rule.may_view(who, row.pk)}
            sizes.add(len(expected))
            assert {row.pk for row in visible_documents(who)} == expected, (number, step)
            result = search(who, query=WORD, limit=50, embedder=embedder)
            by_meaning = {hit.document_id for hit in result.hits if hit.vector_rank}
            by_words = {hit.document_id for hit in result.hits if hit.lexical_rank}
            assert by_meaning == by_words == expected, (number, step)
            assert result.visible or not expected
    # The worlds are worth something only if callers see nothing, little and much. Of the fixed
    # seeds that is known; among a hundred fresh ones a poor world may be drawn.
    assert min(sizes) == 0
    assert max(sizes) >= (1 if SOAK else 4)
