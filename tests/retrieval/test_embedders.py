"""The provider's side of embedding: the wire, the checks of every vector, and what happens when it
fails.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kaizen.kernel.errors import Unavailable
from retrieval.embedders import calls
from retrieval.embedders.choice import digest_of, embedder_for, embedder_of
from retrieval.embedders.contract import checked, embed_counted
from retrieval.embedders.local import LocalEmbedder, local_embedder
from retrieval.embedders.remote import REST_SECONDS, Remote, RemoteEmbedder, Sizing
from retrieval.embedders.reuse import embed_new, embedding_digest, find_vectors
from retrieval.ingest.chunk import embedding_text
from retrieval.models import Chunk, EmbeddingModel, EmbeddingSpace
from tests import factories
from tests.providers.vectors import Failure, VectorServer, normalised, serve_vectors
from tests.retrieval.conftest import Library

KEY = "sk-canary-0123456789"


@pytest.fixture
def server(settings: Any) -> Iterator[VectorServer]:
    """A provider that this installation may reach."""
    with serve_vectors() as running:
        settings.EGRESS_ALLOW = (running.allowed,)
        yield running


def remote(server: VectorServer, **more: Any) -> RemoteEmbedder:
    """An embedder at the server."""
    clock = more.pop("clock", time.monotonic)
    fields = {"base_url": server.url, "name": "embed-3", "digest": "d" * 64, "dimension": 384}
    return RemoteEmbedder(
        Remote(**{**fields, "sizing": Sizing.ASKED, "api_key": KEY, **more}), clock=clock
    )


def test_each_vector_belongs_to_its_text_whatever_the_order_of_the_reply(
    server: VectorServer,
) -> None:
    server.key, server.size = KEY, 1_536
    texts = [f"text number {at}" for at in range(10)]
    vectors, tokens = remote(server, batch=4).embed_counted(texts)
    expected = normalised([server.vector(text)[:384] for text in texts])
    assert np.allclose(vectors, expected, atol=1e-6)
    assert (vectors.shape, str(vectors.dtype), tokens) == ((10, 384), "float32", 30)
    assert [len(asked.json["input"]) for asked in server.requests] == [4, 4, 2]
    assert {asked.json["dimensions"] for asked in server.requests} == {384}


def test_queries_and_passages_get_their_prefixes(server: VectorServer) -> None:
    embedder = remote(server, query_prefix="query: ", passage_prefix="passage: ")
    embedder.embed_query("leave")
    embedder.embed_documents(["days"])
    assert server.texts == {"query: leave": 1, "passage: days": 1}


def test_nothing_to_embed_asks_nobody(server: VectorServer) -> None:
    assert remote(server).embed_documents([]).shape == (0, 384)
    assert server.requests == []


def test_a_model_of_its_own_size_is_not_asked_for_one(server: VectorServer) -> None:
    server.takes_dimensions = False
    assert remote(server, sizing=Sizing.OWN).embed_query("leave").shape == (384,)
    assert "dimensions" not in server.requests[0].json


def test_a_model_that_was_trained_to_be_cut_is_cut_and_normalised_again(
    server: VectorServer,
) -> None:
    server.size = 1_024
    vector = remote(server, sizing=Sizing.CUT).embed_query("days of leave")
    expected = normalised([server.vector("days of leave")[:384]])[0]
    assert np.allclose(vector, expected, atol=1e-6)


def test_vectors_of_another_length_are_refused_with_both_lengths(server: VectorServer) -> None:
    server.size = 768
    with pytest.raises(Unavailable, match=r"768 numbers.*holds 384") as refused:
        remote(server, sizing=Sizing.OWN).embed_documents(["x"])
    assert refused.value.code == "embedder_refused"


@pytest.mark.parametrize(
    "row",
    [
        [float("nan"), *[1.0] * 383],
        [float("inf"), *[1.0] * 383],
        [0.0] * 384,
        [1e-300] * 384,
        ["one"] * 384,
        [[1.0]] * 384,
        [1.0] * 383,
        None,
        [],
    ],
)
def test_what_is_no_usable_vector_is_refused(row: Any) -> None:
    with pytest.raises(Unavailable, match="vector"):
        checked([row], dimension=384)


@pytest.mark.parametrize(
    "answer",
    [
        {"data": []},
        {"data": [{"index": 0, "embedding": [1.0] * 384}] * 2},
        {"data": [{"index": 1, "embedding": [1.0] * 384}]},
        {"data": [{"index": 0}, {"index": 1}]},
        {"data": "none"},
        {"data": [7]},
        [],
        "words",
        {},
    ],
)
def test_a_reply_without_one_vector_for_each_text_is_refused(
    server: VectorServer, answer: Any
) -> None:
    server.answer = answer
    with pytest.raises(Unavailable) as refused:
        remote(server).embed_query("x")
    assert refused.value.code == "embedder_refused"
    assert len(server.requests) == 1


def test_busy_is_tried_again_when_the_provider_says(server: VectorServer) -> None:
    server.failures.extend([Failure(status=429, headers={"retry-after": "1"}), Failure(status=503)])
    vectors = remote(server).embed_documents(["leave"])
    assert vectors.shape == (1, 384)
    first, second, third = (asked.at for asked in server.requests)
    assert 1.0 <= second - first < 3.0
    assert 0.4 < third - second < 3.0


def test_a_date_to_try_again_at_is_read_too(server: VectorServer) -> None:
    server.failures.append(
        Failure(status=429, headers={"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"})
    )
    remote(server).embed_documents(["leave"])
    first, second = (asked.at for asked in server.requests)
    assert second - first < 0.5


def test_nobody_waits_longer_than_their_patience(server: VectorServer) -> None:
    server.failures.append(Failure(status=429, headers={"retry-after": "3600"}))
    began = time.monotonic()
    with pytest.raises(Unavailable) as busy:
        remote(server).embed_documents(["leave"])
    assert (busy.value.code, busy.value.retry_after) == ("embedder_busy", 3600)
    assert time.monotonic() - began < 2.0
    assert len(server.requests) == 1


def test_a_refused_key_is_said_without_the_key_and_not_tried_again(server: VectorServer) -> None:
    server.key = "another"
    with pytest.raises(Unavailable, match="refuses the key") as refused:
        remote(server).embed_query("x")
    assert (KEY in refused.value.message, len(server.requests)) == (False, 1)
    assert KEY not in repr(remote(server)._remote)


def test_what_the_provider_says_is_passed_on_without_the_key(server: VectorServer) -> None:
    body = f'{{"error": {{"message": "no model for {KEY}\\u0000"}}}}'.encode()
    server.failures.append(Failure(status=404, body=body))
    with pytest.raises(Unavailable) as refused:
        remote(server).embed_query("x")
    assert refused.value.message == (
        "The address or the model is unknown to the provider: no model for …\ufffd"
    )


def test_a_text_that_is_too_long_is_cut_and_the_others_are_not(server: VectorServer) -> None:
    server.longest = 300
    long = "valve " * 1_000
    texts = ["days of leave", long, "a copper pump"]
    vectors = remote(server).embed_documents(texts)
    expected = normalised([server.vector(text) for text in texts])
    assert np.allclose(vectors, expected, atol=1e-5)
    assert server.texts["days of leave"] <= 3


def test_a_request_that_is_wrong_in_itself_is_not_taken_apart(server: VectorServer) -> None:
    server.takes_dimensions = False
    with pytest.raises(Unavailable, match="parameter dimensions"):
        remote(server).embed_documents([f"text {at}" for at in range(64)])
    assert len(server.requests) == 2


def test_searches_leave_a_provider_that_failed_alone_for_a_moment(server: VectorServer) -> None:
    now = [100.0]
    embedder = remote(server, clock=lambda: now[0])
    server.key = "another"
    for _ in range(3):
        with pytest.raises(Unavailable):
            embedder.embed_query("x")
    assert len(server.requests) == 1
    server.key = ""
    now[0] += REST_SECONDS
    assert embedder.embed_query("x").shape == (384,)


def test_an_inner_address_is_refused_before_any_connection(
    server: VectorServer, settings: Any
) -> None:
    settings.EGRESS_ALLOW = ()
    with pytest.raises(Unavailable, match="KAIZEN_EGRESS_ALLOW") as refused:
        remote(server).embed_query("x")
    assert (refused.value.code, server.requests) == ("embedder_refused", [])


def test_a_provider_that_hangs_costs_a_search_its_patience_at_most(
    server: VectorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = calls.Patience(each=0.3, total=0.5, tries=2)
    monkeypatch.setattr("retrieval.embedders.remote.IN_A_SEARCH", impatient)
    server.delay = 3.0
    began = time.monotonic()
    with pytest.raises(Unavailable) as slow:
        remote(server).embed_query("x")
    assert time.monotonic() - began < 1.5
    assert slow.value.code == "embedder_busy"


def test_tokens_are_counted_alike_whoever_embeds(server: VectorServer) -> None:
    text = "Annual leave is 25 days."
    assert remote(server).count_tokens(text) == local_embedder().count_tokens(text)
    assert embed_counted(local_embedder(), [text])[1] == 0


# --- which one serves an organisation


def model_of(library: Library, server: VectorServer | None = None, **more: Any) -> EmbeddingModel:
    """A model of the library's organisation, at the server or the built-in one."""
    fields: dict[str, Any] = {"label": "Model", "kind": "local"}
    if server is not None:
        fields = {"label": "Remote", "kind": "compatible", "name": "embed-3"}
        fields |= {"base_url": server.url, "api_key": KEY}
    model = EmbeddingModel(organization=library.organization, **{**fields, **more})
    model.digest = digest_of(model)
    model.save()
    return model


