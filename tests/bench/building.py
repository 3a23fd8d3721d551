"""The stages of a build: the frame (organisations, projects, sources), the passages, the rights,
the postings, the graphs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import numpy as np
from django.db import connection, connections, transaction

from accounts.models import Organization, Project
from kaizen.embedded.environment import OWNER_ROLE, SUPERUSER_ROLE
from retrieval import partitions, postings
from retrieval.models import Blob, EmbeddingSpace
from tests import factories
from tests.bench import load, rights
from tests.bench.server import BenchServer, say
from tests.bench.shape import (
    BUILD_SEED,
    DIMENSION,
    PER_DOCUMENT,
    SOURCES_PER_PROJECT,
    SPACE_DIGEST,
    SPACE_MODEL,
    TEXT_CONFIG,
    OrganizationShape,
    measured,
    shape_world,
)
from tests.bench.world import DATABASE, WORKERS, Stages

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
# Filled row by row it would take longer than everything else, and it is empty in the end.
_SLOW_INDEX = "retrieval_lexeme_words"
_IN_PROJECTS = 0.8


@dataclass(frozen=True)
class Frame:
    """What was made first, and the keys that follow: kept in frame.json."""

    organizations: list[dict[str, Any]]
    sources: list[dict[str, Any]]

    def sources_of(self, number: int) -> list[dict[str, Any]]:
        """The sources of one organisation."""
        return [row for row in self.sources if row["organization"] == number]


def run(server: BenchServer, folder: Path, stages: Stages, *, size: int, map_over: Map) -> None:
    """Do what is not done yet."""
    shapes = shape_world(size)
    stages.run("frame", lambda: _make_frame(server, folder, shapes))
    frame = Frame(**json.loads((folder / "frame.json").read_text()))
    stages.run("partitions", lambda: _make_partitions(server, folder, shapes, frame))
    stages.run("load", lambda: _load(server, frame, size, map_over))
    stages.run("rights", lambda: _make_rights(folder, shapes, frame))
    stages.run("fold", lambda: _fold(frame, map_over))
    stages.run("graphs", lambda: _build_graphs(server))
    stages.run("finish", lambda: _finish(server, folder))
    callers = json.loads((folder / "callers.json").read_text())
    rows = {}
    for name, shape in measured(shapes).items():
        row = frame.organizations[shape.number]
        fields = ("id", "key", "slug", "space_key")
        rows[name] = {field: row[field] for field in fields} | {
            "passages": shape.passages,
            "callers": callers[name],
        }
    (folder / "world.json").write_text(json.dumps({"organizations": rows, "stages": stages.done}))


def _make_frame(server: BenchServer, folder: Path, shapes: list[OrganizationShape]) -> None:
    dice = np.random.default_rng(BUILD_SEED + 2)
    organizations, sources = [], []
    with transaction.atomic():
        for shape in shapes:
            organization = factories.make_organization(f"bench-{shape.number}")
            organization.refresh_from_db()
            space = EmbeddingSpace.objects.create(
                organization=organization,
                model=SPACE_MODEL,
                digest=SPACE_DIGEST,
                dimension=DIMENSION,
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
            organizations.append(
                {
                    "id": str(organization.pk),
                    "key": organization.key,
                    "slug": organization.slug,
                    "space_key": space.key,
                    "blob": str(blob.pk),
                }
            )
            sources += _make_sources(organization, shape, dice)
        _reserve_keys(server, sources)
    frame = {"organizations": organizations, "sources": sources}
    (folder / "frame.json").write_text(json.dumps(frame))


def _make_sources(
    organization: Organization, shape: OrganizationShape, dice: np.random.Generator
) -> list[dict[str, Any]]:
    rows = []
    project: Project | None = None
    for at, passages in enumerate(shape.sources):
        if at % SOURCES_PER_PROJECT == 0:
            project = factories.make_project(organization)
            project.refresh_from_db()
        own = project if dice.random() < _IN_PROJECTS else None
        source = factories.make_source(organization, project=own, passage_count=passages)
        source.refresh_from_db()
        rows.append(
            {
                "organization": shape.number,
                "id": str(source.pk),
                "key": source.key,
                "project": None if own is None else own.key,
                "passages": passages,
            }
        )
    return rows


def _reserve_keys(server: BenchServer, sources: list[dict[str, Any]]) -> None:
    """Give every source the keys of its documents and passages, and take them off the sequence."""
    passages = sum(row["passages"] for row in sources)
    with server.connect(DATABASE, role=SUPERUSER_ROLE) as superuser:
        found = superuser.execute("SELECT nextval('kaizen_key_seq')").fetchone()
        document = found[0] if found else 0
        chunk = document + passages // PER_DOCUMENT
        superuser.execute("SELECT setval('kaizen_key_seq', %s)", [chunk + passages + 1])
    for row in sources:
        row["first_document"], row["first_chunk"] = document, chunk
        document += row["passages"] // PER_DOCUMENT
        chunk += row["passages"]


def _make_partitions(
    server: BenchServer, folder: Path, shapes: list[OrganizationShape], frame: Frame
) -> None:
    """The product's own move, before there is anything to move."""
    with server.connect(DATABASE, role=OWNER_ROLE) as owner:
        for shape, row in zip(shapes, frame.organizations, strict=True):
            if shape.passages > partitions.SPLIT_AT:
                partitions._move(owner, row["key"])
        definition = owner.execute(
            "SELECT indexdef FROM pg_indexes WHERE indexname = %s", [_SLOW_INDEX]
        ).fetchone()
        if definition is not None:
            (folder / "index.sql").write_text(definition[0].replace(" ON ONLY ", " ON "))
            owner.execute(f"DROP INDEX {_SLOW_INDEX}")


