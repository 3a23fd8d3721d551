"""Filtered search is complete (goal G4): whoever may see little gets all of it that is near,
whatever stands between, whichever plan is taken, and however often the connection was used.

Raw rows in the index, the product's own functions, and brute force in numpy as the judge. Rounds
under `make soak` are 30,000 and 200,000 passages.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np
import psycopg
import pytest
from django.db import connection
from pytest_django.plugin import DjangoDbBlocker

from accounts.authority import Authority
from accounts.models import Organization
from accounts.permissions import Verb, permission_id
from kaizen.embedded.environment import OWNER_ROLE, SUPERUSER_ROLE
from retrieval.acl import caller
from retrieval.models import (
    Blob,
    Chunk,
    Document,
    DocumentUserGrant,
    DocumentVersion,
    EmbeddingSpace,
    Source,
)
from retrieval.partitions import split_grown
from retrieval.vectors import vector_literal
from tests import factories, servers
from tests.bench import load
from tests.conftest import connected_to

SEED = int(os.environ.get("KAIZEN_SEED", "471"))
SIZES = (30_000, 200_000) if os.environ.get("KAIZEN_ROUNDS") == "soak" else (5_000,)
DIMENSION = 384
ALWAYS_EXACT, NEVER_EXACT = 1 << 40, 0
_ASK = """
SELECT f.chunk_key FROM retrieval_vector_search(
    %(organization)s::uuid, %(organization_key)s::bigint, %(user)s::bigint,
    %(source_permissions)s::integer[], %(project_permissions)s::integer[],
    %(document_permissions)s::integer[], NULL::bigint[], NULL::jsonb, NULL::tsquery,
    %(space)s::bigint, %(vector)s::halfvec, %(limit)s::integer, %(exact_up_to)s::bigint) f
WHERE f.chunk_key IS NOT NULL ORDER BY f.distance, f.chunk_key
"""
Vectors = np.ndarray[Any, Any]


@dataclass
class Shelf:
    """One source whose passages are rows in the index and nothing else: a passage a document."""

    source: Source
    space: int
    documents: list[int]
    chunks: Vectors
    stored: Vectors

    @property
    def organization(self) -> Organization:
        """Whose it is."""
        return self.source.organization

    def best(self, vector: Vectors, rows: Vectors, count: int = 10) -> tuple[Vectors, float]:
        """By brute force: scores of all, and that of the last of the best `count` of `rows`."""
        scores = self.stored @ vector.astype(np.float16).astype(np.float32)
        return scores, float(np.sort(scores[rows])[::-1][: min(count, len(rows))][-1])

    def grant(self, rows: Vectors) -> Authority:
        """A new member who may view the documents of these rows."""
        member = factories.make_member(self.organization)
        DocumentUserGrant.objects.bulk_create(
            DocumentUserGrant(
                organization=self.organization,
                user=member.user,
                permission_id=permission_id(Document, Verb.VIEW),
                content_object_id=self.documents[row],
            )
            for row in rows.tolist()
        )
        return factories.authority_of(member)

    def ask(
        self, authority: Authority, vector: Vectors, *, exact_up_to: int, limit: int = 10
    ) -> list[int]:
        """Keys of passages by the router, through Django's connection."""
        with connection.cursor() as cursor:
            given = self.parameters(authority, vector, exact_up_to=exact_up_to, limit=limit)
            cursor.execute(_ASK, given)
            return [row[0] for row in cursor.fetchall()]

    def parameters(
        self, authority: Authority, vector: Vectors, *, exact_up_to: int, limit: int = 10
    ) -> dict[str, Any]:
        """What `_ASK` takes."""
        return {
            **caller(authority)._asdict(),
            "space": self.space,
            "vector": vector_literal(vector),
            "limit": limit,
            "exact_up_to": exact_up_to,
        }

    def recall(self, found: list[int], vector: Vectors, rows: Vectors) -> float:
        """The share of the right ten; asserts that nothing else came and none is missing."""
        wanted = min(10, len(rows))
        assert len(found) == len(set(found)) == wanted
        at = np.searchsorted(self.chunks, found)
        assert np.isin(at, rows).all()
        scores, last = self.best(vector, rows)
        return float((scores[at] >= last - 1e-4).sum()) / wanted


