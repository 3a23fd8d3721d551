"""Reranking: off by default, the wires, and a model that fails changes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kaizen.kernel.errors import Unavailable
from retrieval.embedders import rerank
from retrieval.embedders.rerank import (
    NO_RERANK,
    RemoteReranker,
    Reranking,
    find_reranker,
    rerank_hits,
)
from retrieval.models import RerankModel
from retrieval.search import search
from tests import factories
from tests.providers.vectors import Failure, VectorServer, normalised, serve_vectors
from tests.retrieval.conftest import Library

KEY = "rk-canary-0123456789"
QUERY = "days of leave"
TEXTS = ["a copper pump", "There are days of leave", "leave the pump"]


@pytest.fixture(autouse=True)
def rested() -> None:
    """Nobody failed a moment ago."""
    rerank._resting.clear()


@pytest.fixture
def server(settings: Any) -> Iterator[VectorServer]:
    """A provider that this installation may reach."""
    with serve_vectors() as running:
        settings.EGRESS_ALLOW = (running.allowed,)
        yield running


def at(server: VectorServer, **more: Any) -> RemoteReranker:
    """A reranker at the server."""
    fields = {"base_url": server.url, "name": "rerank-3", "wire": "documents", "seconds": 3.0}
    return RemoteReranker(**{**fields, "api_key": KEY, **more})


def add(library: Library, server: VectorServer, **more: Any) -> RerankModel:
    """A rerank model of the library's organisation."""
    fields = {"label": "Reranker", "name": "rerank-3", "base_url": server.url, "api_key": KEY}
    return RerankModel.objects.create(
        organization=library.organization, **{**fields, "enabled": True, **more}
    )


def expected(server: VectorServer) -> list[float]:
    return [float(server.vector(QUERY) @ server.vector(text)) for text in TEXTS]


def test_scores_come_in_the_order_of_the_texts(server: VectorServer) -> None:
    server.key = KEY
    scores = at(server).rerank(QUERY, TEXTS)
    assert scores == pytest.approx(expected(server))
    assert max(scores) == scores[1]
    asked = server.requests[0]
    assert asked.path == "/v1/rerank"
    assert asked.json == {"model": "rerank-3", "query": QUERY, "documents": TEXTS}


def test_the_protocol_of_text_embeddings_inference(server: VectorServer) -> None:
    assert at(server, wire="texts").rerank(QUERY, TEXTS) == pytest.approx(expected(server))
    assert server.requests[0].json == {"query": QUERY, "texts": TEXTS, "truncate": True}


def test_voyage_calls_the_list_data(server: VectorServer) -> None:
    server.answer = {"data": [{"index": n, "relevance_score": n / 2} for n in (2, 0, 1)]}
    assert at(server).rerank(QUERY, TEXTS) == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        {"results": []},
        {"results": [{"index": 0, "relevance_score": 1.0}] * 3},
        {"results": [{"index": n, "relevance_score": 1.0} for n in (1, 2, 3)]},
        {"results": [{"index": n, "relevance_score": "1"} for n in range(3)]},
        {"results": [{"index": n, "relevance_score": float("nan")} for n in range(3)]},
        {"results": [{"index": n} for n in range(3)]},
        {"results": "none"},
        "words",
    ],
)
def test_a_reply_without_one_score_for_each_text_is_refused(
    server: VectorServer, answer: Any
) -> None:
    server.answer = answer
    with pytest.raises(Unavailable, match="one score for each text"):
        at(server).rerank(QUERY, TEXTS)


def test_no_texts_ask_nobody(server: VectorServer) -> None:
    assert at(server).rerank(QUERY, []) == []
    assert rerank_hits(at(server), query=QUERY, texts=[]) == Reranking(None)
    assert server.requests == []


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
def test_a_model_that_fails_leaves_the_order_and_says_so(server: VectorServer, status: int) -> None:
    server.failures.append(Failure(status=status))
    assert rerank_hits(at(server), query=QUERY, texts=TEXTS) == Reranking(None, NO_RERANK)
    assert len(server.requests) == 1