def _load(server: BenchServer, frame: Frame, size: int, map_over: Map) -> None:
    url = server.url(DATABASE, role=SUPERUSER_ROLE)
    tasks = []
    for number, row in enumerate(frame.sources):
        organization = frame.organizations[row["organization"]]
        tasks.append(
            load.SourceTask(
                url=url,
                world_size=size,
                number=number,
                organization_id=UUID(organization["id"]),
                organization_key=organization["key"],
                space_key=organization["space_key"],
                blob_id=UUID(organization["blob"]),
                source_id=UUID(row["id"]),
                source_key=row["key"],
                passages=row["passages"],
                first_document=row["first_document"],
                first_chunk=row["first_chunk"],
            )
        )
    _count_up(map_over(load.load_source, tasks), "passages")
    with server.connect(DATABASE, role=SUPERUSER_ROLE) as superuser:
        superuser.execute("ANALYZE")


def _make_rights(folder: Path, shapes: list[OrganizationShape], frame: Frame) -> None:
    dice = np.random.default_rng(BUILD_SEED + 3)
    names = {shape.number: name for name, shape in measured(shapes).items()}
    callers = {}
    with transaction.atomic():
        for shape in shapes:
            organization = Organization.objects.get(pk=frame.organizations[shape.number]["id"])
            places = [
                rights.Place(
                    row["key"],
                    row["project"],
                    range(
                        row["first_document"],
                        row["first_document"] + row["passages"] // PER_DOCUMENT,
                    ),
                )
                for row in frame.sources_of(shape.number)
            ]
            rights.populate(organization, shape, places, dice)
            if shape.number in names:
                callers[names[shape.number]] = rights.make_callers(organization, places, dice)
    (folder / "callers.json").write_text(json.dumps(callers))


def _fold(frame: Frame, map_over: Map) -> None:
    """The product's own upkeep of postings; the largest organisations first."""
    keys = [row["key"] for row in frame.organizations]
    _count_up(map_over(postings.fold_organization, keys), "passages folded")


def _build_graphs(server: BenchServer) -> None:
    with server.connect(DATABASE, role=OWNER_ROLE) as owner:
        owner.execute(f"SET max_parallel_maintenance_workers = {WORKERS}")
        partitions.split_grown(owner)


def _finish(server: BenchServer, folder: Path) -> None:
    connections.close_all()
    with server.connect(DATABASE, role=OWNER_ROLE) as owner:
        found = owner.execute("SELECT to_regclass(%s)", [_SLOW_INDEX]).fetchone()
        if found is None or found[0] is None:
            owner.execute((folder / "index.sql").read_text())
    with server.connect(DATABASE, role=SUPERUSER_ROLE) as superuser:
        superuser.execute("VACUUM ANALYZE")
        superuser.execute("CHECKPOINT")


def _count_up(counts: Iterable[int], what: str) -> None:
    total, told = 0, 0
    for count in counts:
        total += count
        if total - told >= 100_000:
            told = total
            say(f"  {total:,} {what}")
    say(f"  {total:,} {what}")
