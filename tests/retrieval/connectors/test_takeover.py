"""Two workers and one connection: the second waits, takes over when the first dies, and a first one
that comes back writes nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models import Count

from kaizen.kernel.clock import ClockTimestamp
from retrieval.connectors import leases, outcome
from retrieval.connectors.connections import create_connection
from retrieval.connectors.folder import FolderConfig
from retrieval.connectors.jobs import find_due
from retrieval.connectors.leases import LeaseLost, hold
from retrieval.connectors.sync import Ended, sync_connection
from retrieval.models import Connection, Document, DocumentVersion, SyncRun
from tests import servers
from tests.retrieval.conftest import Library, make_library
from tests.retrieval.connectors.connected import Connected
from tests.stack import Stack

FILES = 30
LEASE_SECONDS = 2.0


@pytest.fixture
def files(tmp_path: Path, settings: Any) -> Path:
    settings.KAIZEN_FOLDER_ROOTS = (str(tmp_path),)
    settings.KAIZEN_LEASE_SECONDS = LEASE_SECONDS
    for number in range(FILES):
        (tmp_path / f"{number:02}.md").write_text(f"# {number}\n\nThe text of {number}.\n")
    return tmp_path


@pytest.fixture
def connection(committed_db: str, files: Path) -> Connection:
    library = make_library()
    # Ten files a second: slow enough to be killed in the middle.
    return create_connection(
        library.as_owner,
        source=library.source,
        connector="folder",
        config=FolderConfig(folder=str(files)),
        requests_a_minute=600,
    )


@contextmanager
def worker(connection: Connection, database: str, files: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that syncs the connection."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.retrieval.connectors.syncing", str(connection.pk)],
        cwd=servers.ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "kaizen.settings",
            "DATABASE_URL": servers.database_url(database),
            "KAIZEN_LEASE_SECONDS": str(LEASE_SECONDS),
            "KAIZEN_FOLDER_ROOTS": str(files),
        },
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(condition: Callable[[], bool], *, seconds: float = 40.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


def stored() -> int:
    return Document.objects.filter(deleted_at=None).count()


def make_free(connection: Connection) -> None:
    """Wait until the lease has lapsed."""
    wait_for(
        lambda: Connection.objects.filter(
            pk=connection.pk, lease_until__lte=ClockTimestamp()
        ).exists()
    )


def test_a_killed_sync_is_taken_over_from_its_last_page(
    connection: Connection, committed_db: str, files: Path
) -> None:
    with worker(connection, committed_db, files) as process:
        wait_for(lambda: stored() >= 12)
        assert sync_connection(connection.pk) is Ended.NOTHING
        process.send_signal(signal.SIGKILL)
        process.wait()
    made = stored()
    assert 12 <= made < FILES
    assert find_due() == []
    make_free(connection)
    assert find_due() == [connection.pk]
    connection.refresh_from_db()
    assert connection.checkpoint != ""
    assert sync_connection(connection.pk) is Ended.SUCCEEDED
    assert stored() == FILES
    versions = DocumentVersion.objects.values("document").annotate(n=Count("pk"))
    assert {row["n"] for row in versions} == {1}
    runs = SyncRun.objects.order_by("started_at")
    assert [run.state for run in runs] == [SyncRun.State.LOST, SyncRun.State.SUCCEEDED]
    assert sum(run.added for run in runs) == FILES
    # Whole pages of the first worker aren't read again.
    assert runs[1].seen <= FILES - 10


def test_signs_of_life_keep_a_slow_sync_from_being_taken_over(
    connection: Connection, committed_db: str, files: Path
) -> None:
    with worker(connection, committed_db, files) as process:
        wait_for(lambda: stored() >= 1)
        time.sleep(LEASE_SECONDS + 0.5)
        assert sync_connection(connection.pk) is Ended.NOTHING
        assert process.wait(30) == 0
    assert stored() == FILES
    assert SyncRun.objects.get().state == SyncRun.State.SUCCEEDED


@pytest.mark.faults
def test_the_products_own_workers_bring_a_connected_folder_in(
    committed_db: str, files: Path
) -> None:
    """Beat finds it due, a worker syncs it, is killed, and another brings in the rest."""
    library = make_library()
    with Stack(committed_db, lease_seconds=LEASE_SECONDS, KAIZEN_FOLDER_ROOTS=str(files)) as stack:
        connection = create_connection(
            library.as_owner,
            source=library.source,
            connector="folder",
            config=FolderConfig(folder=str(files)),
            requests_a_minute=600,
        )
        stack.start("worker", "beat")
        stack.wait_for(lambda: stored() >= 5, what="the first documents")
        stack.kill("worker")
        stack.start("worker")
        indexed = Document.objects.filter(state=Document.State.INDEXED, deleted_at=None)
        stack.wait_for(lambda: indexed.count() == FILES, what="all documents", seconds=120)
        stack.wait_for(
            lambda: Connection.objects.filter(
                pk=connection.pk, last_success_at__isnull=False
            ).exists(),
            what="the end of the sync",
        )
    assert stored() == FILES
    assert DocumentVersion.objects.count() == FILES


@pytest.mark.django_db
def test_a_worker_whose_lease_was_taken_writes_nothing(connected: Connected) -> None:
    connected.system.put("a")
    first = leases.claim(connected.connection.pk)
    assert first is not None
    expire(connected.connection)
    second = leases.claim(connected.connection.pk)
    assert second is not None
    assert (second.attempt, second.taken_over) == (first.attempt + 1, True)
    with pytest.raises(LeaseLost), hold(first):
        pass
    with pytest.raises(LeaseLost):
        leases.check_wanted(first)
    leases.release(first, state=Connection.State.PAUSED)
    connected.connection.refresh_from_db()
    assert connected.connection.state == Connection.State.ACTIVE
    assert connected.connection.lease_until is not None


@pytest.mark.django_db
def test_a_lapsed_lease_is_no_lease_though_nobody_took_it(connected: Connected) -> None:
    lease = leases.claim(connected.connection.pk)
    assert lease is not None
    expire(connected.connection)
    with pytest.raises(LeaseLost), hold(lease):
        pass


@pytest.mark.django_db
def test_a_sync_that_kills_its_worker_again_and_again_is_left_alone(connected: Connected) -> None:
    connected.system.put("a")
    for _ in range(outcome.MOST_LOST):
        lease = leases.claim(connected.connection.pk)
        assert lease is not None
        with hold(lease) as held:
            outcome.begin(held, lease)
        expire(connected.connection)
    assert sync_connection(connected.connection.pk) is Ended.FAILED
    connected.connection.refresh_from_db()
    assert connected.connection.last_error == "The sync was broken off 3 times in a row."
    assert connected.system.fetched == []


def expire(connection: Connection) -> None:
    """As if the worker had fallen silent long ago."""
    Connection.objects.filter(pk=connection.pk).update(
        lease_until=ClockTimestamp() - timedelta(seconds=1)
    )


@pytest.mark.django_db
def test_a_library_without_connections_has_nothing_due(library: Library) -> None:
    assert find_due() == []