def test_a_model_that_hangs_costs_the_seconds_it_was_given(server: VectorServer) -> None:
    server.delay = 3.0
    began = time.monotonic()
    assert rerank_hits(at(server, seconds=0.3), query=QUERY, texts=TEXTS).degraded == NO_RERANK
    assert time.monotonic() - began < 1.0


def test_a_model_that_failed_is_left_alone_for_a_moment(
    server: VectorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.failures.append(Failure())
    for _ in range(3):
        assert rerank_hits(at(server), query=QUERY, texts=TEXTS).degraded == NO_RERANK
    assert len(server.requests) == 1
    assert rerank_hits(at(server, name="other"), query=QUERY, texts=TEXTS).degraded == ""
    later = time.monotonic() + rerank.REST_SECONDS
    monkeypatch.setattr("retrieval.embedders.rerank.time.monotonic", lambda: later)
    assert rerank_hits(at(server), query=QUERY, texts=TEXTS).scores is not None


def test_a_key_is_in_no_representation(server: VectorServer) -> None:
    assert KEY not in repr(at(server))


@pytest.mark.django_db
def test_off_unless_an_organisation_enabled_one(
    library: Library, server: VectorServer, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(1):
        assert find_reranker(library.organization.pk) is None
    add(library, server, enabled=False)
    assert find_reranker(library.organization.pk) is None
    add(library, server, label="Second")
    assert find_reranker(library.organization.pk) == at(server)
    assert find_reranker(factories.make_organization().pk) is None


@pytest.mark.django_db
def test_a_key_that_can_not_be_decrypted_leaves_the_order(
    library: Library, server: VectorServer, settings: Any
) -> None:
    add(library, server)
    settings.KAIZEN_FIELD_KEYS = ["A" * 43 + "="]
    reranker = find_reranker(library.organization.pk)
    assert reranker is not None
    assert rerank_hits(reranker, query=QUERY, texts=TEXTS).degraded == NO_RERANK
    assert server.requests == []


def test_the_server_of_the_tests_is_a_scorer(server: VectorServer) -> None:
    near, far = normalised([server.vector(text) for text in TEXTS[1:]])
    query = normalised([server.vector(QUERY)])[0]
    assert query @ near > query @ far


def test_copies_and_many_of_one_document_come_last() -> None:
    order = rerank.order_anew(
        [0.1, 0.9, 0.9, 0.8, 0.7, 0.5],
        documents=["a", "b", "c", "b", "b", "d"],
        texts=["x", "same", "same", "y", "z", "w"],
        per_document=2,
    )
    assert order == [1, 3, 5, 0, 2, 4]
    assert rerank.order_anew([], documents=[], texts=[], per_document=3) == []


@pytest.mark.django_db
def test_a_search_shows_what_the_model_says_and_the_found_order_when_it_fails(
    library: Library, server: VectorServer
) -> None:
    for at in range(4):
        library.add(f"# Page {at}\n\nA page about leave, number {at}.", f"page{at}.md")
    found = [hit.title for hit in search(library.as_owner, query="leave").hits]
    add(library, server)
    scores = {title: float(place) for place, title in enumerate(found)}
    server.scores = lambda texts: [scores[text.split("\n")[0]] for text in texts]
    result = search(library.as_owner, query="leave", limit=3)
    assert [hit.title for hit in result.hits] == found[:0:-1]
    assert [hit.score for hit in result.hits] == [1.0, 0.5, 0.3333]
    assert result.degraded == ""
    server.failures.append(Failure())
    result = search(library.as_owner, query="leave", limit=3)
    assert ([hit.title for hit in result.hits], result.degraded) == (found[:3], NO_RERANK)
    assert {len(asked.json["documents"]) for asked in server.requests} == {4}
