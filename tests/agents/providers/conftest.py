"""What the provider tests share: a model server each, and the three adapters pointed at it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agents.providers.clients import close_clients
from tests.agents.providers.calls import KEY, KINDS, Target
from tests.providers.server import ModelServer


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    """A model server that accepts one key; every script must be used, no history refused."""
    async with ModelServer(keys=frozenset({KEY})) as running:
        yield running
        await close_clients()


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, server: ModelServer) -> Target:
    """Each adapter in turn."""
    return Target(kind=request.param, server=server)
