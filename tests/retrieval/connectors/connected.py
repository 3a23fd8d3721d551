"""A connected source for the tests of connectors."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from retrieval.connectors.connections import create_connection, sync_now
from retrieval.connectors.sync import Ended, sync_connection
from retrieval.ingest.store import Ended as Reading
from retrieval.ingest.store import ingest_document
from retrieval.models import Connection, Document, SyncRun
from tests.retrieval.conftest import Library
from tests.retrieval.connectors.upstream import (
    SYSTEMS,
    MirroringConnector,
    Upstream,
    UpstreamConfig,
    UpstreamConnector,
)

_number = itertools.count(1)
BUNDLED = tuple(
    f"{kind.__module__}:{kind.__name__}" for kind in (UpstreamConnector, MirroringConnector)
)


@dataclass
class Connected:
    """A library whose source is connected to a system made for tests."""

    library: Library
    system: Upstream
    connection: Connection

    def sync(self, **more: Any) -> Ended:
        """Sync now, whatever is due."""
        sync_now(self.library.as_owner, connection=self.connection)
        ended = sync_connection(self.connection.pk, **more)
        self.connection.refresh_from_db()
        return ended

    def read_all(self) -> None:
        """Read what waits."""
        for document in self.documents().filter(state=Document.State.WAITING):
            assert ingest_document(document.pk).ended is Reading.INDEXED

    def documents(self) -> Any:
        """The living documents of the source."""
        return Document.objects.filter(source=self.library.source, deleted_at=None)

    def names(self) -> list[str]:
        """Their external ids."""
        return sorted(self.documents().values_list("external_id", flat=True))

    def get(self, name: str) -> Document:
        """One of them."""
        found: Document = self.documents().get(external_id=name)
        return found

    def last_run(self) -> SyncRun:
        """The newest run."""
        run = SyncRun.objects.filter(connection=self.connection).latest("started_at", "pk")
        assert isinstance(run, SyncRun)
        return run

    def counts(self) -> tuple[int, int, int, int, int]:
        """Of the newest run: seen, added, changed, deleted, failed."""
        run = self.last_run()
        return run.seen, run.added, run.changed, run.deleted, run.failed


def connect(library: Library, *, mirrors: bool = False, **system: Any) -> Connected:
    """Connect the library's source to a new system; nothing is synced yet."""
    name = f"system-{next(_number)}"
    SYSTEMS[name] = Upstream(**system)
    kind = MirroringConnector if mirrors else UpstreamConnector
    connection = create_connection(
        library.as_owner,
        source=library.source,
        connector=kind.slug,
        config=UpstreamConfig(system=name),
    )
    return Connected(library, SYSTEMS[name], connection)