def test_the_built_in_model_serves_until_another_was_chosen(
    library: Library, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(1):
        assert embedder_for(library.organization.pk) is local_embedder()
    library.add("# One\n\nText.")
    assert embedder_for(library.organization.pk) is local_embedder()
    assert embedder_for(library.organization.pk, arena=True) is local_embedder(arena=True)


def test_the_model_of_the_active_space_serves_and_is_kept(
    library: Library, server: VectorServer, django_assert_num_queries: Any
) -> None:
    model = model_of(library, server)
    EmbeddingSpace.objects.create(
        organization=library.organization,
        model=model.name,
        embedding_model=model,
        digest=model.digest,
        dimension=384,
    )
    other = factories.make_organization()
    with django_assert_num_queries(1):
        found = embedder_for(library.organization.pk)
    assert (found.model, found.digest) == ("embed-3", model.digest)
    assert embedder_for(library.organization.pk) is found
    assert embedder_for(other.pk) is local_embedder()


def test_a_space_of_a_model_that_is_not_installed_any_more_says_so(library: Library) -> None:
    EmbeddingSpace.objects.create(
        organization=library.organization, model="old", digest="0" * 64, dimension=384
    )
    found = embedder_for(library.organization.pk)
    assert (found.model, found.digest) == ("old", "0" * 64)
    for ask in (found.embed_query, lambda text: found.embed_documents([text])):
        with pytest.raises(Unavailable, match="made with old"):
            ask("x")


def test_a_key_that_can_not_be_decrypted_leaves_words_to_search_by(
    library: Library, server: VectorServer, settings: Any
) -> None:
    model = model_of(library, server)
    EmbeddingSpace.objects.create(
        organization=library.organization,
        model=model.name,
        embedding_model=model,
        digest=model.digest,
        dimension=384,
    )
    settings.KAIZEN_FIELD_KEYS = ["A" * 43 + "="]
    with pytest.raises(Unavailable, match="Enter it anew"):
        embedder_for(library.organization.pk).embed_query("x")


@pytest.mark.parametrize(
    "change",
    [
        {"name": "embed-4"},
        {"base_url": "https://other.example/v1"},
        {"sizing": "cut"},
        {"query_prefix": "query: "},
        {"passage_prefix": "passage: "},
        {"dimension": 512},
    ],
)
def test_whatever_vectors_follow_from_is_in_the_digest(change: dict[str, Any]) -> None:
    fields = {"kind": "compatible", "name": "embed-3", "base_url": "https://a.example/v1"}
    before = digest_of(EmbeddingModel(**fields))
    assert digest_of(EmbeddingModel(**{**fields, **change})) != before
    same = {**fields, "base_url": "https://a.example/v1/", "label": "x", "price": 7, "batch": 8}
    assert digest_of(EmbeddingModel(**same)) == before
    assert digest_of(EmbeddingModel(kind="local")) == LocalEmbedder.digest


def test_one_model_is_one_embedder_until_its_key_changes(
    library: Library, server: VectorServer
) -> None:
    model = model_of(library, server)
    first = embedder_of(model)
    assert embedder_of(EmbeddingModel.objects.get(pk=model.pk)) is first
    model.api_key = "sk-other"
    assert embedder_of(model) is not first


# --- equal texts


def keep_digests(library: Library) -> None:
    """Write down what each passage's text was, as ingestion does."""
    for chunk in Chunk.objects.filter(organization=library.organization).select_related("document"):
        text = embedding_text(chunk.document.title, chunk)
        Chunk.objects.filter(pk=chunk.pk).update(digest=embedding_digest(text))


def test_a_digest_stands_for_a_text_and_fits_its_column() -> None:
    assert embedding_digest("Title\ntext") == "c566758efe09b12b84675d73098372bb"
    assert len(embedding_digest("\ud800")) == 32


def test_vectors_of_equal_texts_are_found_in_their_own_space_only(library: Library) -> None:
    library.add("# Leave\n\nThere are 25 days of leave.")
    keep_digests(library)
    space = EmbeddingSpace.objects.get(organization=library.organization)
    text = "Leave\nThere are 25 days of leave."
    digest = embedding_digest(text)
    found = find_vectors(library.organization.pk, space.key, [digest, "0" * 32, ""])
    assert list(found) == [digest]
    assert float(found[digest] @ local_embedder().embed_query(text)) > 0.999
    assert np.isclose(np.linalg.norm(found[digest]), 1.0, atol=1e-5)
    assert find_vectors(library.organization.pk, space.key + 1, [digest]) == {}
    assert find_vectors(factories.make_organization().pk, space.key, [digest]) == {}


def test_only_new_texts_are_embedded_and_equal_ones_once(
    library: Library, server: VectorServer
) -> None:
    library.add("# Leave\n\nThere are 25 days of leave.")
    keep_digests(library)
    space = EmbeddingSpace.objects.get(organization=library.organization)
    known = "Leave\nThere are 25 days of leave."
    texts = [known, "new text", "new text", known]
    vectors, tokens = embed_new(
        remote(server), texts, organization_id=library.organization.pk, space_key=space.key
    )
    assert server.texts == {"new text": 1}
    assert tokens == 2
    assert np.array_equal(vectors[0], vectors[3])
    assert np.array_equal(vectors[1], vectors[2])
    assert float(vectors[0] @ local_embedder().embed_query(known)) > 0.999


def test_without_a_space_everything_is_new(library: Library, server: VectorServer) -> None:
    embed_new(remote(server), ["a", "a"], organization_id=library.organization.pk, space_key=None)
    assert server.texts == {"a": 1}
