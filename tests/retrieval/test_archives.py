"""Archives as documents: each entry one of its own, whatever happens to worker or archive."""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounts.permissions import Verb, team_grants_of, user_grants_of
from audit.models import AuditEvent
from kaizen.kernel.clock import now
from retrieval import archives
from retrieval.acl import visible_documents
from retrieval.archives import expand_document
from retrieval.connectors.contract import Principal, PrincipalKind
from retrieval.documents import delete_document, retry_document, set_acl_state, upload
from retrieval.ingest.parse import Entry
from retrieval.ingest.store import Ended, ingest_document
from retrieval.jobs import find_lost
from retrieval.models import Document, DocumentVersion
from retrieval.parts import parts_of
from retrieval.rights import set_readers
from retrieval.search import search
from tests import factories
from tests.retrieval.conftest import Library
from tests.retrieval.ingest import samples
from tests.retrieval.ingest.archives import zipped

FILES = {
    "notes/herons.md": b"# Herons\n\nHerons stand in shallow water.",
    "walrus.txt": b"Walruses lie on the ice.",
    "pic.png": samples.PNG,
}


def put(library: Library, files: dict[str, bytes], **more: str) -> Document:
    """Upload as `a.zip`, without reading."""
    return upload(
        library.as_owner,
        source=library.source,
        file_name="a.zip",
        data=zipped(files),
        start=False,
        **more,
    )


def expand(library: Library, files: dict[str, bytes] = FILES, **more: str) -> Document:
    """Upload, unpack, and read what came out."""
    archive = put(library, files, **more)
    assert expand_document(archive.pk) == "expanded"
    for part in parts_of(archive).filter(state=Document.State.WAITING):
        assert ingest_document(part.pk).ended is Ended.INDEXED
    archive.refresh_from_db()
    return archive


def paths(archive: Document) -> list[str]:
    return sorted(parts_of(archive).values_list("path", flat=True))


def test_reading_an_archive_leaves_it_to_the_job_that_unpacks_it(library: Library) -> None:
    archive = put(library, FILES)
    assert ingest_document(archive.pk).ended == "unpacking"
    archive.refresh_from_db()
    assert archive.state == Document.State.WAITING
    assert expand_document(archive.pk) == "expanded"
    assert ingest_document(archive.pk).ended is Ended.NOTHING


def test_each_file_becomes_a_document_under_its_path(library: Library) -> None:
    archive = expand(library, path="2031/a.zip")
    assert (archive.state, archive.state_code) == ("indexed", "expanded")
    assert archive.state_message == (
        "Expanded into 2 documents, 1 refused: This file is a PNG image, which can't be read."
    )
    assert archive.current_version.warnings == [
        "pic.png: This file is a PNG image, which can't be read."
    ]
    herons = parts_of(archive).get(file_name="herons.md")
    assert (herons.title, herons.path, herons.external_id, herons.state) == (
        "Herons",
        "2031/a.zip/notes/herons.md",
        "a.zip!/notes/herons.md",
        "indexed",
    )
    assert [hit.document_id for hit in search(library.as_owner, query="herons").hits][:1] == [
        herons.pk
    ]
    events = AuditEvent.objects.filter(action="retrieval.document_added", channel="system")
    assert {event.data["archive"] for event in events} == {str(archive.pk)}


def test_a_worker_killed_in_the_middle_loses_and_doubles_nothing(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"{n}.txt": f"Text number {n}.".encode() for n in range(10)}
    archive = put(library, files)
    stored: list[str] = []
    whole = archives._store

    def die(claim: object, entry: Entry) -> object:
        if len(stored) == 4:
            raise KeyboardInterrupt
        stored.append(entry.path)
        return whole(claim, entry)  # type: ignore[arg-type]

    monkeypatch.setattr(archives, "_store", die)
    with pytest.raises(KeyboardInterrupt):
        expand_document(archive.pk)
    monkeypatch.undo()
    first = set(parts_of(archive).values_list("pk", flat=True))
    assert len(first) == 4
    assert expand_document(archive.pk) == "nothing"
    Document.objects.filter(pk=archive.pk).update(state_at=now() - timedelta(seconds=121))
    assert archive.pk in find_lost()
    assert expand_document(archive.pk) == "expanded"
    everything = parts_of(archive)
    assert sorted(part.file_name for part in everything) == sorted(files)
    assert first <= {part.pk for part in everything}
    assert DocumentVersion.objects.filter(document__in=everything).count() == 10


def test_replacing_an_archive_changes_what_differs_and_removes_what_left(library: Library) -> None:
    archive = expand(library)
    before = {part.file_name: part for part in parts_of(archive)}
    expand(library, {"notes/herons.md": FILES["notes/herons.md"], "new.txt": b"A new text."})
    after = {part.file_name: part for part in parts_of(archive)}
    assert set(after) == {"herons.md", "new.txt"}
    same = after["herons.md"]
    assert (same.pk, same.state_at) == (before["herons.md"].pk, before["herons.md"].state_at)
    assert DocumentVersion.objects.filter(document=same).count() == 1
    assert search(library.as_owner, query="walruses on the ice").hits[0].document_id != (
        before["walrus.txt"].pk
    )
    assert Document.objects.get(pk=before["walrus.txt"].pk).deleted_at is not None
    expand(library, {"notes/herons.md": b"# Egrets\n\nEgrets too."})
    same.refresh_from_db()
    assert (same.title, same.versions.count()) == ("Egrets", 2)


