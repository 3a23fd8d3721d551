"""Sources and documents: who may change what, and that a change is whole."""

from __future__ import annotations

import io

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import connection

from accounts.models import Role
from accounts.permissions import Verb, user_grants_of
from audit.models import AuditEvent
from kaizen.kernel.errors import Conflict, Denied, Invalid, Missing, TooLarge
from retrieval.acl import get_document, get_source, visible_documents
from retrieval.blobs import purge_document
from retrieval.documents import delete_document, open_blob, retry_document, set_acl_state, upload
from retrieval.ingest.store import ingest_document
from retrieval.models import Blob, Chunk, Document, DocumentVersion, Source
from retrieval.sources import archive_source, create_source, update_source
from tests import factories
from tests.retrieval.conftest import Library

TEXT = b"# Plan\n\nThe plan is simple."


def index_rows(document: Document) -> tuple[int, int]:
    """How many rows the vector and the lexeme table hold of a document."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT count(*) FROM retrieval_vector WHERE document_key = %(key)s),"
            " (SELECT count(*) FROM retrieval_lexeme WHERE document_key = %(key)s)",
            {"key": document.key},
        )
        vectors, lexemes = cursor.fetchone()
    return vectors, lexemes


def actions(library: Library) -> list[str]:
    """The audited actions of the organisation, oldest first."""
    events = AuditEvent.objects.filter(organization_id=library.organization.pk)
    return list(events.order_by("id").values_list("action", flat=True))


def test_whoever_makes_a_source_manages_it(library: Library) -> None:
    source = create_source(library.as_owner, name="  Field   notes ")
    assert source.name == "Field notes"
    assert get_source(library.as_owner, source.pk, Verb.MANAGE) == source
    assert actions(library) == ["retrieval.source_created", "accounts.grant_added"]


def test_a_member_makes_no_source(library: Library) -> None:
    with pytest.raises(Denied):
        create_source(library.as_member, name="Mine")
    assert Source.objects.filter(organization=library.organization).count() == 1


@pytest.mark.parametrize(
    ("name", "error"), [("\u200b ", Invalid), ("x" * 121, Invalid), ("Library", Conflict)]
)
def test_a_source_needs_a_name_of_its_own(
    library: Library, name: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        create_source(library.as_owner, name=name)


def test_renaming_needs_change(library: Library) -> None:
    factories.grant(library.member, Verb.USE, library.source)
    with pytest.raises(Denied):
        update_source(library.as_member, source=library.source, name="Other")
    factories.grant(library.member, Verb.CHANGE, library.source)
    assert update_source(library.as_member, source=library.source, name="Other").name == "Other"


def test_an_archived_source_takes_its_passages_out_of_sight(library: Library) -> None:
    document = library.add(TEXT)
    archive_source(library.as_owner, source=library.source)
    with pytest.raises(Missing):
        get_document(library.as_owner, document.pk)
    assert index_rows(document) == (1, 1)


def test_uploading_needs_change(library: Library) -> None:
    factories.grant(library.member, Verb.USE, library.source)
    with pytest.raises(Denied):
        upload(library.as_member, source=library.source, file_name="a.md", data=TEXT)
    outsider = factories.authority_of(factories.make_member(library.organization))
    with pytest.raises(Missing):
        upload(outsider, source=library.source, file_name="a.md", data=TEXT)
    assert not Document.objects.filter(organization=library.organization).exists()


def test_an_upload_waits_and_is_audited(library: Library) -> None:
    document = upload(
        library.as_owner, source=library.source, file_name="dir/plan.md", data=ContentFile(TEXT)
    )
    assert (document.state, document.title, document.file_name) == ("waiting", "plan", "plan.md")
    event = AuditEvent.objects.get(action="retrieval.document_added", object_id=str(document.pk))
    assert (event.data["size"], event.data["version"]) == (27, 1)


def test_the_same_content_again_changes_nothing(library: Library) -> None:
    first = library.add(TEXT, "plan.md")
    again = upload(library.as_owner, source=library.source, file_name="plan.md", data=TEXT)
    assert (again.pk, again.state) == (first.pk, "indexed")
    assert DocumentVersion.objects.filter(document=first).count() == 1


def test_other_content_of_the_same_name_is_the_next_version(library: Library) -> None:
    first = library.add(TEXT, "plan.md")
    second = library.add(b"# Plan B\n\nAnother way.", "plan.md")
    assert second.pk == first.pk
    assert (second.title, second.current_version.number) == ("Plan B", 2)
    assert index_rows(second) == (1, 1)
    assert Chunk.objects.filter(document=second).count() == 2


def test_a_given_title_stays(library: Library) -> None:
    assert library.add(TEXT, "plan.md", title="The plan of 2026").title == "The plan of 2026"


def test_a_name_by_chance_never_reaches_a_document_that_is_not_visible(library: Library) -> None:
    closed = library.add(TEXT, "plan.md")
    set_acl_state(library.as_owner, document=closed, state=Document.AclState.RESTRICTED)
    factories.grant(library.member, Verb.CHANGE, library.source)
    mine = upload(library.as_member, source=library.source, file_name="plan.md", data=b"My plan.")
    assert mine.pk != closed.pk
    with pytest.raises(Denied):
        upload(
            library.as_member,
            source=library.source,
            file_name="x.md",
            data=b"x",
            external_id="plan.md",
        )


def test_a_file_above_the_limit_is_refused(library: Library, settings: object) -> None:
    settings.KAIZEN_UPLOAD_LIMIT = 10  # type: ignore[attr-defined]
    for data in (TEXT, ContentFile(TEXT)):
        with pytest.raises(TooLarge):
            upload(library.as_owner, source=library.source, file_name="a.md", data=data)
    assert not Blob.objects.filter(organization=library.organization).exists()


def test_bytes_are_stored_once_under_a_key_made_here(library: Library) -> None:
    one = library.add(TEXT, "one.md")
    two = library.add(TEXT, "two.md")
    blob = Blob.objects.get(organization=library.organization)
    assert {row.blob_id for row in DocumentVersion.objects.filter(document__in=[one, two])} == {
        blob.pk
    }
    assert blob.storage_name == (f"blobs/{library.organization.pk}/{blob.digest[:2]}/{blob.digest}")


def test_deleting_removes_index_grants_and_sight_in_one_go(library: Library) -> None:
    document = library.add(TEXT)
    factories.grant(library.member, Verb.VIEW, document)
    delete_document(library.as_owner, document=document)
    assert index_rows(document) == (0, 0)
    assert not user_grants_of(Document).objects.filter(content_object_id=document.key).exists()
    assert not visible_documents(library.as_member).exists()
    for authority in (library.as_owner, library.as_member):
        with pytest.raises(Missing):
            open_blob(authority, document=document)
    with pytest.raises(Missing):
        delete_document(library.as_owner, document=document)


def test_deleting_needs_change_on_document_or_source(library: Library) -> None:
    document = library.add(TEXT)
    factories.grant(library.member, Verb.USE, library.source)
    with pytest.raises(Denied):
        delete_document(library.as_member, document=document)
    factories.grant(library.member, Verb.CHANGE, document)
    delete_document(library.as_member, document=document)
    assert not Document.objects.filter(pk=document.pk, deleted_at=None).exists()


def test_purging_removes_the_bytes_that_nobody_needs(library: Library) -> None:
    shared, other = library.add(TEXT, "one.md"), library.add(TEXT, "two.md")
    single = library.add(b"Only here.", "three.md")
    names = [row.blob.storage_name for row in DocumentVersion.objects.filter(document=single)]
    for document in (shared, single):
        delete_document(library.as_owner, document=document)
    assert (purge_document(shared.pk), purge_document(single.pk)) == (0, 1)
    assert [default_storage.exists(name) for name in names] == [False]
    file, _, _ = open_blob(library.as_owner, document=other)
    assert file.read() == TEXT
    assert purge_document(other.pk) == 0


def test_lost_bytes_come_back_with_the_next_upload(library: Library) -> None:
    document = library.add(TEXT, "one.md")
    default_storage.delete(Blob.objects.get(organization=library.organization).storage_name)
    with pytest.raises(Missing):
        open_blob(library.as_owner, document=document)
    library.add(TEXT, "two.md")
    file, _, _ = open_blob(library.as_owner, document=document)
    assert file.read() == TEXT


def test_only_a_failed_document_can_be_read_again(library: Library) -> None:
    with pytest.raises(Conflict):
        retry_document(library.as_owner, document=library.add(TEXT))
    empty = upload(library.as_owner, source=library.source, file_name="e.md", data=b"", start=False)
    ingest_document(empty.pk)
    assert retry_document(library.as_owner, document=empty).state == "waiting"


def test_whoever_restricts_a_document_keeps_managing_it(library: Library) -> None:
    document = library.add(TEXT)
    set_acl_state(library.as_owner, document=document, state=Document.AclState.RESTRICTED)
    assert get_document(library.as_owner, document.pk, Verb.MANAGE) == document
    admin = factories.make_member(library.organization, role=Role.ADMIN)
    with pytest.raises(Missing):
        get_document(factories.authority_of(admin), document.pk)


def test_an_admin_governs_documents_without_seeing_them(library: Library) -> None:
    one, two = library.add(TEXT, "one.md"), library.add(b"Other.", "two.md")
    admin = factories.authority_of(factories.make_member(library.organization, role=Role.ADMIN))
    set_acl_state(admin, document=one, state=Document.AclState.RESTRICTED)
    delete_document(admin, document=two)
    assert list(visible_documents(admin)) == []
    assert not user_grants_of(Document).objects.filter(content_object_id=one.key).exists()
    foreign = factories.make_member(factories.make_organization(), role=Role.OWNER)
    with pytest.raises(Missing):
        delete_document(factories.authority_of(foreign), document=one)


def test_restricting_needs_manage(library: Library) -> None:
    document = library.add(TEXT)
    factories.grant(library.member, Verb.CHANGE, library.source)
    with pytest.raises(Denied):
        set_acl_state(library.as_member, document=document, state=Document.AclState.RESTRICTED)
    document.refresh_from_db()
    assert document.acl_state == "inherit"


def test_a_download_is_audited_and_gives_the_newest_bytes(library: Library) -> None:
    document = library.add(TEXT, "plan.md")
    file, name, media_type = open_blob(library.as_owner, document=document)
    assert (file.read(), name, media_type) == (TEXT, "plan.md", "text/markdown")
    assert actions(library)[-1] == "retrieval.document_downloaded"


@pytest.mark.parametrize("way", ["queryset", "sql"])
def test_K09_a_grant_never_outlives_its_document(library: Library, way: str) -> None:
    document = Document.objects.create(
        organization=library.organization,
        source=library.source,
        title="First",
        file_name="a.md",
        external_id="a",
    )
    factories.grant(library.member, Verb.VIEW, document)
    if way == "queryset":
        Document.objects.filter(pk=document.pk).delete()
    else:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM retrieval_document WHERE id = %s", [document.pk])
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    assert user_grants_of(Document).objects.count() == 0 or not (
        user_grants_of(Document).objects.filter(content_object_id=document.key).exists()
    )
    restored = Document(
        pk=document.pk,
        key=document.key,
        organization=library.organization,
        source=library.source,
        title="Second",
        file_name="a.md",
        external_id="a",
    )
    restored.save(force_insert=True)
    with pytest.raises(Missing):
        get_document(library.as_member, document.pk)


def test_a_file_is_read_from_its_start(library: Library) -> None:
    file = ContentFile(TEXT)
    file.seek(0, io.SEEK_END)
    document = upload(library.as_owner, source=library.source, file_name="a.md", data=file)
    assert DocumentVersion.objects.get(document=document).blob.size == len(TEXT)
