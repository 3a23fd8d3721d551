"""Pushing documents: content, details and rights in one call, each item whole or not at all."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from accounts.permissions import Origin, Verb, user_grants_of
from audit.models import AuditEvent
from kaizen.kernel.errors import Denied, Invalid, Missing
from retrieval.acl import visible_documents
from retrieval.documents import set_acl_state
from retrieval.ingest.store import ingest_document
from retrieval.models import Chunk, Document, DocumentVersion, WaitingReader
from retrieval.push import MOST_ITEMS, Result, push
from retrieval.search import search
from tests import factories
from tests.retrieval.conftest import Library
from tests.retrieval.ingest import samples
from tests.retrieval.test_api import Caller


def send(library: Library, *items: object) -> list[Result]:
    return push(library.as_owner, source=library.source, items=items)


def one(library: Library, **item: Any) -> Result:
    (result,) = send(library, {"external_id": "a", **item})
    return result


def readers(*emails: str) -> dict[str, Any]:
    return {"readers": [{"kind": "email", "name": email} for email in emails]}


def document(library: Library, external_id: str = "a") -> Document:
    return Document.objects.get(source=library.source, external_id=external_id, deleted_at=None)


def read(library: Library) -> Document:
    found = document(library)
    ingest_document(found.pk)
    found.refresh_from_db()
    return found


def test_text_comes_with_its_details(library: Library) -> None:
    result = one(
        library,
        title="Field notes",
        text="Herons stand in shallow water.",
        url="https://example.org/notes",
        author="Ana",
        tags=["birds", "birds", "water"],
        dated_at="2031-03-04T09:30:00+01:00",
        path="notes/herons",
    )
    found = read(library)
    assert (result.status, result.document_id) == ("created", found.pk)
    assert (found.title, found.url, found.author, found.tags, found.path, found.state) == (
        "Field notes",
        "https://example.org/notes",
        "Ana",
        ["birds", "water"],
        "notes/herons",
        "indexed",
    )
    assert found.dated_at is not None
    assert found.dated_at.isoformat() == "2031-03-04T08:30:00+00:00"
    assert found.file_name == "Field notes.md"
    assert search(library.as_owner, query="herons").hits[0].document_id == found.pk


def test_a_file_comes_in_base64(library: Library) -> None:
    data = base64.b64encode(samples.docx()).decode()
    assert one(library, content=data, file_name="rules.docx").status == "created"
    assert read(library).title == "Travel rules"


def test_the_same_again_changes_nothing(library: Library) -> None:
    item = {"text": "Words.", "title": "T", "tags": ["x"], "acl": readers("ana@example.org")}
    one(library, **item)
    before = read(library)
    events = AuditEvent.objects.exclude(action="retrieval.pushed").count()
    assert one(library, **item).status == "unchanged"
    after = document(library)
    assert (after.state_at, after.updated_at) == (before.state_at, before.updated_at)
    assert DocumentVersion.objects.filter(document=after).count() == 1
    assert AuditEvent.objects.exclude(action="retrieval.pushed").count() == events


def test_other_details_read_nothing_again_but_another_title_does(library: Library) -> None:
    one(library, text="Words.", title="T")
    before = read(library)
    assert one(library, author="Ana", tags=["x"], path="p").status == "updated"
    after = document(library)
    assert (after.state, after.state_at, after.author) == ("indexed", before.state_at, "Ana")
    assert one(library, title="Other").status == "updated"
    assert (document(library).state, document(library).title) == ("waiting", "Other")
    assert read(library).title == "Other"
    assert search(library.as_owner, query="other").hits[0].document_id == after.pk


def test_other_rights_read_and_embed_nothing(library: Library) -> None:
    email = library.member.user.email
    one(library, text="Herons.", acl=readers())
    before = read(library)
    chunks = list(Chunk.objects.filter(document=before).values_list("pk", flat=True))
    assert search(library.as_member, query="herons").hits == ()
    assert one(library, acl=readers(email.upper())).status == "updated"
    assert [hit.document_id for hit in search(library.as_member, query="herons").hits] == [
        before.pk
    ]
    assert one(library, acl="unknown").status == "updated"
    assert search(library.as_member, query="herons").hits == ()
    assert not visible_documents(library.as_owner).exists()
    assert one(library, acl={"inherit": True}).status == "updated"
    assert search(library.as_owner, query="herons").hits[0].document_id == before.pk
    assert search(library.as_member, query="herons").hits == ()
    after = document(library)
    assert after.state_at == before.state_at
    assert list(Chunk.objects.filter(document=after).values_list("pk", flat=True)) == chunks


def test_readers_are_people_teams_and_everyone_and_unknown_names_wait(library: Library) -> None:
    team = factories.make_team(library.organization, library.member, label="Field")
    named = [{"kind": "team", "name": "Field"}, {"kind": "email", "name": "new@example.org"}]
    one(library, text="Words.", acl={"readers": named})
    assert visible_documents(library.as_member).count() == 1
    assert not visible_documents(library.as_owner).exists()
    assert WaitingReader.objects.get(document=document(library)).name == "new@example.org"
    team.delete()
    assert not visible_documents(library.as_member).exists()
    one(library, acl={"readers": [{"kind": "everyone"}]})
    assert visible_documents(library.as_owner).count() == 1
    assert not WaitingReader.objects.filter(document=document(library)).exists()


def test_grants_given_by_hand_stay(library: Library) -> None:
    one(library, text="Words.", acl=readers())
    factories.grant(library.member, Verb.VIEW, document(library))
    one(library, acl=readers("ana@example.org"))
    assert visible_documents(library.as_member).count() == 1
    one(library, acl={"inherit": True})
    rows = user_grants_of(Document).objects.filter(content_object_id=document(library).key)
    assert [row.origin for row in rows] == [Origin.MANUAL]


def test_deleting_is_said_once_and_may_be_repeated(library: Library) -> None:
    one(library, text="Herons.")
    found = read(library)
    assert one(library, deleted=True).status == "deleted"
    assert one(library, deleted=True).status == "unchanged"
    assert search(library.as_owner, query="herons").hits == ()
    assert one(library, text="Herons.").status == "created"
    assert document(library).pk != found.pk


@pytest.mark.parametrize(
    ("item", "code"),
    [
        ({"text": "x", "acls": {"readers": []}}, "unknown_member"),
        ({"text": "x", "acl": {"reader": []}}, "acl"),
        ({"text": "x", "acl": {"inherit": False}}, "acl"),
        ({"text": "x", "acl": "everyone"}, "acl"),
        ({"text": "x", "acl": {"readers": [{"kind": "email"}]}}, "acl"),
        ({"text": "x", "acl": {"readers": [{"kind": "group", "name": "x"}]}}, "acl"),
        ({"text": "x", "acl": None}, "acl"),
        ({"text": "x", "content": "eA=="}, "invalid"),
        ({"content": "eA=="}, "invalid"),
        ({"content": "not base64", "file_name": "a.txt"}, "base64"),
        ({"text": 5}, "invalid"),
        ({"text": "x", "title": "x" * 301}, "invalid"),
        ({"text": "x", "url": "javascript:x()"}, "invalid"),
        ({"text": "x", "tags": "birds"}, "invalid"),
        ({"text": "x", "dated_at": "yesterday"}, "invalid"),
        ({"text": "x", "dated_at": "2031-99-99"}, "invalid"),
        ({"text": "x", "deleted": "yes"}, "invalid"),
        ({"deleted": True, "title": "x"}, "invalid"),
        ({"title": "No content"}, "invalid"),
        ({"external_id": " ", "text": "x"}, "invalid"),
        ({"external_id": "x" * 1001, "text": "x"}, "invalid"),
        ({"external_id": 7, "text": "x"}, "invalid"),
    ],
)
def test_a_wrong_item_is_refused_by_itself(
    library: Library, item: dict[str, Any], code: str
) -> None:
    wrong, right = send(library, {"external_id": "a", **item}, {"external_id": "b", "text": "x"})
    assert (wrong.status, wrong.code, right.status) == ("refused", code, "created")
    assert [row.external_id for row in Document.objects.filter(source=library.source)] == ["b"]


def test_what_is_no_object_or_comes_twice_is_refused(library: Library) -> None:
    results = send(library, 5, None, [], {"external_id": "a", "text": "1"}, {"external_id": "a"})
    assert [result.status for result in results] == ["refused"] * 3 + ["created", "refused"]
    assert results[4].code == "twice"


def test_an_item_that_fails_late_leaves_nothing_behind(library: Library) -> None:
    factories.grant(library.member, Verb.CHANGE, library.source)
    (refused, stored) = push(
        library.as_member,
        source=library.source,
        items=[
            {"external_id": "a", "text": "Secret.", "acl": readers()},
            {"external_id": "b", "text": "Open."},
        ],
    )
    assert (refused.status, refused.code, stored.status) == ("refused", "denied", "created")
    assert not Document.objects.filter(external_id="a").exists()


def test_pushing_needs_change_and_rights_need_manage(library: Library) -> None:
    with pytest.raises(Missing):
        push(library.as_member, source=library.source, items=[])
    factories.grant(library.member, Verb.USE, library.source)
    with pytest.raises(Denied):
        push(library.as_member, source=library.source, items=[])
    with pytest.raises(Invalid):
        send(library, *[{}] * (MOST_ITEMS + 1))


def test_who_does_not_see_a_document_may_not_replace_it(library: Library) -> None:
    one(library, text="Mine.")
    set_acl_state(library.as_owner, document=document(library), state=Document.AclState.RESTRICTED)
    factories.grant(library.member, Verb.CHANGE, library.source)
    for item in ({"text": "Theirs."}, {"author": "Eve"}, {"deleted": True}):
        (result,) = push(
            library.as_member, source=library.source, items=[{"external_id": "a", **item}]
        )
        assert (result.status, result.code) == ("refused", "denied")
    assert document(library).author == ""
    assert document(library).versions.count() == 1


def test_a_manager_updates_what_only_others_may_read(library: Library) -> None:
    one(library, text="One.", acl=readers(library.member.user.email))
    assert one(library, text="Two.").status == "updated"
    assert document(library).acl_state == "restricted"
    assert visible_documents(library.as_member).count() == 1


def test_the_call_over_http_takes_lists_and_lines(library: Library) -> None:
    address = f"api/v1/sources/{library.source.pk}/documents/push/"
    program = Caller(library.owner, scopes=("ingest",))
    answer = program.send(address, {"items": [{"external_id": "a", "text": "One."}]})
    assert answer.status_code == 200
    assert answer.json() == {
        "results": [
            {
                "external_id": "a",
                "status": "created",
                "document": str(document(library).pk),
                "error": None,
            }
        ]
    }
    lines = (
        b'{"external_id": "b", "text": "Two."}\nnonsense\n\n{"external_id": "a", "deleted": true}'
    )
    answer = program.client.post(
        program.base + address, lines, "application/x-ndjson", headers=program.headers
    )
    results = answer.json()["results"]
    assert [result["status"] for result in results] == ["created", "refused", "deleted"]
    assert results[1]["error"] == {"code": "invalid", "message": "An item is a JSON object."}


@pytest.mark.parametrize("body", [b"", b"{", b'"x"', b"[" * 100_000, b'{"item": []}'])
def test_a_body_that_is_no_list_is_refused(library: Library, body: bytes) -> None:
    program = Caller(library.owner)
    address = f"{program.base}api/v1/sources/{library.source.pk}/documents/push/"
    assert program.client.post(address, body, "application/json").status_code == 400


def test_a_large_call_is_taken(library: Library) -> None:
    program = Caller(library.owner)
    items = [{"external_id": str(n), "text": f"{n} " + "word " * 2_000} for n in range(400)]
    assert len(json.dumps(items)) > 3_000_000
    answer = program.send(f"api/v1/sources/{library.source.pk}/documents/push/", items)
    assert {result["status"] for result in answer.json()["results"]} == {"created"}


def test_a_key_without_the_scope_pushes_nothing(library: Library) -> None:
    program = Caller(library.owner, scopes=("search",))
    answer = program.send(
        f"api/v1/sources/{library.source.pk}/documents/push/", [{"external_id": "a", "text": "x"}]
    )
    assert answer.status_code == 403
    assert not Document.objects.filter(source=library.source).exists()
