"""K29: changing the embedding model breaks neither inserts nor searches; no query mixes sizes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections
from django.db.models import F
from django.test import Client

from accounts.permissions import Verb
from kaizen.kernel.errors import Invalid
from retrieval.embedders.choice import digest_of
from retrieval.models import EmbeddingModel, EmbeddingSpace
from retrieval.spaces.build import GRACE, Built, build_space, empty_space
from retrieval.spaces.changes import count_vectors, estimate_change, start_change
from tests import factories
from tests.providers.vectors import VectorServer, serve_vectors
from tests.retrieval.conftest import Library, make_library

DOCUMENTS = 20
SEARCHERS = 3
ADDED = 3


@pytest.fixture
def servers(settings: Any) -> Iterator[tuple[VectorServer, VectorServer]]:
    """Two providers: one of 1,536 numbers, one of 768."""
    with serve_vectors() as old, serve_vectors() as new:
        settings.EGRESS_ALLOW = (old.allowed, new.allowed)
        old.size, new.size, new.seed = 1_536, 768, 2
        yield old, new


@pytest.fixture
def library(committed_db: str) -> Library:
    """A library whose member may read its source."""
    made = make_library()
    factories.grant(made.member, Verb.VIEW, made.source)
    return made


def add_model(library: Library, server: VectorServer, name: str, **more: Any) -> EmbeddingModel:
    model = EmbeddingModel(
        organization=library.organization,
        label=name,
        kind="compatible",
        name=name,
        base_url=server.url,
        **more,
    )
    model.digest = digest_of(model)
    model.save()
    return model


def change_to(library: Library, model: EmbeddingModel) -> EmbeddingSpace:
    said = estimate_change(library.as_owner, model=model)
    return start_change(library.as_owner, model=model, estimate=said)


class Searchers:
    """Members who search without a pause, over the API, and note every answer."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.answers: list[tuple[int, str, str, str]] = []
        self.failures: list[BaseException] = []
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._search, args=(at,)) for at in range(SEARCHERS)
        ]

    def __enter__(self) -> Searchers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, more: int) -> None:
        """Until so many more answers came."""
        wanted = len(self.answers) + more
        while len(self.answers) < wanted:
            assert not self.failures
            threading.Event().wait(0.05)

    def _search(self, at: int) -> None:
        client = Client()
        client.force_login(self.library.member.user)
        address = f"/o/{self.library.organization.slug}/api/v1/search/"
        number = at
        try:
            while not self._ended.is_set():
                number = (number + 7) % DOCUMENTS
                answer = client.get(address, {"q": f"keeper of thing{number}"})
                body = answer.json()
                title = body["results"][0]["title"] if body.get("results") else ""
                right = "right" if title == f"Page {number}" else f"{title} for {number}"
                self.answers.append(
                    (answer.status_code, body.get("mode", ""), body.get("degraded", ""), right)
                )
        except BaseException as error:
            self.failures.append(error)
            raise
        finally:
            connections.close_all()


def test_K29_members_always_get_the_right_answer_while_the_model_changes(
    library: Library, servers: tuple[VectorServer, VectorServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = servers
    monkeypatch.setattr("retrieval.spaces.build.SLICE", 4)
    monkeypatch.setattr("retrieval.spaces.build.REMOVED_AT_ONCE", 6)
    for at in range(DOCUMENTS):
        library.add(f"# Page {at}\n\nThe page of thing{at} and its keeper.", f"page{at}.md")
    first = change_to(library, add_model(library, old, "embed-1536"))
    assert build_space(first.pk, seconds=60) is Built.SWITCHED

    new.delay = 0.1
    with Searchers(library) as searchers:
        second = change_to(library, add_model(library, new, "embed-768"))
        # Documents are added and replaced meanwhile.
        slices = 0
        while build_space(second.pk, seconds=0.0) is Built.MORE:
            slices += 1
            if slices <= ADDED:
                library.add(f"# More {slices}\n\nAdded meanwhile.", f"more{slices}.md")
        second.refresh_from_db()
        seen_at_the_switch = len(searchers.answers)
        # Every search that had begun before the switch has ended.
        searchers.wait_for(2 * SEARCHERS)
        EmbeddingSpace.objects.filter(pk=first.pk).update(retired_at=F("retired_at") - GRACE)
        while empty_space(first.pk):
            pass
        searchers.wait_for(30)

    assert second.state == EmbeddingSpace.State.ACTIVE
    assert searchers.failures == []
    assert seen_at_the_switch > 20
    assert Counter(searchers.answers) == {(200, "hybrid", "", "right"): len(searchers.answers)}
    assert (count_vectors(first), count_vectors(second)) == (0, DOCUMENTS + ADDED)
    queries = {text for text in new.texts if text.startswith("keeper of")}
    assert queries
    assert {len(asked.json.get("input", [])) for asked in new.requests} <= {1, 2, 3, 4, 16}
    assert {asked.json["dimensions"] for asked in (*old.requests, *new.requests)} == {384}


def test_K29_a_model_of_another_size_is_refused_with_the_reason_and_nothing_changes(
    library: Library, servers: tuple[VectorServer, VectorServer]
) -> None:
    _, new = servers
    library.add("# Page 0\n\nThe page of thing0 and its keeper.", "page0.md")
    model = add_model(library, new, "embed-768", sizing="own", dimension=768)
    with pytest.raises(Invalid) as refused:
        change_to(library, model)
    assert refused.value.message == (
        "The model answers with vectors of 768 numbers, and this deployment's index holds 384. "
        "Choose a model of that size, one that can be asked for it, or one that was trained to be "
        "cut."
    )
    assert EmbeddingSpace.objects.get().model == "all-MiniLM-L6-v2-int8"
    assert new.requests == []
    with Searchers(library) as searchers:
        searchers.wait_for(10)
    assert {answer[:3] for answer in searchers.answers} == {(200, "hybrid", "")}