def make_shelf(vectors: Vectors) -> Shelf:
    """Fill a source of a new organisation with these vectors, in its own partition with a graph."""
    organization = factories.make_organization()
    source = factories.make_source(organization, passage_count=len(vectors))
    space = EmbeddingSpace.objects.create(
        organization=organization, model="given", digest="given", dimension=DIMENSION
    )
    for row in (organization, source, space):
        row.refresh_from_db()
    name = connection.settings_dict["NAME"]
    superuser = servers.database_url(name, role=SUPERUSER_ROLE)
    with psycopg.connect(superuser) as connected:
        first = _copy_rows(connected, organization, source, len(vectors))
        documents, chunks = (first + at * len(vectors) + np.arange(len(vectors)) for at in (0, 1))
        keys = (organization.key, space.key, source.key, documents, chunks)
        load.copy_vectors(connected, keys, inherits=True, vectors=vectors)
    with psycopg.connect(servers.database_url(name, role=OWNER_ROLE), autocommit=True) as owner:
        split_grown(owner, at=1)
    stored = vectors.astype(np.float16).astype(np.float32)
    return Shelf(source, space.key, documents.tolist(), chunks, stored)


def _copy_rows(
    connected: psycopg.Connection, organization: Organization, source: Source, count: int
) -> int:
    """A document, a version and a passage each; returns the first key, of a document. The passages'
    keys follow the documents'.
    """
    row = connected.execute("SELECT nextval('kaizen_key_seq')").fetchone()
    first = row[0] if row else 0
    connected.execute("SELECT setval('kaizen_key_seq', %s)", [first + 2 * count])
    connected.execute("SET session_replication_role = replica")
    blob = Blob.objects.create(
        organization=organization, digest=uuid4().hex * 2, size=1, storage_name="none"
    )
    common = {"organization_id": organization.pk}
    ids = {kind: [uuid4() for _ in range(count)] for kind in (Document, DocumentVersion, Chunk)}
    load.copy_models(
        connected,
        Document,
        common | {"source_id": source.pk, "state": "indexed", "passage_count": 1, "title": "d"},
        ("id", "key", "external_id", "current_version_id"),
        ((ids[Document][at], first + at, at, ids[DocumentVersion][at]) for at in range(count)),
    )
    load.copy_models(
        connected,
        DocumentVersion,
        common | {"number": 1, "blob_id": blob.pk, "file_name": "d.md"},
        ("id", "document_id"),
        zip(ids[DocumentVersion], ids[Document], strict=True),
    )
    load.copy_models(
        connected,
        Chunk,
        common | {"ordinal": 0, "text": "t", "kind": "paragraph", "token_count": 1},
        ("id", "key", "version_id", "document_id"),
        (
            (ids[Chunk][at], first + count + at, ids[DocumentVersion][at], ids[Document][at])
            for at in range(count)
        ),
    )
    return first


def clustered(dice: np.random.Generator, count: int) -> tuple[Vectors, Vectors]:
    """Unit vectors around sixty topics, and the topic of each."""
    topics = _unit(dice.normal(size=(60, DIMENSION)))
    which = dice.integers(0, len(topics), count)
    return _unit(topics[which] + 0.04 * dice.normal(size=(count, DIMENSION))), which


