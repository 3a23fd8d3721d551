"""Details and place of a document: who may change them, and that nothing is embedded again."""

from __future__ import annotations

from typing import Any

import pytest

from accounts.permissions import Verb
from audit.models import AuditEvent
from kaizen.kernel.errors import Conflict, Denied, Missing
from retrieval.acl import visible_documents
from retrieval.archives import expand_document
from retrieval.details import check_details
from retrieval.document_changes import move_document, update_document
from retrieval.documents import delete_document, retry_failed, upload
from retrieval.ingest.store import ingest_document
from retrieval.models import Chunk, Document, Source
from retrieval.parts import parts_of
from retrieval.search import Filters, search
from tests import factories
from tests.retrieval.conftest import Library
from tests.retrieval.ingest.archives import zipped
from tests.retrieval.test_api import Caller


@pytest.fixture
def other(library: Library) -> Source:
    """A second source that the owner may change."""
    source = factories.make_source(library.organization, name="Other")
    factories.grant(library.owner, Verb.CHANGE, source)
    return source


def test_details_are_changed_without_reading_again(library: Library) -> None:
    document = library.add("Herons.", "a.md")
    details = check_details({"author": "Ana", "tags": ["x"], "path": "p", "url": "https://e.org"})
    changed = update_document(library.as_owner, document=document, details=details)
    assert (changed.state, changed.author, changed.tags) == ("indexed", "Ana", ["x"])
    event = AuditEvent.objects.filter(action="retrieval.document_changed").get()
    assert event.data == {"fields": ["author", "path", "tags", "url"]}
    update_document(library.as_owner, document=document, details=details)
    assert AuditEvent.objects.filter(action="retrieval.document_changed").count() == 1


def test_another_title_is_found_once_it_was_read(library: Library) -> None:
    document = library.add("Some words.", "a.md")
    update_document(library.as_owner, document=document, details={"title": "Egrets"})
    document.refresh_from_db()
    assert (document.state, document.title) == ("waiting", "Egrets")
    ingest_document(document.pk)
    assert search(library.as_owner, query="egrets").hits[0].title == "Egrets"


def test_changing_details_needs_change(library: Library) -> None:
    document = library.add("Words.")
    factories.grant(library.member, Verb.USE, library.source)
    with pytest.raises(Denied):
        update_document(library.as_member, document=document, details={"author": "Eve"})
    document.refresh_from_db()
    assert document.author == ""


def test_a_moved_document_is_seen_by_who_sees_its_new_source(
    library: Library, other: Source
) -> None:
    document = library.add("Herons stand here.")
    factories.grant(library.member, Verb.VIEW, other)
    chunks = list(Chunk.objects.filter(document=document).values_list("pk", flat=True))
    assert search(library.as_member, query="herons").hits == ()
    moved = move_document(library.as_owner, document=document, source=other)
    assert (moved.source_id, moved.state, moved.state_at) == (
        other.pk,
        "indexed",
        document.state_at,
    )
    assert [hit.source_id for hit in search(library.as_member, query="herons").hits] == [other.pk]
    assert (
        search(
            library.as_owner, query="herons", filters=Filters(source_ids=[library.source.pk])
        ).hits
        == ()
    )
    assert list(Chunk.objects.filter(document=document).values_list("pk", flat=True)) == chunks
    library.source.refresh_from_db()
    other.refresh_from_db()
    assert (library.source.passage_count, other.passage_count) == (0, 1)
    delete_document(library.as_owner, document=moved)
    other.refresh_from_db()
    assert (other.passage_count, search(library.as_owner, query="herons").hits) == (0, ())


def test_moving_needs_change_on_both_sources(library: Library, other: Source) -> None:
    document = library.add("Words.")
    closed = factories.make_source(library.organization, name="Closed")
    with pytest.raises(Missing):
        move_document(library.as_owner, document=document, source=closed)
    factories.grant(library.owner, Verb.VIEW, closed)
    with pytest.raises(Denied):
        move_document(library.as_owner, document=document, source=closed)
    factories.grant(library.member, Verb.VIEW, library.source)
    factories.grant(library.member, Verb.CHANGE, document)
    factories.grant(library.member, Verb.CHANGE, other)
    with pytest.raises(Denied):
        move_document(library.as_member, document=document, source=other)
    document.refresh_from_db()
    assert document.source_id == library.source.pk


def test_a_document_does_not_take_anothers_place(library: Library, other: Source) -> None:
    document = library.add("Words.", "same.md")
    library.add("Other words.", "same.md", source=other)
    with pytest.raises(Conflict):
        move_document(library.as_owner, document=document, source=other)


def test_an_archive_moves_with_its_documents(library: Library, other: Source) -> None:
    archive = upload(
        library.as_owner,
        source=library.source,
        file_name="a.zip",
        data=zipped({"one.txt": b"One.", "two.txt": b"Two."}),
        start=False,
    )
    expand_document(archive.pk)
    archive.refresh_from_db()
    part = parts_of(archive).first()
    assert part is not None
    with pytest.raises(Conflict):
        move_document(library.as_owner, document=part, source=other)
    moved = move_document(library.as_owner, document=archive, source=other)
    assert parts_of(moved).count() == 2
    assert not Document.objects.filter(source=library.source).exists()


def test_all_failed_documents_of_a_source_are_read_again(library: Library, other: Source) -> None:
    good = library.add("Words.")
    for number in range(3):
        bad = upload(
            library.as_owner,
            source=library.source,
            file_name=f"{number}.md",
            data=b" ",
            start=False,
        )
        ingest_document(bad.pk)
    assert retry_failed(library.as_owner, source=other) == 0
    assert retry_failed(library.as_owner, source=library.source) == 3
    waiting = Document.objects.filter(source=library.source, state="waiting", state_message="")
    assert waiting.count() == 3
    good.refresh_from_db()
    assert good.state == "indexed"
    assert retry_failed(library.as_owner, source=library.source) == 0
    factories.grant(library.member, Verb.USE, library.source)
    with pytest.raises(Denied):
        retry_failed(library.as_member, source=library.source)


def test_the_api_changes_moves_and_hides(library: Library, other: Source) -> None:
    document = library.add("Words.")
    factories.grant(library.owner, Verb.MANAGE, other)
    program = Caller(library.owner, scopes=("ingest",))

    def patch(**values: Any) -> Any:
        return program.send(f"api/v1/documents/{document.pk}/", values, "patch")

    answer = patch(author="Ana", tags=["x"], dated_at="2031-03-04T09:30:00Z", source=str(other.pk))
    body = answer.json()
    assert answer.status_code == 200
    assert (body["author"], body["tags"], body["dated_at"], body["source"]) == (
        "Ana",
        ["x"],
        "2031-03-04T09:30:00Z",
        str(other.pk),
    )
    assert patch(dated_at=None).json()["dated_at"] is None
    assert patch(url="ftp://x").status_code == 400
    assert patch(title="a\x00b").status_code == 400
    assert patch(acl_state="restricted").json()["acl_state"] == "restricted"
    assert patch(acl_state="unknown").status_code == 204
    assert patch(author="Eve").status_code == 404


def test_the_api_reads_all_failed_ones_again(library: Library) -> None:
    upload(library.as_owner, source=library.source, file_name="e.md", data=b" ", start=False)
    ingest_document(Document.objects.get(source=library.source).pk)
    program = Caller(library.owner, scopes=("ingest",))
    answer = program.post(f"api/v1/sources/{library.source.pk}/documents/retry/")
    assert (answer.status_code, answer.json()) == (202, {"retried": 1})
    assert visible_documents(library.as_owner).get().state == "waiting"
