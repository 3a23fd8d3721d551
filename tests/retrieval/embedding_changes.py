"""Changes of the embedding model as tests make them: documents, a model at the vector server, turns
of a worker.
"""

from __future__ import annotations

import threading
from typing import Any

from django.db import connections

from retrieval.models import Document, EmbeddingSpace
from retrieval.search import Mode, search
from retrieval.spaces.build import Built, build_space
from retrieval.spaces.changes import Estimate, start_change
from tests.providers.vectors import VectorServer
from tests.retrieval.conftest import Library
from tests.retrieval.test_embedders import model_of

NOTHING = Estimate(passages=0, texts=0, tokens=0, seconds=0, cost=0)
BUILDING, ACTIVE, RETIRED = EmbeddingSpace.State.values


def fill(library: Library, pages: int = 5) -> list[Document]:
    """Documents of one passage each."""
    return [
        library.add(f"# Page {at}\n\nThe page of thing{at} and its keeper.", f"page{at}.md")
        for at in range(pages)
    ]


def begin(library: Library, server: VectorServer, **more: Any) -> EmbeddingSpace:
    """A change to a model at the server."""
    return start_change(library.as_owner, model=model_of(library, server, **more), estimate=NOTHING)


def build(space: EmbeddingSpace, seconds: float = 60.0) -> Built:
    """One worker's turn."""
    return build_space(space.pk, seconds=seconds)


def found(library: Library, query: str = "thing3", mode: Mode = Mode.SEMANTIC) -> str:
    """The first hit's title."""
    result = search(library.as_owner, query=query, mode=mode)
    assert (result.degraded, result.mode) == ("", mode)
    return result.hits[0].title


def state_of(space: EmbeddingSpace) -> str:
    space.refresh_from_db()
    return space.state


def at_once(*acts: Any) -> list[Any]:
    """Run `acts` on threads; their results."""
    results: list[Any] = [None] * len(acts)

    def run(at: int) -> None:
        try:
            results[at] = acts[at]()
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
