"""An organisation's own partition: nothing is lost, nothing is buried, its graph is used."""

from __future__ import annotations

import psycopg
import pytest
from django.db import connection

from retrieval import search as searching
from retrieval.documents import delete_document
from retrieval.partitions import split_grown
from retrieval.postings import fold_organization
from retrieval.search import search
from tests import servers
from tests.retrieval.conftest import make_library
from tests.retrieval.worlds import WORD, RememberingEmbedder, index_document


@pytest.mark.usefixtures("committed_db")
def test_a_grown_organization_moves_whole_and_is_searched_by_its_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grown, small = make_library(), make_library()
    kept = index_document(grown.source, title="Kept", passages=6)
    gone = index_document(grown.source, title="Gone", passages=5, of="island")
    index_document(small.source, title="Small", passages=3)
    fold_organization(grown.organization.key)
    embedder = RememberingEmbedder()

    def found() -> list[tuple[str, int | None, int | None]]:
        hits = search(grown.as_owner, query=WORD, limit=20, embedder=embedder).hits
        return [(hit.text, hit.lexical_rank, hit.vector_rank) for hit in hits]

    before = found()
    assert len(before) == 11
    name = connection.settings_dict["NAME"]
    url = servers.database_url(name, role="kaizen_owner")
    with psycopg.connect(url, autocommit=True) as owner:
        assert split_grown(owner, at=10) == [grown.organization.key]
        assert split_grown(owner, at=10) == []
    monkeypatch.setattr(searching, "EXACT_UP_TO", 0)
    result = search(grown.as_owner, query=WORD, limit=20, embedder=embedder)
    assert result.trace.plan == "nearest"
    assert found() == before
    assert search(small.as_owner, query=WORD, embedder=embedder).trace.plan == "exact"
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM retrieval_tombstone")
        assert cursor.fetchone() == (0,)
    delete_document(grown.as_owner, document=gone)
    assert {hit.document_id for hit in search(grown.as_owner, query=WORD, limit=20).hits} == {
        kept.pk
    }
    index_document(grown.source, title="New", of="shore")
    fold_organization(grown.organization.key)
    assert len(found()) == 7