def _unit(vectors: Vectors) -> Vectors:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def own_database(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """A database of this module's own: the rows are too many to make for each test."""
    name = servers.create_database()
    with connected_to(name, django_db_blocker):
        yield
    servers.drop_database(name)


@pytest.fixture(scope="module", params=SIZES, ids=lambda size: f"{size} passages")
def shelf(request: pytest.FixtureRequest, own_database: None) -> tuple[Shelf, Vectors]:
    """A shelf, and the topic of each of its passages."""
    vectors, topics = clustered(np.random.default_rng(SEED), request.param)
    return make_shelf(vectors), topics


@pytest.fixture
def dice() -> np.random.Generator:
    """From the run's seed."""
    return np.random.default_rng(SEED + 1)


@pytest.mark.soak
def test_every_share_is_found_whole_near_and_far_by_either_plan(
    shelf: tuple[Shelf, Vectors], dice: np.random.Generator
) -> None:
    made, topics = shelf
    size = len(made.stored)
    for share in (0.0001, 0.001, 0.01, 0.1, 0.5):
        rows = np.sort(dice.choice(size, max(1, round(share * size)), replace=False))
        authority = made.grant(rows)
        reached: dict[int, list[float]] = {ALWAYS_EXACT: [], NEVER_EXACT: []}
        for placement in ("near", "far"):
            for _ in range(5):
                vector = _question(made, rows, topics, dice, placement)
                for exact_up_to, values in reached.items():
                    found = made.ask(authority, vector, exact_up_to=exact_up_to)
                    values.append(made.recall(found, vector, rows))
        assert min(reached[ALWAYS_EXACT]) == 1.0
        if len(rows) <= 2_000:
            found = made.ask(authority, vector, exact_up_to=8_000)
            assert made.recall(found, vector, rows) == 1.0
        assert float(np.mean(reached[NEVER_EXACT])) >= 0.95, share


def _question(
    made: Shelf, rows: Vectors, topics: Vectors, dice: np.random.Generator, placement: str
) -> Vectors:
    """Near a permitted passage, or in a topic of which as little as can be is permitted."""
    if placement == "near":
        start = made.stored[int(dice.choice(rows))]
    else:
        permitted = np.bincount(topics[rows], minlength=60)
        start = made.stored[int(dice.choice(np.flatnonzero(topics == permitted.argmin())))]
    return _unit(start + 0.03 * dice.normal(size=DIMENSION))


def test_everything_permitted_is_found_where_99_in_100_of_the_nearest_are_forbidden(
    shelf: tuple[Shelf, Vectors], dice: np.random.Generator
) -> None:
    made, _ = shelf
    vector = _unit(dice.normal(size=DIMENSION))
    order = np.argsort(-(made.stored @ vector))
    rows = np.sort(np.concatenate([order[99:100], order[-40:]]))
    authority = made.grant(rows)
    for exact_up_to in (ALWAYS_EXACT, 8_000, NEVER_EXACT):
        found = made.ask(authority, vector, exact_up_to=exact_up_to)
        assert made.recall(found, vector, rows) == 1.0
        assert found[0] == made.chunks[order[99]]


def test_a_cached_plan_and_stale_statistics_change_nothing(
    shelf: tuple[Shelf, Vectors], dice: np.random.Generator
) -> None:
    made, _ = shelf
    name = connection.settings_dict["NAME"]
    grants = "retrieval_documentusergrant"
    with psycopg.connect(servers.database_url(name, role=OWNER_ROLE), autocommit=True) as owner:
        # From here on the planner believes that nobody was granted anything.
        owner.execute(f"ALTER TABLE {grants} SET (autovacuum_enabled = false)".encode())
        owner.execute(f"ANALYZE {grants}".encode())
    rows = np.sort(dice.choice(len(made.stored), 400, replace=False))
    authority = made.grant(rows)
    vector = _unit(made.stored[rows[0]] + 0.05 * dice.normal(size=DIMENSION))
    expected = made.ask(authority, vector, exact_up_to=ALWAYS_EXACT)
    assert made.recall(expected, vector, rows) == 1.0
    with psycopg.connect(servers.database_url(name), autocommit=True) as connected:
        for exact_up_to in (ALWAYS_EXACT, NEVER_EXACT):
            given = made.parameters(authority, vector, exact_up_to=exact_up_to)
            for _ in range(12):
                found = connected.execute(_ASK, given, prepare=True).fetchall()
                assert [row[0] for row in found] == expected


def test_k04_the_few_permitted_are_found_behind_thousands_of_nearer_ones(
    own_database: None,
) -> None:
    """The case's own 5,000 vectors. Its distance is of the cosine; half precision can't hold that
    near -1, so the vectors are moved along the query, which changes no order, and brought to one
    length by a coordinate that the query does not have.
    """
    made = make_shelf(_k04_vectors())
    rows = np.arange(4_988, 5_000)
    authority = made.grant(rows)
    vector = np.eye(1, DIMENSION, dtype=np.float32)[0]
    right = [4989, 4990, 4992, 4993, 4994, 4995, 4996, 4997, 4999, 5000]
    expected = [int(made.chunks[number - 1]) for number in right]
    assert made.ask(authority, vector, exact_up_to=8_000) == expected
    # The graph is not the plan for twelve; forced, it still may not come back short or foreign.
    forced = made.ask(authority, vector, exact_up_to=NEVER_EXACT)
    assert len(set(forced)) == 10
    assert set(forced) <= {int(made.chunks[row]) for row in rows}
    name = connection.settings_dict["NAME"]
    with psycopg.connect(servers.database_url(name)) as connected:
        connected.execute("SET LOCAL enable_seqscan = off")
        given = made.parameters(authority, vector, exact_up_to=8_000)
        for run in range(1, 101):
            if run == 8:
                connected.execute("SET LOCAL enable_indexscan = off")
            found = connected.execute(_ASK, given).fetchall()
            if run in (1, 7, 8, 100):
                assert [row[0] for row in found] == expected, run


def _k04_vectors() -> Vectors:
    vectors = np.zeros((5_000, DIMENSION), dtype=np.float64)
    for i in range(1, 5_001):
        t = math.pi * i / 5_000
        given = [math.cos(t), math.sin(t), *(0.001 * ((i * k) % 7) for k in range(1, 7))]
        length = math.sqrt(sum(value * value for value in given))
        vectors[i - 1, :8] = [100 * value / length for value in given]
        vectors[i - 1, 0] += 100
    lengths = (vectors**2).sum(axis=1)
    vectors[:, 8] = np.sqrt(lengths.max() - lengths)
    return vectors.astype(np.float32)
