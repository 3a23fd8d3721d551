"""Changing the embedding model when something goes wrong or happens at once: failures, cancelling,
several workers, documents read meanwhile, and what becomes of the old space.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from kaizen.kernel.clock import now
from kaizen.kernel.errors import Conflict
from retrieval.documents import upload
from retrieval.embedders.choice import embedder_for
from retrieval.embedders.jobs import build as build_job
from retrieval.embedders.jobs import empty as empty_job
from retrieval.embedders.jobs import find_unbuilt, find_unemptied
from retrieval.embedders.local import local_embedder
from retrieval.ingest.store import Ended, ingest_document
from retrieval.models import Chunk, Document, EmbeddingSpace
from retrieval.search import Mode, search
from retrieval.spaces.active import SpaceChanged, find_active_space, hold_active_space
from retrieval.spaces.build import GRACE, Built, build_space, empty_space
from retrieval.spaces.changes import (
    cancel_change,
    count_vectors,
    retry_now,
)
from tests.providers.vectors import Failure, VectorServer, serve_vectors
from tests.retrieval.conftest import Library, make_library
from tests.retrieval.embedding_changes import (
    ACTIVE,
    BUILDING,
    RETIRED,
    at_once,
    begin,
    build,
    fill,
    found,
    state_of,
)


@pytest.fixture
def server(settings: Any) -> Iterator[VectorServer]:
    """A provider that this installation may reach."""
    with serve_vectors() as running:
        settings.EGRESS_ALLOW = (running.allowed,)
        yield running


@pytest.fixture
def committed(committed_db: str) -> Library:
    """A library in a database of its own, for workers on threads."""
    return make_library()


@pytest.mark.django_db
def test_a_busy_provider_is_asked_again_later_and_says_why(
    library: Library, server: VectorServer
) -> None:
    fill(library, 2)
    space = begin(library, server)
    server.failures.append(Failure(status=429, headers={"retry-after": "900"}))
    assert build(space) is Built.WAITING
    state_of(space)
    assert space.retry_at is not None
    assert (space.failures, space.last_error) == (1, "The provider is busy (status 429).")
    assert timedelta(minutes=14) < space.retry_at - now() < timedelta(minutes=16)
    assert build(space) is Built.NOTHING
    assert found(library) == "Page 1"
    retry_now(library.as_owner, space=space)
    assert build(space) is Built.SWITCHED
    state_of(space)
    assert (space.failures, space.last_error) == (0, "")


@pytest.mark.django_db
def test_a_cancelled_change_writes_nothing_more_and_is_removed(
    library: Library, server: VectorServer
) -> None:
    fill(library)
    space = begin(library, server)
    build(space, seconds=0.0)
    cancel_change(library.as_owner, space=space)
    assert build(space) is Built.NOTHING
    assert (state_of(space), count_vectors(space)) == (RETIRED, 5)
    assert found(library) == "Page 3"
    with pytest.raises(Conflict):
        cancel_change(library.as_owner, space=space)
    EmbeddingSpace.objects.filter(pk=space.pk).update(retired_at=now() - GRACE)
    assert empty_space(space.pk) is False
    assert count_vectors(space) == 0
    assert begin(library, server, label="Second", name="embed-4").state == BUILDING


@pytest.mark.django_db
def test_old_vectors_stay_for_searches_under_way_and_then_go_in_slices(
    library: Library, server: VectorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.spaces.build.REMOVED_AT_ONCE", 2)
    fill(library)
    old = find_active_space(library.organization.pk)
    assert old is not None
    before = embedder_for(library.organization.pk)
    space = begin(library, server)
    build(space)
    # A search that had its query embedded just before the switch.
    late = search(library.as_owner, query="thing3", mode=Mode.SEMANTIC, embedder=before)
    assert (late.hits[0].title, late.mode) == ("Page 3", Mode.SEMANTIC)
    assert empty_space(old.pk) is False
    assert count_vectors(old) == 5
    EmbeddingSpace.objects.filter(pk=old.pk).update(retired_at=now() - GRACE)
    assert [empty_space(old.pk) for _ in range(4)] == [True, True, False, False]
    assert (count_vectors(old), count_vectors(space)) == (0, 5)
    old.refresh_from_db()
    assert old.emptied_at is not None


@pytest.mark.django_db
def test_vectors_of_one_model_are_refused_by_another_models_space(
    library: Library, server: VectorServer
) -> None:
    fill(library, 1)
    build(begin(library, server))
    with pytest.raises(SpaceChanged):
        hold_active_space(library.organization.pk, local_embedder())


@pytest.mark.django_db
def test_a_document_read_during_the_switch_is_embedded_again(
    library: Library, server: VectorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(library, 1)
    space = begin(library, server)
    document = upload(
        library.as_owner,
        source=library.source,
        file_name="late.md",
        data=b"# Late\n\nThe page of lateness.",
        start=False,
    )
    real = type(local_embedder()).embed_documents

    def slow(self: Any, texts: Any) -> Any:
        vectors = real(self, texts)
        if state_of(space) == BUILDING:
            assert build(space) is Built.SWITCHED
        return vectors

    monkeypatch.setattr("retrieval.embedders.local.LocalEmbedder.embed_documents", slow)
    assert ingest_document(document.pk).ended is Ended.INDEXED
    assert count_vectors(space) == 2
    assert Chunk.objects.filter(document=document).count() == 1
    assert found(library, "lateness") == "Late"


@pytest.mark.django_db
def test_a_document_waits_while_the_provider_is_busy_and_fails_for_a_wrong_key(
    library: Library, server: VectorServer
) -> None:
    build(begin(library, server))
    document = upload(
        library.as_owner,
        source=library.source,
        file_name="late.md",
        data=b"# Late\n\nThe page of lateness.",
        start=False,
    )
    server.failures.append(Failure(status=429, headers={"retry-after": "900"}))
    assert ingest_document(document.pk).ended is Ended.WAITING
    document.refresh_from_db()
    assert (document.state, document.state_message) == (
        Document.State.WAITING,
        "The provider is busy (status 429).",
    )
    server.failures.append(Failure(status=401))
    assert ingest_document(document.pk).ended is Ended.FAILED
    document.refresh_from_db()
    assert document.state_message == "The provider refuses the key."


# --- several workers


def test_two_workers_never_do_one_slice_twice(
    committed: Library, server: VectorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.spaces.build.SLICE", 2)
    fill(committed, 9)
    space = begin(committed, server)
    server.delay = 0.05
    results = at_once(*[lambda: build(space)] * 3)
    assert sorted(results) == [Built.NOTHING, Built.NOTHING, Built.SWITCHED]
    assert set(server.texts.values()) == {1}
    assert count_vectors(space) == 9


def test_a_killed_workers_space_goes_on_where_it_was(
    committed: Library, server: VectorServer, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr("retrieval.spaces.build.SLICE", 2)
    settings.KAIZEN_LEASE_SECONDS = 0.6
    fill(committed, 8)
    space = begin(committed, server)

    class Killed(BaseException):
        """As SIGKILL: nothing is released."""

    def third_slice() -> None:
        if len(server.requests) == 3:
            raise Killed

    monkeypatch.setattr("retrieval.spaces.build.list_texts", _before(third_slice))
    with pytest.raises(Killed):
        build(space)
    monkeypatch.undo()
    monkeypatch.setattr("retrieval.spaces.build.SLICE", 2)
    assert (state_of(space), count_vectors(space)) == (BUILDING, 6)
    assert build(space) is Built.NOTHING
    threading.Event().wait(0.8)
    assert find_unbuilt() == [space.pk]
    assert find_unbuilt() == []
    assert build(space) is Built.SWITCHED
    assert set(server.texts.values()) == {1}
    assert count_vectors(space) == 8


def test_a_worker_that_was_taken_over_writes_nothing(
    committed: Library, server: VectorServer
) -> None:
    fill(committed, 2)
    space = begin(committed, server)

    def take_over() -> None:
        EmbeddingSpace.objects.filter(pk=space.pk).update(attempt=99)

    class Overtaken(type(local_embedder())):  # type: ignore[misc]
        def embed_documents(self, texts: Any) -> Any:
            take_over()
            return super().embed_documents(texts)

    assert build_space(space.pk, seconds=60, embedder=Overtaken()) is Built.LOST
    assert (state_of(space), count_vectors(space)) == (BUILDING, 0)


def test_no_document_slips_between_the_check_and_the_switch(
    committed: Library, server: VectorServer
) -> None:
    """A writer that holds the active space delays the switch, which then sees what it wrote."""
    fill(committed, 2)
    space = begin(committed, server)
    holds, may_end = threading.Event(), threading.Event()
    real = hold_active_space

    def slow_writer() -> Any:
        from django.db import transaction

        with transaction.atomic():
            real(committed.organization.pk, local_embedder())
            holds.set()
            may_end.wait(10)
            document = upload(
                committed.as_owner,
                source=committed.source,
                file_name="late.md",
                data=b"# Late\n\nThe page of lateness.",
                start=False,
            )
            return ingest_document(document.pk).ended

    def switcher() -> Any:
        holds.wait(10)
        return build(space)

    def watcher() -> Any:
        threading.Event().wait(1.5)
        seen = EmbeddingSpace.objects.get(pk=space.pk).state
        may_end.set()
        return seen

    ended, built, seen = at_once(slow_writer, switcher, watcher)
    assert (ended, built, seen) == (Ended.INDEXED, Built.SWITCHED, BUILDING)
    assert count_vectors(space) == 3


def _before(act: Any) -> Any:
    from retrieval.spaces.texts import list_texts

    def wrapped(**more: Any) -> Any:
        act()
        return list_texts(**more)

    return wrapped


@pytest.mark.django_db
def test_the_jobs_go_by_the_spaces_row(library: Library, server: VectorServer) -> None:
    fill(library, 2)
    old = find_active_space(library.organization.pk)
    assert old is not None
    space = begin(library, server)
    assert (find_unbuilt(), find_unemptied()) == ([space.pk], [])
    assert find_unbuilt() == []
    build_job(space_id=str(space.pk))
    assert state_of(space) == ACTIVE
    assert (find_unbuilt(), find_unemptied()) == ([], [])
    EmbeddingSpace.objects.filter(pk=old.pk).update(retired_at=now() - GRACE)
    assert (find_unbuilt(), find_unemptied()) == ([], [old.pk])
    empty_job(space_id=str(old.pk))
    assert (find_unemptied(), count_vectors(old), count_vectors(space)) == ([], 0, 2)
    build_job(space_id=str(space.pk))
    assert sum(server.texts.values()) == 2
