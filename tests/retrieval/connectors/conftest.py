"""Fixtures of the tests of connectors: the catalog also has those made for tests."""

from __future__ import annotations

import pytest

from retrieval.connectors import catalog
from tests.retrieval.conftest import Library
from tests.retrieval.connectors.connected import BUNDLED, Connected, connect


@pytest.fixture
def with_test_connectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two connectors that read a system made for tests stand among the bundled ones."""
    monkeypatch.setattr(catalog, "BUNDLED", (*catalog.BUNDLED, *BUNDLED))


@pytest.fixture
def connected(with_test_connectors: None, library: Library) -> Connected:
    """A source connected to a system that lists what it has."""
    return connect(library)


@pytest.fixture
def mirrored(with_test_connectors: None, library: Library) -> Connected:
    """The same, with a connector that mirrors rights."""
    return connect(library, mirrors=True)
