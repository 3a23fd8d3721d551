"""Changing the embedding model: what is said before, how the new space is built, and the switch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from accounts.models import Role
from accounts.permissions import Verb
from audit.models import AuditEvent
from kaizen.kernel.errors import Conflict, Denied, Invalid, Missing
from retrieval.documents import delete_document, set_acl_state, upload
from retrieval.embedders.choice import embedder_for
from retrieval.embedders.local import local_embedder
from retrieval.ingest.store import Ended, ingest_document
from retrieval.models import Document, EmbeddingModel, EmbeddingSpace
from retrieval.search import search
from retrieval.spaces.active import find_active_space
from retrieval.spaces.build import Built
from retrieval.spaces.changes import (
    cancel_change,
    check_model,
    count_vectors,
    estimate_change,
    progress,
    start_change,
)
from tests import factories
from tests.providers.vectors import VectorServer, serve_vectors
from tests.retrieval.conftest import Library
from tests.retrieval.embedding_changes import (
    ACTIVE,
    BUILDING,
    NOTHING,
    RETIRED,
    begin,
    build,
    fill,
    found,
    state_of,
)
from tests.retrieval.test_embedders import model_of


@pytest.fixture
def server(settings: Any) -> Iterator[VectorServer]:
    """A provider that this installation may reach."""
    with serve_vectors() as running:
        settings.EGRESS_ALLOW = (running.allowed,)
        yield running


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
