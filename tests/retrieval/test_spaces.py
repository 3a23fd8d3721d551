"""Changing the embedding model: what is said before, how the new space is built, and the switch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections

from accounts.models import Role
from accounts.permissions import Verb
from audit.models import AuditEvent
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Conflict, Denied, Invalid, Missing
from retrieval.active_space import SpaceChanged, find_active_space, hold_active_space
from retrieval.documents import delete_document, set_acl_state, upload
from retrieval.embedders.choice import embedder_for
from retrieval.embedders.jobs import build as build_job
from retrieval.embedders.jobs import empty as empty_job
from retrieval.embedders.jobs import find_unfinished
from retrieval.embedders.local import local_embedder
from retrieval.ingest.store import Ended, ingest_document
from retrieval.models import Chunk, Document, EmbeddingModel, EmbeddingSpace
from retrieval.search import Mode, search
from retrieval.space_build import GRACE, Built, build_space, empty_space
from retrieval.spaces import (
    Estimate,
    cancel_change,
    check_model,
    count_vectors,
    estimate_change,
    progress,
    retry_now,
    start_change,
)
from tests import factories
from tests.providers.vectors import Failure, VectorServer, serve_vectors
from tests.retrieval.conftest import Library, make_library
from tests.retrieval.test_embedders import model_of

NOTHING = Estimate(passages=0, texts=0, tokens=0, seconds=0, cost=0)
BUILDING, ACTIVE, RETIRED = EmbeddingSpace.State.values


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


# --- before


@pytest.mark.django_db
def test_the_cost_is_said_before_and_a_few_passages_are_all_that_is_sent(
    library: Library, server: VectorServer
) -> None:
    fill(library, 20)
    library.add("# Page 3\n\nThe page of thing3 and its keeper.", "copy.md")
    model = model_of(library, server, price=20_000)
    said = estimate_change(library.as_owner, model=model)
    assert (said.passages, said.texts) == (21, 20)
    # The probe's words, as the server counts them, over the tokens of the same passages as ours.
    assert 100 < said.tokens < 300
    assert said.cost == round(said.tokens * 20_000 / 1_000_000)
    assert sum(server.texts.values()) == 17
    assert not EmbeddingSpace.objects.filter(state=BUILDING).exists()
    event = AuditEvent.objects.get(action="retrieval.embedding_model_estimated")
    assert event.data == {"passages": 21, "probed": 16}


@pytest.mark.django_db
def test_time_is_measured_with_the_probe(library: Library, server: VectorServer) -> None:
    fill(library, 8)
    server.delay = 0.8
    said = estimate_change(library.as_owner, model=model_of(library, server))
    assert said.seconds == 1


@pytest.mark.django_db
def test_an_empty_index_costs_nothing(library: Library, server: VectorServer) -> None:
    said = estimate_change(library.as_owner, model=model_of(library, server))
    assert said == NOTHING


@pytest.mark.django_db
def test_who_may_not_configure_may_not_change_the_model(
    library: Library, server: VectorServer
) -> None:
    model = model_of(library, server)
    for act in (
        lambda: estimate_change(library.as_member, model=model),
        lambda: start_change(library.as_member, model=model, estimate=NOTHING),
        lambda: check_model(library.as_member, model=model),
    ):
        with pytest.raises(Denied):
            act()
    assert (server.requests, EmbeddingSpace.objects.count()) == ([], 0)


@pytest.mark.django_db
def test_another_organisations_model_is_an_unknown_one(
    library: Library, server: VectorServer
) -> None:
    other = factories.make_member(factories.make_organization(), role=Role.OWNER)
    model = model_of(library, server)
    for act in (estimate_change, lambda who, **a: start_change(who, estimate=NOTHING, **a)):
        with pytest.raises(Missing):
            act(factories.authority_of(other), model=model)
    space = begin(library, server, label="Second", name="embed-4")
    with pytest.raises(Missing):
        cancel_change(factories.authority_of(other), space=space)
    assert server.requests == []


@pytest.mark.django_db
def test_the_model_in_use_and_a_second_change_are_refused(
    library: Library, server: VectorServer
) -> None:
    fill(library, 1)
    with pytest.raises(Conflict, match="with this model already"):
        start_change(library.as_owner, model=model_of(library), estimate=NOTHING)
    begin(library, server)
    second = model_of(library, server, label="Second", name="embed-4")
    with pytest.raises(Conflict, match="under way"):
        start_change(library.as_owner, model=second, estimate=NOTHING)


@pytest.mark.django_db
def test_checking_a_model_says_what_came_back(library: Library, server: VectorServer) -> None:
    works = check_model(library.as_owner, model=model_of(library, server))
    assert works.works
    assert works.message.startswith("It answers with vectors of 384 numbers, in ")
    server.key = "another"
    fails = check_model(library.as_owner, model=model_of(library, server, label="B", name="b"))
    assert (fails.works, fails.message) == (False, "The provider refuses the key.")
    events = AuditEvent.objects.filter(action="retrieval.embedding_model_checked").order_by("at")
    assert [event.data for event in events] == [{"works": True}, {"works": False}]


# --- building


@pytest.mark.django_db
def test_the_old_space_answers_until_the_new_one_is_whole_and_then_that(
    library: Library, server: VectorServer
) -> None:
    fill(library)
    old = find_active_space(library.organization.pk)
    assert old is not None
    space = begin(library, server)
    assert found(library) == "Page 3"
    assert server.requests == []
    assert build(space) is Built.SWITCHED
    assert (state_of(space), state_of(old)) == (ACTIVE, RETIRED)
    assert count_vectors(space) == space.done == 5
    assert space.tokens == sum(len(text.split()) for text in server.texts)
    assert found(library) == "Page 3"
    assert embedder_for(library.organization.pk).model == "embed-3"
    assert server.texts["thing3"] == 1
    event = AuditEvent.objects.get(action="retrieval.embedding_switched")
    assert event.data == {"passages": 5, "tokens": space.tokens}


@pytest.mark.django_db
def test_what_is_indexed_afterwards_goes_into_the_new_space(
    library: Library, server: VectorServer
) -> None:
    fill(library, 2)
    space = begin(library, server)
    build(space)
    library.add("# Late\n\nThe page of lateness.", "late.md")
    assert count_vectors(space) == 3
    assert found(library, "lateness") == "Late"


@pytest.mark.django_db
def test_what_changed_meanwhile_is_caught_up_and_what_went_is_gone(
    library: Library, server: VectorServer
) -> None:
    pages = fill(library)
    space = begin(library, server)
    assert build(space, seconds=0.0) is Built.MORE
    assert (state_of(space), count_vectors(space)) == (BUILDING, 5)
    library.add("# Late\n\nThe page of lateness.", "late.md")
    upload(
        library.as_owner,
        source=library.source,
        file_name="page1.md",
        external_id=pages[1].external_id,
        data=b"# Page 1\n\nNow it is about otherness.",
        start=False,
    )
    assert ingest_document(pages[1].pk).ended is Ended.INDEXED
    delete_document(library.as_owner, document=pages[2])
    assert count_vectors(space) == 3
    assert build(space) is Built.SWITCHED
    assert count_vectors(space) == 5
    assert found(library, "lateness") == "Late"
    assert found(library, "otherness") == "Page 1"
    assert [hit.title for hit in search(library.as_owner, query="thing2").hits].count("Page 2") == 0


@pytest.mark.django_db
def test_equal_texts_are_embedded_once_and_nothing_twice(
    library: Library, server: VectorServer
) -> None:
    fill(library, 3)
    for at in range(4):
        library.add("# Page 1\n\nThe page of thing1 and its keeper.", f"copy{at}.md")
    space = begin(library, server)
    assert build(space) is Built.SWITCHED
    assert count_vectors(space) == 7
    assert set(server.texts.values()) == {1}
    assert len(server.texts) == 3


@pytest.mark.django_db
def test_an_organisation_without_documents_changes_at_once(
    library: Library, server: VectorServer
) -> None:
    space = begin(library, server)
    assert build(space) is Built.SWITCHED
    library.add("# First\n\nThe first page.", "first.md")
    assert count_vectors(space) == 1
    assert EmbeddingSpace.objects.filter(organization=library.organization).count() == 1


@pytest.mark.django_db
def test_back_to_the_built_in_model(library: Library, server: VectorServer) -> None:
    fill(library, 2)
    build(begin(library, server))
    back = start_change(library.as_owner, model=model_of(library), estimate=NOTHING)
    assert build(back) is Built.SWITCHED
    assert embedder_for(library.organization.pk) is local_embedder()
    assert found(library, "thing1") == "Page 1"


@pytest.mark.django_db
def test_rights_are_those_of_the_moment(library: Library, server: VectorServer) -> None:
    pages = fill(library)
    factories.grant(library.member, Verb.VIEW, library.source)
    set_acl_state(library.as_owner, document=pages[3], state=Document.AclState.RESTRICTED)
    space = begin(library, server)
    build(space, seconds=0.0)
    set_acl_state(library.as_owner, document=pages[2], state=Document.AclState.RESTRICTED)
    build(space)
    seen = {hit.title for hit in search(library.as_member, query="thing3 thing2").hits}
    assert seen == {"Page 0", "Page 1", "Page 4"}


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
def test_a_model_that_answers_with_another_size_never_reaches_the_index(
    library: Library, server: VectorServer
) -> None:
    fill(library, 2)
    server.size = 768
    space = begin(library, server, sizing="own")
    assert build(space) is Built.WAITING
    assert (state_of(space), count_vectors(space)) == (BUILDING, 0)
    assert "768 numbers" in space.last_error
    assert found(library, "thing1") == "Page 1"


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
    monkeypatch.setattr("retrieval.space_build.REMOVED_AT_ONCE", 2)
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


# --- several workers


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


def test_two_workers_never_do_one_slice_twice(
    committed: Library, server: VectorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.space_build.SLICE", 2)
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
    monkeypatch.setattr("retrieval.space_build.SLICE", 2)
    settings.KAIZEN_LEASE_SECONDS = 0.6
    fill(committed, 8)
    space = begin(committed, server)

    class Killed(BaseException):
        """As SIGKILL: nothing is released."""

    def third_slice() -> None:
        if len(server.requests) == 3:
            raise Killed

    monkeypatch.setattr("retrieval.space_build.list_texts", _before(third_slice))
    with pytest.raises(Killed):
        build(space)
    monkeypatch.undo()
    monkeypatch.setattr("retrieval.space_build.SLICE", 2)
    assert (state_of(space), count_vectors(space)) == (BUILDING, 6)
    assert build(space) is Built.NOTHING
    threading.Event().wait(0.8)
    assert [pk for pk, _ in find_unfinished()] == [space.pk]
    assert find_unfinished() == []
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


@pytest.mark.django_db
def test_progress_is_counted(library: Library, server: VectorServer) -> None:
    fill(library, 4)
    space = begin(library, server)
    EmbeddingSpace.objects.filter(pk=space.pk).update(estimate={"seconds": 10})
    assert progress(EmbeddingSpace.objects.get(pk=space.pk)) == {
        "done": 0,
        "total": 4,
        "percent": 0,
        "seconds_left": 10,
    }
    build(space)
    done = progress(EmbeddingSpace.objects.get(pk=space.pk))
    assert (done["done"], done["percent"], done["seconds_left"]) == (4, 100, 0)


@pytest.mark.django_db
def test_a_model_of_another_size_is_refused_with_the_reason(library: Library) -> None:
    model = model_of(library, label="Big", dimension=768)
    with pytest.raises(Invalid, match=r"768 numbers.*holds 384"):
        start_change(library.as_owner, model=model, estimate=NOTHING)
    assert EmbeddingModel.objects.filter(pk=model.pk).exists()
    assert connection.in_atomic_block


def _before(act: Any) -> Any:
    from retrieval.space_texts import list_texts

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
    assert find_unfinished() == [(space.pk, "retrieval.build_space")]
    assert find_unfinished() == []
    build_job(space_id=str(space.pk))
    assert state_of(space) == ACTIVE
    assert find_unfinished() == []
    EmbeddingSpace.objects.filter(pk=old.pk).update(retired_at=now() - GRACE)
    assert find_unfinished() == [(old.pk, "retrieval.empty_space")]
    empty_job(space_id=str(old.pk))
    assert (find_unfinished(), count_vectors(old), count_vectors(space)) == ([], 0, 2)
    build_job(space_id=str(space.pk))
    assert sum(server.texts.values()) == 2
