"""What goes on beside a change of grants: searches, and documents that come and go."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import numpy as np
from django.db import transaction

from accounts.models import Organization
from retrieval.ingest.chunk import Passage
from retrieval.ingest.contract import Parsed
from retrieval.ingest.index import Ready, remove_passages, replace_passages
from retrieval.models import Blob, Document, DocumentVersion, Source
from tests import factories
from tests.bench.clients import Statement
from tests.bench.material import noise, unit
from tests.bench.statements import GivenVector
from tests.bench.timing import execute


def reader(jobs: list[Statement]) -> Callable[[], Any]:
    """Asks one question after another."""
    turn = itertools.cycle(jobs)
    return lambda: execute(next(turn))


def writer(organization_id: str) -> Callable[[], Any]:
    """Puts a document of five passages into the live index, takes it out at the next call."""
    organization = Organization.objects.get(pk=UUID(organization_id))
    source = Source.objects.filter(organization=organization, name="bench-writes").first()
    source = source or factories.make_source(organization, name="bench-writes")
    blob = Blob.objects.create(
        organization=organization, digest=uuid4().hex * 2, size=1, storage_name="none"
    )
    document = Document.objects.create(
        organization=organization,
        source=source,
        title="Written",
        file_name="w.md",
        external_id=uuid4().hex,
        state=Document.State.INDEXED,
    )
    document.refresh_from_db()
    version = DocumentVersion.objects.create(
        organization=organization, document=document, number=1, blob=blob, file_name="w.md"
    )
    dice, turn = np.random.default_rng(), itertools.count()

    def write() -> None:
        with transaction.atomic():
            if next(turn) % 2:
                remove_passages(document)
                version.chunks.all().delete()
                document.passage_count = 0
            else:
                passages = [
                    Passage(n, f"a written passage {n}", (), None, "paragraph", 5) for n in range(5)
                ]
                replace_passages(
                    document,
                    Ready(
                        version_id=version.pk,
                        title="Written",
                        parsed=Parsed("Written", "xx", (), None, "text/markdown"),
                        passages=passages,
                        vectors=unit(noise(dice, len(passages))),
                        embedder=GivenVector(),
                    ),
                )
                document.passage_count = len(passages)
            document.save(update_fields=["passage_count"])

    return write
