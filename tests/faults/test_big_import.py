"""Many real documents brought in for many owners while workers are killed: none lost, none doubled,
none visible too early.

The shared handbook again and again, each time for another owner in another source: ten thousand
documents in `make soak`, some hundreds otherwise.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from django.db import connection
from django.db.models import Count

from accounts.authority import Authority
from accounts.models import Membership
from accounts.permissions import Verb
from retrieval.acl import visible_documents
from retrieval.documents import upload
from retrieval.models import Chunk, Document, Source
from retrieval.search import Mode, search
from tests import factories
from tests.conftest import SHARED
from tests.stack import Stack

HANDBOOK = SHARED / "data" / "handbook"
SOAK = os.environ.get("KAIZEN_ROUNDS") == "soak"
OWNERS, PAGES = (41, 246) if SOAK else (8, 30)
WORDS = ("travel", "leave", "team", "security", "meeting")
pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not HANDBOOK.is_dir(), reason=f"no handbook at {HANDBOOK}"),
]


def pages() -> list[Path]:
    """The same pages in each run, from all over the handbook."""
    files = sorted(HANDBOOK.rglob("*.md"))
    return files if len(files) <= PAGES else random.Random(7).sample(files, PAGES)


def owners() -> list[tuple[Membership, Source]]:
    """Members of one organisation; each may see a source of their own and nothing else."""
    organization = factories.make_organization()
    found = []
    for _ in range(OWNERS):
        member = factories.make_member(organization)
        source = factories.make_source(organization)
        factories.grant(member, Verb.MANAGE, source)
        found.append((member, source))
    return found


class Watch:
    """Looks in while the import goes on, as owners and as a member without any grant."""

    def __init__(self, everyone: list[tuple[Membership, Source]]) -> None:
        self.dice = random.Random(11)
        self.everyone = everyone
        self.stranger = factories.make_member(everyone[0][0].organization)
        self.looks = 0

    def look(self) -> None:
        """Whatever is found lies in the owner's source and is there as a whole."""
        member, source = self.dice.choice(self.everyone)
        query = self.dice.choice(WORDS)
        hits = search(factories.authority_of(member), query=query, limit=50, mode=Mode.LEXICAL).hits
        assert {hit.source_id for hit in hits} <= {source.pk}
        # Never only some of a document's passages, and none of one that isn't read to its end.
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT d.id, d.state, d.passage_count,"
                " (SELECT count(*) FROM retrieval_lexeme l WHERE l.document_key = d.key),"
                " (SELECT count(*) FROM retrieval_vector v WHERE v.document_key = d.key)"
                " FROM retrieval_document d WHERE d.id = ANY (%s)",
                [list({hit.document_id for hit in hits})],
            )
            for identity, state, count, lexemes, vectors in cursor.fetchall():
                assert state == "indexed", identity
                assert count == lexemes == vectors > 0, identity
        assert search(factories.authority_of(self.stranger), query=query).hits == ()
        self.looks += 1


def done(organization_id: object) -> int:
    """How many documents are read, or can't be."""
    return Document.objects.filter(
        organization_id=organization_id, state__in=["indexed", "failed"]
    ).count()


def test_an_import_survives_two_killed_workers(committed_db: str) -> None:
    everyone = owners()
    organization = everyone[0][0].organization
    files = [(path.relative_to(HANDBOOK).as_posix(), path.read_bytes()) for path in pages()]
    total = len(everyone) * len(files)
    watch = Watch(everyone)
    with Stack(committed_db) as stack:
        stack.start("worker", "beat")
        for member, source in everyone:
            bring(factories.authority_of(member), source, files)
        for share in (0.25, 0.6):
            target = share * total

            def reached(target: float = target) -> bool:
                watch.look()
                return done(organization.pk) >= target

            stack.wait_for(reached, what=f"{share:.0%} of the documents", seconds=3_600)
            stack.kill("worker")
            watch.look()
            stack.start("worker")

        def ended() -> bool:
            watch.look()
            return done(organization.pk) == total

        stack.wait_for(ended, what="the end of the import", seconds=5_400)
    assert watch.looks > 5
    check_whole(everyone, len(files))


def bring(authority: Authority, source: Source, files: list[tuple[str, bytes]]) -> None:
    """Upload as the owner does; workers read."""
    for path, data in files:
        upload(
            authority,
            source=source,
            file_name=path.rpartition("/")[2],
            data=data,
            external_id=path,
            path=path,
        )


def check_whole(everyone: list[tuple[Membership, Source]], count: int) -> None:
    """Each owner has each document once, read to its end, with the passages it has elsewhere."""
    lengths: set[tuple[tuple[str, int], ...]] = set()
    for member, source in everyone:
        mine = visible_documents(factories.authority_of(member))
        assert mine.count() == count
        assert set(mine.values_list("source_id", flat=True)) == {source.pk}
        assert set(mine.values_list("state", flat=True)) == {Document.State.INDEXED}
        lengths.add(tuple(sorted(mine.values_list("external_id", "passage_count"))))
        source.refresh_from_db()
        assert source.passage_count == sum(length for _, length in lengths.copy().pop())
    assert len(lengths) == 1
    organization = everyone[0][0].organization
    doubled = (
        Chunk.objects.filter(organization=organization)
        .values("document_id", "ordinal")
        .annotate(times=Count("id"))
        .filter(times__gt=1)
    )
    assert not doubled.exists()
    with connection.cursor() as cursor:
        for table in ("retrieval_vector", "retrieval_lexeme"):
            cursor.execute(
                f"SELECT count(*), count(DISTINCT chunk_key) FROM {table}"
                " WHERE organization_key = %s",
                [organization.key],
            )
            rows, passages = cursor.fetchone()
            assert rows == passages == Chunk.objects.filter(organization=organization).count()
