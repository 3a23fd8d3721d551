"""A repository behind a real server, and connectors that read it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from retrieval.connectors.contract import Gone, Item, Page
from retrieval.connectors.git import GitConnector
from retrieval.connectors.git_config import GitConfig
from tests.retrieval.connectors.servers.git_server import GitServer, Repository, serving


@dataclass
class World:
    """One repository behind a server, and connectors that read it."""

    repository: Repository
    server: GitServer
    opened: list[GitConnector] = field(default_factory=list)

    def connect(self, path: str = "/team/wiki.git", **more: Any) -> GitConnector:
        made = GitConnector(GitConfig(url=self.server.base + path, **more))
        self.opened.append(made)
        return made

    def sync(self, checkpoint: str | None = None, **more: Any) -> Synced:
        """One whole reading by a connector of its own."""
        connector = self.connect(**more)
        pages = list(connector.list_changes(checkpoint))
        connector.close()
        return Synced(pages)


@dataclass
class Synced:
    pages: list[Page]

    @property
    def checkpoint(self) -> str:
        return self.pages[-1].checkpoint

    @property
    def items(self) -> dict[str, Item]:
        return {item.external_id: item for item in self._changes if isinstance(item, Item)}

    @property
    def gone(self) -> list[str]:
        return [change.external_id for change in self._changes if isinstance(change, Gone)]

    @property
    def _changes(self) -> list[Item | Gone]:
        return [change for page in self.pages for change in page.changes]


@contextmanager
def git_world(folder: Path, settings: Any) -> Iterator[World]:
    """A world whose server may be reached, with a home of its own."""
    repository = Repository(folder / "origin")
    settings.KAIZEN_HOME = folder / "home"
    with serving({"/team/wiki.git": repository}) as server:
        settings.EGRESS_ALLOW = (f"127.0.0.1:{server.port}",)
        world = World(repository, server)
        yield world
        for connector in world.opened:
            connector.close()
    repository.close()
