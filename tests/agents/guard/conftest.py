"""What the tests of the guard share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from agents.guard import registry
from agents.providers.clients import close_clients
from tests.agents.guard.callers import KEY, Caller, build_caller
from tests.agents.guard.notes import Notes
from tests.providers.server import ModelServer


@pytest.fixture
def notes() -> Iterator[Notes]:
    """Further tools, as an app that is installed would offer them."""
    notes = Notes()
    known = registry.tools()
    known.update(notes.tools)
    yield notes
    registry.tools.cache_clear()


@pytest.fixture
async def server(committed_db: str) -> AsyncIterator[ModelServer]:
    """A model server that accepts one key."""
    async with ModelServer(keys=frozenset({KEY})) as running:
        yield running
        await close_clients()


@pytest.fixture
async def call(server: ModelServer) -> Caller:
    """A run that is ready to call its model."""
    return await build_caller(server)
