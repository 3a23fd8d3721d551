"""kill -9 of a worker that builds an embedding space: it goes on where it was, and pays once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from retrieval.models import EmbeddingSpace
from retrieval.spaces.build import Built, build_space
from retrieval.spaces.changes import count_vectors
from tests import servers
from tests.providers.vectors import VectorServer, serve_vectors
from tests.retrieval.conftest import make_library
from tests.retrieval.embedding_changes import begin, fill, found

pytestmark = pytest.mark.faults
SLICE = 2
WORKER = f"""
import django, sys, uuid
django.setup()
from retrieval.spaces import build as space_build
space_build.SLICE = {SLICE}
space_build.build_space(uuid.UUID(sys.argv[1]), seconds=60)
"""


@pytest.fixture
def server(settings: Any) -> Iterator[VectorServer]:
    """A provider that this installation may reach."""
    with serve_vectors() as running:
        settings.EGRESS_ALLOW = (running.allowed,)
        yield running


def test_a_killed_worker_loses_one_slice_at_most(
    committed_db: str, server: VectorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.spaces.build.SLICE", SLICE)
    library = make_library()
    fill(library, 10)
    space = begin(library, server)
    server.delay = 0.4
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "KAIZEN_TEST_DATABASE_URL": servers.database_url(committed_db),
        "KAIZEN_EGRESS_ALLOW": server.allowed,
        "KAIZEN_LEASE_SECONDS": "1.5",
    }
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(space.pk)], cwd=servers.ROOT, env=environment
    )
    ends = time.monotonic() + 60
    while len(server.requests) < 3 and time.monotonic() < ends:
        threading.Event().wait(0.02)
    worker.send_signal(signal.SIGKILL)
    assert worker.wait(10) == -signal.SIGKILL
    space.refresh_from_db()
    assert (space.state, count_vectors(space)) == (EmbeddingSpace.State.BUILDING, space.done)
    assert space.done in (4, 6)
    assert found(library) == "Page 3"
    assert build_space(space.pk, seconds=60) is Built.NOTHING
    threading.Event().wait(1.6)
    server.delay = 0.0
    assert build_space(space.pk, seconds=60) is Built.SWITCHED
    assert (count_vectors(space), len(server.texts)) == (10, 10)
    assert sum(server.texts.values()) <= 10 + SLICE
    assert found(library) == "Page 3"