def test_one_unreadable_file_does_not_touch_the_others(library: Library) -> None:
    archive = put(library, {"bad.docx": samples.docx()[:900], "good.txt": b"Good words."})
    expand_document(archive.pk)
    for part in parts_of(archive):
        ingest_document(part.pk)
    states = dict(parts_of(archive).values_list("file_name", "state"))
    archive.refresh_from_db()
    assert states == {"good.txt": "indexed"}
    assert archive.state_message.startswith("Expanded into 1 document, 1 refused: ")


def test_an_archive_without_a_readable_file_fails_and_can_be_retried(library: Library) -> None:
    archive = put(library, {"pic.png": samples.PNG})
    assert expand_document(archive.pk) == "failed"
    archive.refresh_from_db()
    assert (archive.state, archive.state_code) == ("failed", "no_files")
    assert archive.state_message == (
        "Nothing in this archive can be read, 1 refused: This file is a PNG image, which can't be "
        "read."
    )
    retry_document(library.as_owner, document=archive)
    assert expand_document(archive.pk) == "failed"


def test_deleting_an_archive_deletes_its_documents(library: Library) -> None:
    archive = expand(library)
    parts = list(parts_of(archive))
    delete_document(library.as_owner, document=archive)
    assert not visible_documents(library.as_owner).exists()
    assert search(library.as_owner, query="herons").hits == ()
    assert Document.objects.filter(pk__in=[part.pk for part in parts], deleted_at=None).count() == 0


def test_an_archive_deleted_while_it_is_unpacked_stays_deleted(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = put(library, {f"{n}.txt": f"Text {n}.".encode() for n in range(5)})
    whole = archives._store

    def interrupt(claim: object, entry: Entry) -> object:
        if entry.path == "3.txt":
            delete_document(library.as_owner, document=archive)
        return whole(claim, entry)  # type: ignore[arg-type]

    monkeypatch.setattr(archives, "_store", interrupt)
    assert expand_document(archive.pk) == "lost"
    assert not visible_documents(library.as_owner).exists()


def test_what_comes_out_of_a_restricted_archive_is_as_restricted(library: Library) -> None:
    archive = put(library, FILES)
    set_acl_state(library.as_owner, document=archive, state=Document.AclState.RESTRICTED)
    team = factories.make_team(library.organization, library.member)
    factories.grant(team, Verb.VIEW, archive)
    loner = factories.make_member(library.organization)
    factories.grant(loner, Verb.VIEW, library.source)
    expand_document(archive.pk)
    assert visible_documents(library.as_member).count() == 3
    assert not visible_documents(factories.authority_of(loner)).exists()
    part = parts_of(archive).first()
    assert part is not None
    assert user_grants_of(Document).objects.filter(content_object_id=part.key).count() == 1
    assert team_grants_of(Document).objects.filter(content_object_id=part.key).count() == 1


def test_rights_set_on_an_archive_hold_for_its_documents(library: Library) -> None:
    archive = expand(library)
    factories.grant(library.member, Verb.VIEW, library.source)
    assert visible_documents(library.as_member).count() == 3
    set_acl_state(library.as_owner, document=archive, state=Document.AclState.RESTRICTED)
    assert not visible_documents(library.as_member).exists()
    assert visible_documents(library.as_owner).count() == 3
    set_readers(archive, [Principal(PrincipalKind.EMAIL, library.member.user.email)])
    assert visible_documents(library.as_member).count() == 3
    assert len(search(library.as_member, query="herons and walruses").hits) == 2
    set_readers(archive, None)
    assert not visible_documents(library.as_owner).exists()


def test_an_archive_inside_an_archive_is_never_unpacked(library: Library) -> None:
    archive = put(library, {"a.txt": b"Words."})
    expand_document(archive.pk)
    part = parts_of(archive).get()
    upload(
        library.as_owner,
        source=library.source,
        file_name="inner.zip",
        data=zipped(FILES),
        external_id=part.external_id,
        start=False,
    )
    assert expand_document(part.pk) == "failed"
    part.refresh_from_db()
    assert (part.state_code, parts_of(part).count()) == ("nested_archive", 0)


def test_what_turned_out_to_be_no_archive_goes_back_to_the_readers(library: Library) -> None:
    for name, data in (("a.docx", samples.docx()), ("b.md", b"# Words")):
        document = upload(
            library.as_owner, source=library.source, file_name=name, data=data, start=False
        )
        assert expand_document(document.pk) == "nothing"
        assert ingest_document(document.pk).ended is Ended.INDEXED


def test_a_document_that_has_the_place_of_an_entry_keeps_it(library: Library) -> None:
    mine = library.add("My own words.", "mine.md", external_id="a.zip!/walrus.txt")
    archive = expand(library)
    assert paths(archive) == ["a.zip/notes/herons.md"]
    mine.refresh_from_db()
    assert (mine.versions.count(), mine.title) == (1, "mine")
    assert "Another document of this source has its place (" not in archive.state_message
    assert "Another document of this source has its place" in archive.state_message


def test_a_damaged_archive_fails_with_its_reason(library: Library) -> None:
    archive = upload(
        library.as_owner,
        source=library.source,
        file_name="a.zip",
        data=zipped(FILES)[:200],
        start=False,
    )
    assert ingest_document(archive.pk).ended is Ended.FAILED
    archive.refresh_from_db()
    assert archive.state_code == "corrupt"
