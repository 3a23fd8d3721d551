"""Search under load (goal G5): 200,000 passages, a caller with 200 grants through 20 groups, 20
searches a second held. Made-up passages, the product's own search with its audit.

Reduced to 4,000 passages and four a second for five seconds in `make test`, where times aren't
asserted.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID, uuid4

import numpy as np
import psycopg
import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext
from pytest_django.plugin import DjangoDbBlocker

from accounts.authority import Authority
from accounts.models import Organization
from kaizen.embedded.environment import OWNER_ROLE, SUPERUSER_ROLE
from retrieval.models import Blob, Document, EmbeddingSpace, Source
from retrieval.partitions import split_grown
from retrieval.postings import fold_organization
from retrieval.search import search
from tests import factories, servers
from tests.bench import load, rights
from tests.bench.material import noise, topics, unit, vocabulary
from tests.bench.shape import DIMENSION, PER_DOCUMENT, SPACE_DIGEST, SPACE_MODEL, TEXT_CONFIG
from tests.bench.statements import GivenVector
from tests.conftest import connected_to

SOAK = os.environ.get("KAIZEN_ROUNDS") == "soak"
SEED = int(os.environ.get("KAIZEN_SEED", "5"))
SOURCES, PER_SOURCE = (200, 1_000) if SOAK else (20, 200)
GRANTS, GROUPS = 200, 20
SECONDS = 300.0 if SOAK else 5.0
A_SECOND = 20 if SOAK else 4
P95_MILLISECONDS = 150.0
MOST_QUERIES = 8
_THREADS = 6
_WARM_UP = 100 if SOAK else 10


@dataclass(frozen=True)
class Place:
    """An organisation in the index, and a caller who sees part of it."""

    authority: Authority
    size: int


@pytest.fixture(scope="module")
def place(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Place]:
    """Load, fold, build the graph, grant; in a database of this module's own."""
    name = servers.create_database()
    with connected_to(name, django_db_blocker):
        yield _make_place(name)
    servers.drop_database(name)


def _make_place(database: str) -> Place:
    organization = factories.make_organization()
    organization.refresh_from_db()
    space = EmbeddingSpace.objects.create(
        organization=organization, model=SPACE_MODEL, digest=SPACE_DIGEST, dimension=DIMENSION
    )
    space.refresh_from_db()
    blob = Blob.objects.create(
        organization=organization, digest=uuid4().hex * 2, size=1, storage_name="none"
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO retrieval_text_config (organization_key, config) VALUES (%s, %s)",
            [organization.key, TEXT_CONFIG],
        )
    tasks = _make_tasks(database, organization, space.key, blob.pk)
    for task in tasks:
        load.load_source(task)
    fold_organization(organization.key)
    with psycopg.connect(servers.database_url(database, role=OWNER_ROLE), autocommit=True) as owner:
        split_grown(owner)
    with psycopg.connect(
        servers.database_url(database, role=SUPERUSER_ROLE), autocommit=True
    ) as superuser:
        superuser.execute("VACUUM ANALYZE")
    return Place(_make_caller(organization, tasks), SOURCES * PER_SOURCE)


def _make_tasks(
    database: str, organization: Organization, space: int, blob: UUID
) -> list[load.SourceTask]:
    url = servers.database_url(database, role=SUPERUSER_ROLE)
    passages = SOURCES * PER_SOURCE
    sources = [
        factories.make_source(organization, passage_count=PER_SOURCE) for _ in range(SOURCES)
    ]
    with psycopg.connect(url, autocommit=True) as superuser:
        row = superuser.execute("SELECT nextval('kaizen_key_seq')").fetchone()
        first = row[0] if row else 0
        last = first + passages + passages // PER_DOCUMENT + 1
        superuser.execute("SELECT setval('kaizen_key_seq', %s)", [last])
    tasks = []
    for number, source in enumerate(sources):
        source.refresh_from_db()
        tasks.append(
            load.SourceTask(
                url=url,
                world_size=passages,
                number=number,
                organization_id=organization.pk,
                organization_key=organization.key,
                space_key=space,
                blob_id=blob,
                source_id=source.pk,
                source_key=source.key,
                passages=PER_SOURCE,
                first_document=first + number * PER_SOURCE // PER_DOCUMENT,
                first_chunk=first + passages // PER_DOCUMENT + number * PER_SOURCE,
            )
        )
    return tasks


def _make_caller(organization: Organization, tasks: list[load.SourceTask]) -> Authority:
    """Ten grants a group: every second on a source, the others on documents."""
    member = factories.make_member(organization)
    grants, dice = rights.Grants(organization), np.random.default_rng(SEED)
    for _ in range(GROUPS):
        team = rights.make_team(organization, member)
        for _ in range(GRANTS // GROUPS // 2):
            task = tasks[int(dice.integers(0, len(tasks)))]
            document = task.first_document + int(dice.integers(0, task.documents))
            grants.give(team.pk, is_user=False, model=Source, keys=[task.source_key])
            grants.give(team.pk, is_user=False, model=Document, keys=[document])
    grants.write()
    return factories.authority_of(member)


class Asker:
    """Asks made-up questions; each is answered or counted as an error."""

    def __init__(self, place: Place, seed: int) -> None:
        self._place = place
        self._dice = np.random.default_rng(seed)
        self._words, _ = vocabulary()
        self._topics = topics(place.size)
        self._embedder = GivenVector()

    def ask(self) -> int:
        """One search; returns how many hits."""
        topic = self._topics[int(self._dice.integers(0, len(self._topics)))]
        self._embedder.vector = unit(topic + 0.8 * noise(self._dice))
        ranks = self._dice.integers(50, 5_000, 3)
        words = " ".join(self._words[rank] for rank in ranks.tolist())
        return len(search(self._place.authority, query=words, embedder=self._embedder).hits)


@pytest.mark.soak
def test_a_search_takes_few_queries(place: Place) -> None:
    asker = Asker(place, SEED)
    asker.ask()
    for _ in range(10):
        with CaptureQueriesContext(connection) as queries:
            assert asker.ask() == 10
        assert len(queries) <= MOST_QUERIES, [query["sql"][:80] for query in queries]


@pytest.mark.soak
def test_twenty_searches_a_second_are_held(place: Place) -> None:
    """A search's time counts from when it was due, so that waiting for others counts too."""
    warm = Asker(place, SEED)
    for _ in range(_WARM_UP):
        warm.ask()
    times: list[float] = []
    errors: list[BaseException] = []
    start = time.monotonic() + 0.5
    due = iter([start + number / A_SECOND for number in range(round(SECONDS * A_SECOND))])
    turn = threading.Lock()

    def work(seed: int) -> None:
        asker = Asker(place, seed)
        try:
            while True:
                with turn:
                    at = next(due, None)
                if at is None:
                    return
                time.sleep(max(0.0, at - time.monotonic()))
                assert asker.ask() == 10
                times.append(1000 * (time.monotonic() - at))
        except BaseException as error:
            errors.append(error)
            raise
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work, args=(SEED + n,)) for n in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(times) == round(SECONDS * A_SECOND)
    p50, p95, p99 = np.percentile(times, (50, 95, 99))
    report = f"{place.size:,} passages: p50 {p50:.0f}, p95 {p95:.0f}, p99 {p99:.0f} ms"
    if SOAK:  # On a machine that does nothing else; elsewhere a time says nothing.
        assert p95 <= P95_MILLISECONDS, report
