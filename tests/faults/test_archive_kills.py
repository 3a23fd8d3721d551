"""kill -9 while an archive is unpacked, twice: no entry is lost, none comes twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta

import pytest

from kaizen.kernel.clock import now
from retrieval.archives import expand_document
from retrieval.documents import upload
from retrieval.jobs import find_lost
from retrieval.models import Document, DocumentVersion
from retrieval.parts import parts_of
from tests import servers
from tests.retrieval.conftest import make_library
from tests.retrieval.ingest import archives

pytestmark = pytest.mark.faults
FILES = {f"folder/{number}.txt": f"Text number {number}.".encode() for number in range(12)}
# Stores as the product does, but slowly enough to be killed in between.
WORKER = """
import django, sys, time, uuid
django.setup()
from retrieval import archives
store = archives._store
def slowly(claim, entry):
    time.sleep(0.2)
    return store(claim, entry)
archives._store = slowly
archives.expand_document(uuid.UUID(sys.argv[1]))
"""


def test_an_archive_survives_two_killed_workers(committed_db: str) -> None:
    library = make_library()
    archive = upload(
        library.as_owner,
        source=library.source,
        file_name="a.zip",
        data=archives.zipped(FILES),
        start=False,
    )
    for least in (2, 5):
        kill_once(committed_db, archive, least=least)
        # As long ago as it takes until a silent worker is given up.
        Document.objects.filter(pk=archive.pk).update(state_at=now() - timedelta(seconds=121))
        assert archive.pk in find_lost()
    assert expand_document(archive.pk) == "expanded"
    parts = parts_of(archive)
    assert sorted(part.path for part in parts) == sorted(f"a.zip/{path}" for path in FILES)
    assert DocumentVersion.objects.filter(document__in=parts).count() == len(FILES)


def kill_once(database: str, archive: Document, *, least: int) -> None:
    """Let a worker make `least` parts, and kill it before it is done."""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "kaizen.settings",
        "DATABASE_URL": servers.database_url(database),
    }
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(archive.pk)], cwd=servers.ROOT, env=environment
    )
    until = time.monotonic() + 60
    while parts_of(archive).count() < least and time.monotonic() < until:
        time.sleep(0.02)
    worker.send_signal(signal.SIGKILL)
    assert worker.wait(10) == -signal.SIGKILL
    assert least <= parts_of(archive).count() < len(FILES)
