"""The retrieval API and pages through their addresses: shapes, scopes, refusals."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from accounts.models import Membership
from accounts.permissions import Verb
from accounts.services import create_key
from kaizen.kernel.clock import now
from retrieval.documents import upload
from retrieval.ingest.store import ingest_document
from retrieval.models import Blob, Chunk, Document
from tests import factories
from tests.retrieval.conftest import Library
from tests.retrieval.test_search import CASE_QUERIES

TEXT = "# Plan\n\nThe zebrafish-881 plan is simple."


class Caller:
    """A browser signed in as one member, or a program with a key."""

    def __init__(self, membership: Membership, *, scopes: tuple[str, ...] | None = None) -> None:
        self.client = Client(raise_request_exception=True)
        self.base = f"/o/{membership.organization.slug}/"
        self.headers: dict[str, str] = {}
        if scopes is None:
            self.client.force_login(membership.user)
        else:
            _, secret = create_key(
                factories.authority_of(membership),
                name="test",
                scopes=scopes,
                expires_at=now() + timedelta(days=1),
            )
            self.headers["Authorization"] = f"Bearer {secret}"

    def get(self, path: str, **query: Any) -> Any:
        return self.client.get(self.base + path, query, headers=self.headers)

    def post(self, path: str, data: Any = None, **headers: str) -> Any:
        return self.client.post(self.base + path, data or {}, headers={**self.headers, **headers})

    def delete(self, path: str) -> Any:
        return self.client.delete(self.base + path, headers=self.headers)

    def send(self, path: str, data: object, method: str = "post") -> Any:
        call = getattr(self.client, method)
        return call(self.base + path, json.dumps(data), "application/json", headers=self.headers)


@pytest.fixture
def owner(library: Library) -> Caller:
    return Caller(library.owner)


@pytest.fixture
def member(library: Library) -> Caller:
    return Caller(library.member)


def file(name: str, content: bytes = TEXT.encode()) -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content, "text/markdown")


def test_a_file_travels_from_upload_to_answer(library: Library, owner: Caller) -> None:
    sent = owner.post(f"api/v1/sources/{library.source.pk}/documents/", {"file": file("plan.md")})
    assert sent.status_code == 201
    body = sent.json()
    assert (body["state"], body["title"], body["source"]) == (
        "waiting",
        "plan",
        str(library.source.pk),
    )
    ingest_document(body["id"])
    read = owner.get(f"api/v1/documents/{body['id']}/").json()
    assert (read["state"], read["title"], read["passage_count"]) == ("indexed", "Plan", 1)
    answer = owner.get("api/v1/search/", q="simple plan")
    assert answer["Cache-Control"] == "no-store"
    (hit,) = answer.json()["results"]
    assert hit["document"] == body["id"]
    assert set(hit) == {
        "passage", "document", "version", "source", "source_name", "title", "path", "heading_path",
        "page", "text", "url", "type", "author", "tags", "updated_at", "dated_at",
        "score", "lexical_rank", "vector_rank", "marks",
    }  # fmt: skip
    passage = owner.get(f"api/v1/passages/{hit['passage']}/").json()
    assert passage["text"] == hit["text"] == "The zebrafish-881 plan is simple."
    listed = owner.get(f"api/v1/documents/{body['id']}/passages/").json()
    assert (listed["total"], listed["next_start"]) == (1, None)
    assert [row["id"] for row in listed["results"]] == [hit["passage"]]


def test_an_idempotency_key_makes_a_repeat_the_same_upload(library: Library, owner: Caller) -> None:
    path = f"api/v1/sources/{library.source.pk}/documents/"
    key = {"Idempotency-Key": "once"}
    first = owner.post(path, {"file": file("a.md")}, **key)
    again = owner.post(path, {"file": file("a.md")}, **key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["id"] == again.json()["id"]
    other = owner.post(path, {"file": file("a.md", b"other")}, **key)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key")
    assert Document.objects.filter(organization=library.organization).count() == 1


def test_sources_over_the_api(library: Library, owner: Caller, member: Caller) -> None:
    made = owner.send("api/v1/sources/", {"name": "Notes", "description": "d"})
    assert made.status_code == 201
    path = f"api/v1/sources/{made.json()['id']}/"
    assert owner.send(path, {"name": "Field notes"}, "patch").json()["name"] == "Field notes"
    assert [row["name"] for row in owner.get("api/v1/sources/").json()["results"]] == [
        "Field notes",
        "Library",
    ]
    project = factories.make_project(library.organization)
    factories.grant(library.owner, Verb.CHANGE, project)
    moved = owner.send(path, {"project": str(project.pk)}, "patch")
    assert moved.json()["project"] == str(project.pk)
    assert member.get(path).status_code == 404
    assert member.send("api/v1/sources/", {"name": "Mine"}).status_code == 403
    assert owner.delete(path).status_code == 204
    assert owner.get(path).status_code == 404


@pytest.mark.parametrize(
    ("scope", "statuses"),
    [("search", (200, 403, 200)), ("ingest", (403, 201, 200)), ("chat", (403, 403, 403))],
)
def test_a_key_does_what_its_scopes_say(
    library: Library, scope: str, statuses: tuple[int, int, int]
) -> None:
    document = library.add(TEXT, "plan.md")
    program = Caller(library.owner, scopes=(scope,))
    path = f"api/v1/sources/{library.source.pk}/documents/"
    assert (
        program.get("api/v1/search/", q="plan").status_code,
        program.post(path, {"file": file("b.md")}).status_code,
        program.get(f"api/v1/documents/{document.pk}/").status_code,
    ) == statuses
    assert program.send("api/v1/sources/", {"name": "x"}).status_code == 403


def test_strangers_get_the_same_answer_as_for_what_is_not_there(
    library: Library, member: Caller
) -> None:
    document = library.add(TEXT, "plan.md")
    chunk = Chunk.objects.get(document=document)
    foreign = Caller(factories.make_member(factories.make_organization()))
    for caller in (member, foreign):
        for path in (
            f"api/v1/sources/{library.source.pk}/",
            f"api/v1/sources/{library.source.pk}/documents/",
            f"api/v1/documents/{document.pk}/",
            f"api/v1/documents/{document.pk}/content/",
            f"api/v1/documents/{document.pk}/passages/",
            f"api/v1/passages/{chunk.pk}/",
            f"sources/{library.source.pk}/",
            f"sources/{library.source.pk}/documents/",
            f"documents/{document.pk}/",
            f"documents/{document.pk}/download/",
        ):
            answer = caller.get(path)
            assert answer.status_code == 404, path
            assert b"zebrafish" not in answer.content
        assert caller.delete(f"api/v1/documents/{document.pk}/").status_code == 404
        assert caller.post(f"api/v1/documents/{document.pk}/retry/").status_code == 404
        assert caller.post(f"documents/{document.pk}/delete/").status_code == 404
        assert caller.get("api/v1/search/", q="zebrafish-881").json()["results"] == []
    document.refresh_from_db()
    assert (document.state, document.deleted_at) == ("indexed", None)


@pytest.mark.parametrize("query", CASE_QUERIES)
def test_K39_search_answers_any_query(library: Library, owner: Caller, query: str) -> None:
    library.add(TEXT, "plan.md")
    answer = owner.get("api/v1/search/", q=query)
    assert (answer.status_code, len(answer.json()["results"])) == (200, 1)
    assert owner.get("search/", q=query).status_code == 200


@pytest.mark.parametrize(
    ("query", "code"), [(" ", "blank_query"), ("a" * 10_000, "query_too_long")]
)
def test_K39_search_refuses_a_blank_or_endless_query(owner: Caller, query: str, code: str) -> None:
    answer = owner.get("api/v1/search/", q=query)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert answer["Content-Type"] == "application/problem+json"
    assert owner.get("search/", q=query).status_code == 400


def test_K06_a_deleted_document_answers_nothing_with_no_worker_running(
    library: Library, owner: Caller
) -> None:
    document = library.add(TEXT, "plan.md")
    chunk = Chunk.objects.get(document=document)
    assert len(owner.get("api/v1/search/", q="zebrafish-881").json()["results"]) == 1
    assert owner.delete(f"api/v1/documents/{document.pk}/").status_code == 204
    for mode in ("lexical", "semantic", "hybrid"):
        answer = owner.get("api/v1/search/", q="zebrafish-881", mode=mode)
        assert answer.json()["results"] == []
    for path in (
        f"api/v1/documents/{document.pk}/content/",
        f"api/v1/documents/{document.pk}/",
        f"api/v1/passages/{chunk.pk}/",
        f"documents/{document.pk}/",
        f"documents/{document.pk}/download/",
    ):
        assert owner.get(path).status_code == 404


def test_K23_a_file_with_nul_bytes_is_taken_and_found(
    library: Library, owner: Caller, shared_data: Path
) -> None:
    data = (shared_data / "cases" / "nul-in-text.txt").read_bytes()
    path = f"api/v1/sources/{library.source.pk}/documents/"
    sent = owner.post(path, {"file": file("nul-in-text.txt", data)})
    assert sent.status_code == 201
    ingest_document(sent.json()["id"])
    read = owner.get(f"api/v1/documents/{sent.json()['id']}/").json()
    assert (read["state"], read["warnings"]) == ("indexed", ["3 NUL characters replaced."])
    hits = owner.get("api/v1/search/", q="4471").json()["results"]
    assert [hit["document"] for hit in hits] == [sent.json()["id"]]


def test_K73_an_uploaded_page_is_a_download_and_never_runs(
    library: Library, owner: Caller, shared_data: Path
) -> None:
    data = (shared_data / "cases" / "badge.svg").read_bytes()
    document = upload(
        library.as_owner,
        source=library.source,
        file_name="badge.svg",
        data=data,
        media_type="image/svg+xml",
        start=False,
    )
    ingest_document(document.pk)
    for path in (f"documents/{document.pk}/download/", f"api/v1/documents/{document.pk}/content/"):
        answer = owner.get(path)
        assert answer.status_code == 200
        assert b"".join(answer.streaming_content) == data
        assert answer["Content-Disposition"] == 'attachment; filename="badge.svg"'
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert answer["Content-Security-Policy"] == "default-src 'none'; sandbox"
        assert answer["Content-Type"] == "application/octet-stream"
    document.refresh_from_db()
    assert "RAN" not in document.title


def test_K73_names_never_lead_out_of_the_store(
    library: Library, owner: Caller, shared_data: Path
) -> None:
    names = json.loads((shared_data / "cases" / "upload-names.json").read_text())
    path = f"api/v1/sources/{library.source.pk}/documents/"
    shown = {}
    for name in names:
        answer = _send_named(owner, path, name)
        shown[name] = answer.json().get("file_name") if answer.status_code == 201 else None
        assert answer.status_code == (400 if not name.strip() else 201), name
    assert shown == {
        "../../outside.txt": "outside.txt",
        "/etc/cron.d/evil.txt": "evil.txt",
        "a/b/c.md": "c.md",
        "..\\..\\win.txt": "win.txt",
        "normal name.pdf": "normal name.pdf",
        "": None,
        "   ": None,
        ".htaccess": ".htaccess",
    }
    (blob,) = Blob.objects.filter(organization=library.organization)
    assert default_storage.exists(blob.storage_name)
    root = Path(default_storage.path("")) / "blobs" / str(library.organization.pk)
    assert [str(f.relative_to(root.parents[1])) for f in root.rglob("*") if f.is_file()] == [
        blob.storage_name
    ]


def _send_named(caller: Caller, path: str, name: str) -> Any:
    """A multipart body as a program writes it, with the name untouched."""
    quoted = name.replace("\\", "\\\\")
    body = (
        f'--b\r\nContent-Disposition: form-data; name="file"; filename="{quoted}"\r\n'
        "Content-Type: text/plain\r\n\r\nx\r\n--b--\r\n"
    )
    return caller.client.post(
        caller.base + path, body.encode(), "multipart/form-data; boundary=b", headers=caller.headers
    )


def test_the_pages_show_what_one_may_see(library: Library, owner: Caller, member: Caller) -> None:
    document = library.add(TEXT, "plan.md")
    chunk = Chunk.objects.get(document=document)
    for path, text in (
        ("sources/", "Library"),
        (f"sources/{library.source.pk}/", "Plan"),
        (f"sources/{library.source.pk}/documents/", "Plan"),
        ("search/?q=plan", "zebrafish-881"),
        (f"documents/{document.pk}/?passage={chunk.pk}&span=4-13", '<mark id="marked">zebrafish'),
        (f"documents/{document.pk}/?passage={chunk.pk}&fragment=1", "zebrafish-881"),
    ):
        answer = owner.client.get(owner.base + path)
        assert (answer.status_code, text in answer.content.decode()) == (200, True), path
    assert "Library" not in member.get("sources/").content.decode()
    assert member.get("search/", q="plan").status_code == 200


def test_files_are_uploaded_retried_and_deleted_on_the_page(
    library: Library, owner: Caller
) -> None:
    path = f"sources/{library.source.pk}/"
    sent = owner.post(f"{path}upload/", {"files": [file("a.md"), file("b.md", b"")]})
    assert (sent.status_code, sent["Location"]) == (302, f"{owner.base}{path}")
    page = owner.get(f"{path}documents/").content.decode()
    assert 'hx-trigger="every 2s"' in page
    for document in Document.objects.filter(source=library.source):
        ingest_document(document.pk)
    assert 'hx-trigger="every 2s"' not in owner.get(f"{path}documents/").content.decode()
    failed = Document.objects.get(file_name="b.md", source=library.source)
    assert failed.state == "failed"
    assert owner.post(f"documents/{failed.pk}/retry/", **{"HX-Request": "true"}).status_code == 200
    failed.refresh_from_db()
    assert failed.state == "waiting"
    assert owner.post(f"documents/{failed.pk}/delete/").status_code == 302
    assert owner.get(f"documents/{failed.pk}/").status_code == 404


def test_a_refused_upload_says_why(library: Library, owner: Caller) -> None:
    path = f"sources/{library.source.pk}/upload/"
    assert owner.post(path).status_code == 400
    factories.grant(library.member, Verb.VIEW, library.source)
    answer = Caller(library.member).post(path, {"files": [file("a.md")]})
    assert answer.status_code == 403


def test_sources_are_made_on_the_page(library: Library, owner: Caller, member: Caller) -> None:
    assert owner.post("sources/", {"name": "Notes"}).status_code == 302
    taken = owner.post("sources/", {"name": "Notes"})
    assert (taken.status_code, "There is a source of this name" in taken.content.decode()) == (
        409,
        True,
    )
    assert member.post("sources/", {"name": "Mine"}).status_code == 403
