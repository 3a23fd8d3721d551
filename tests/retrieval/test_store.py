"""Reading documents: the states, the claims, and what becomes of files that can't be read."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connections

from kaizen.kernel.clock import now
from retrieval.documents import delete_document, retry_document, upload
from retrieval.embedders.contract import Vectors
from retrieval.embedders.local import LocalEmbedder, local_embedder
from retrieval.ingest.store import Ended, ingest_document
from retrieval.jobs import find_lost, find_unpurged, sweep
from retrieval.models import Chunk, Document, EmbeddingSpace
from retrieval.search import Mode, search
from tests.retrieval.conftest import Library, make_library
from tests.retrieval.test_services import index_rows

PARAGRAPHS = "\n\n".join(
    "   " if number == 4 else f"Paragraph number {number} speaks of thing{number}."
    for number in range(9)
)


class WatchingEmbedder(LocalEmbedder):
    """The local embedder, which does something first and counts its calls."""

    def __init__(self, act: object = None) -> None:
        super().__init__()
        self.act, self.calls = act, 0

    def embed_documents(self, texts: object) -> Vectors:
        self.calls += 1
        if callable(self.act):
            self.act()
        return local_embedder().embed_documents(texts)  # type: ignore[arg-type]


def store(library: Library, data: bytes, name: str = "a.md") -> Document:
    """Upload without reading."""
    return upload(library.as_owner, source=library.source, file_name=name, data=data, start=False)


def state_of(document: Document) -> tuple[str, str, str]:
    document.refresh_from_db()
    return document.state, document.state_code, document.state_message


def test_a_document_is_read_once(library: Library) -> None:
    document = store(library, b"# One\n\nText.")
    assert ingest_document(document.pk).ended is Ended.INDEXED
    assert ingest_document(document.pk).ended is Ended.NOTHING
    assert state_of(document) == ("indexed", "", "")
    assert (document.passage_count, document.title, document.language) == (1, "One", "en")
    assert index_rows(document) == (1, 1)


def test_an_organisation_has_one_space_from_its_first_document_on(library: Library) -> None:
    library.add("One.", "a.md")
    library.add("Two.", "b.md")
    space = EmbeddingSpace.objects.get(organization=library.organization)
    assert (space.state, space.dimension, space.model) == ("active", 384, "all-MiniLM-L6-v2-int8")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("scan-no-text.pdf", "scanned"),
        ("zero-byte.pdf", "empty"),
        ("only-whitespace.md", "no_text"),
        ("empty-body.docx", "no_text"),
    ],
)
def test_K25_a_file_without_text_fails_and_says_why(
    library: Library, shared_data: Path, name: str, code: str
) -> None:
    embedder = WatchingEmbedder()
    document = store(library, (shared_data / "cases" / name).read_bytes(), name)
    assert ingest_document(document.pk, embedder=embedder).ended is Ended.FAILED
    state, found, message = state_of(document)
    assert (state, found, document.passage_count) == ("failed", code, 0)
    assert message.endswith(".")
    assert "scan" in message.lower() or name != "scan-no-text.pdf"
    assert (embedder.calls, index_rows(document)) == (0, (0, 0))
    assert not Chunk.objects.filter(document=document).exists()
    retry_document(library.as_owner, document=document)
    assert ingest_document(document.pk).ended is Ended.FAILED


def test_K25_a_blank_paragraph_does_not_stop_the_file(library: Library) -> None:
    document = library.add(PARAGRAPHS, "nine.md")
    for number in (0, 1, 2, 3, 5, 6, 7, 8):
        hits = search(library.as_owner, query=f"thing{number}", mode=Mode.LEXICAL).hits
        assert [hit.document_id for hit in hits][:1] == [document.pk], number


def test_K23_nul_bytes_are_replaced_and_reported(library: Library, shared_data: Path) -> None:
    data = (shared_data / "cases" / "nul-in-text.txt").read_bytes()
    document = library.add(data, "nul-in-text.txt")
    assert document.current_version.warnings == ["3 NUL characters replaced."]
    hit = search(library.as_owner, query="4471", mode=Mode.LEXICAL).hits[0]
    assert hit.document_id == document.pk
    text = "".join(chunk.text for chunk in Chunk.objects.filter(document=document))
    assert (text.count("\ufffd"), "\x00" in text) == (3, False)


def test_a_new_version_that_cannot_be_read_leaves_the_earlier_one(library: Library) -> None:
    document = library.add("The old text about walruses.", "a.md")
    version = document.current_version_id
    store(library, b"   ", "a.md")
    assert ingest_document(document.pk).ended is Ended.FAILED
    assert state_of(document) == (
        "failed",
        "no_text",
        "The file is empty. The earlier version is still searched.",
    )
    assert document.current_version_id == version
    assert [hit.document_id for hit in search(library.as_owner, query="walruses").hits] == [
        document.pk
    ]


def test_old_passages_are_not_found_once_the_new_ones_are(library: Library) -> None:
    library.add("The old text about walruses.", "a.md")
    library.add("The new text about herons.", "a.md")
    assert search(library.as_owner, query="walruses", mode=Mode.LEXICAL).hits == ()
    assert len(search(library.as_owner, query="herons", mode=Mode.SEMANTIC).hits) == 1


def test_a_document_deleted_while_it_is_read_stays_deleted(library: Library) -> None:
    document = store(library, b"Some text.")
    embedder = WatchingEmbedder(lambda: delete_document(library.as_owner, document=document))
    assert ingest_document(document.pk, embedder=embedder).ended is Ended.LOST
    assert index_rows(document) == (0, 0)


def test_a_version_uploaded_while_another_is_read_wins(library: Library) -> None:
    document = store(library, b"First text.")
    embedder = WatchingEmbedder(lambda: store(library, b"Second text."))
    assert ingest_document(document.pk, embedder=embedder).ended is Ended.LOST
    assert state_of(document)[0] == "waiting"
    assert ingest_document(document.pk).ended is Ended.INDEXED
    assert [hit.text for hit in search(library.as_owner, query="text").hits] == ["Second text."]


def test_rights_changed_while_it_is_read_are_the_ones_indexed(library: Library) -> None:
    document = store(library, b"Some text.")

    def restrict() -> None:
        Document.objects.filter(pk=document.pk).update(acl_state=Document.AclState.RESTRICTED)

    ingest_document(document.pk, embedder=WatchingEmbedder(restrict))
    assert search(library.as_owner, query="text").hits == ()


def test_a_reader_that_fell_silent_is_replaced(library: Library) -> None:
    document = store(library, b"Some text.")
    silent = now() - timedelta(seconds=121)
    Document.objects.filter(pk=document.pk).update(state="reading", state_at=silent)
    assert find_lost() == [document.pk]
    assert state_of(document)[:2] == ("waiting", "lost_1")
    assert ingest_document(document.pk).ended is Ended.INDEXED


def test_a_document_that_ends_its_reader_three_times_fails(library: Library) -> None:
    document = store(library, b"Some text.")
    for _ in range(3):
        silent = now() - timedelta(seconds=121)
        Document.objects.filter(pk=document.pk).update(state="reading", state_at=silent)
        find_lost()
    assert state_of(document)[:2] == ("failed", "reader_died")


def test_what_waits_too_long_is_sent_again_once(library: Library) -> None:
    document = store(library, b"Some text.")
    assert find_lost() == []
    Document.objects.filter(pk=document.pk).update(state_at=now() - timedelta(seconds=16))
    assert find_lost() == [document.pk]
    assert find_lost() == []
    sweep()


def test_deleted_documents_are_found_until_they_are_purged(library: Library) -> None:
    document = library.add("Some text.")
    delete_document(library.as_owner, document=document)
    assert find_unpurged() == [document.pk]


def test_lost_bytes_are_said_so(library: Library) -> None:
    document = store(library, b"Some text.")
    version = document.versions.get()
    version.blob.storage_name = "blobs/none"
    version.blob.save()
    assert ingest_document(document.pk).message == ("The stored file is missing. Upload it again.")


def test_two_workers_never_read_the_same_document(committed_db: str) -> None:
    library = make_library()
    documents = [store(library, f"Text number {n}.".encode(), f"{n}.md") for n in range(6)]
    ended: list[Ended] = []

    def work() -> None:
        try:
            ended.extend(ingest_document(document.pk).ended for document in documents)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ended).count(Ended.INDEXED) == 6
    assert sorted(ended).count(Ended.NOTHING) == 12
    library.source.refresh_from_db()
    assert library.source.passage_count == 6
    assert Chunk.objects.count() == 6
