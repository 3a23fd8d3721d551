"""Rights mirrored from a source system: who reads what, when they change, when they are unknown."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import Membership
from accounts.permissions import Origin, Verb, user_grants_of
from retrieval.acl import visible_documents
from retrieval.archives import expand_document
from retrieval.connectors.connections import disconnect
from retrieval.connectors.contract import AclUnknown, ConnectorError, Principal
from retrieval.connectors.sync import Ended
from retrieval.ingest.store import Ended as Reading
from retrieval.ingest.store import ingest_document
from retrieval.models import Chunk, Document, DocumentVersion, WaitingReader
from retrieval.search import search
from tests import factories
from tests.retrieval.conftest import Library
from tests.retrieval.connectors.connected import Connected, connect
from tests.retrieval.connectors.upstream import readers

pytestmark = pytest.mark.django_db


def seen_by(member: Membership) -> list[str]:
    """The external ids of the documents that a member sees."""
    found = visible_documents(factories.authority_of(member))
    return sorted(found.values_list("external_id", flat=True))


def a_member(connected: Connected, email: str) -> Membership:
    return factories.make_member(connected.library.organization, user=factories.make_user(email))


def test_readers_upstream_read_here(mirrored: Connected) -> None:
    ada, bob = a_member(mirrored, "ada@example.org"), a_member(mirrored, "bob@example.org")
    factories.make_team(mirrored.library.organization, bob, label="Crew")
    mirrored.system.put("for-ada", acl=readers("Ada@Example.org"))
    mirrored.system.put("for-crew", acl=readers("Crew"))
    mirrored.system.put("for-all", acl=readers("everyone"))
    mirrored.system.put("for-nobody", acl=readers())
    mirrored.sync()
    assert seen_by(ada) == ["for-ada", "for-all"]
    assert seen_by(bob) == ["for-all", "for-crew"]
    assert seen_by(mirrored.library.owner) == ["for-all"]


def test_a_grant_on_the_source_does_not_open_a_mirrored_document(mirrored: Connected) -> None:
    ada = a_member(mirrored, "ada@example.org")
    factories.grant(ada, Verb.MANAGE, mirrored.library.source)
    mirrored.system.put("a", acl=readers("bob@example.org"))
    mirrored.sync()
    assert seen_by(ada) == []


def test_an_item_without_rights_is_nobodys(mirrored: Connected) -> None:
    mirrored.system.put("a")
    mirrored.sync()
    assert mirrored.get("a").acl_state == Document.AclState.UNKNOWN
    assert seen_by(mirrored.library.owner) == []


def test_a_team_named_everyone_upstream_is_not_everyone_here(mirrored: Connected) -> None:
    ada = a_member(mirrored, "ada@example.org")
    mirrored.system.put("a", acl=readers("Everyone"))
    mirrored.sync()
    assert seen_by(ada) == []


def test_members_of_another_organisation_get_nothing(mirrored: Connected) -> None:
    stranger = factories.make_member(
        factories.make_organization(), user=factories.make_user("ada@example.org")
    )
    mirrored.system.put("a", acl=readers("ada@example.org"))
    mirrored.sync()
    assert not user_grants_of(Document)._default_manager.filter(user=stranger.user).exists()


@pytest.mark.parametrize("lists", [True, False])
def test_changed_rights_arrive_without_reading_or_embedding_again(
    with_test_connectors: None, library: Library, lists: bool
) -> None:
    connected = connect(library, mirrors=True, lists=lists)
    ada, bob = a_member(connected, "ada@example.org"), a_member(connected, "bob@example.org")
    connected.system.put("a", "# A\n\nA quokka.\n", acl=readers("ada@example.org"))
    connected.sync()
    connected.read_all()
    assert (seen_by(ada), seen_by(bob)) == (["a"], [])
    connected.system.fetched.clear()
    passages = list(Chunk.objects.values_list("pk", flat=True))
    connected.system.put("a", "# A\n\nA quokka.\n", acl=readers("bob@example.org"))
    connected.sync()
    assert (seen_by(ada), seen_by(bob)) == ([], ["a"])
    assert connected.system.fetched == []
    document = connected.get("a")
    assert document.state == Document.State.INDEXED
    assert ingest_document(document.pk).ended is Reading.NOTHING
    assert DocumentVersion.objects.filter(document=document).count() == 1
    assert list(Chunk.objects.values_list("pk", flat=True)) == passages
    assert connected.counts()[2] == 1


def test_rights_arrive_though_the_content_cannot_be_fetched(mirrored: Connected) -> None:
    ada = a_member(mirrored, "ada@example.org")
    mirrored.system.put("a", acl=readers("ada@example.org"))
    mirrored.sync()
    mirrored.system.put("a", "new", revision="2", acl=readers())
    mirrored.system.fetch_errors["a"] = ConnectorError("It is locked.")
    mirrored.sync()
    assert seen_by(ada) == []


def test_rights_arrive_before_anything_is_fetched(mirrored: Connected) -> None:
    ada = a_member(mirrored, "ada@example.org")
    mirrored.system.put("a", acl=readers("ada@example.org"))
    mirrored.sync()
    mirrored.system.put("a", "new", revision="2", acl=readers())
    seen: list[list[str]] = []
    mirrored.system.on_fetch = lambda name: seen.append(seen_by(ada))
    mirrored.sync()
    assert seen == [[]]


def test_grants_by_hand_are_not_touched(mirrored: Connected) -> None:
    ada = a_member(mirrored, "ada@example.org")
    mirrored.system.put("a", acl=readers("ada@example.org"))
    mirrored.sync()
    factories.grant(ada, Verb.VIEW, mirrored.get("a"))
    factories.grant(mirrored.library.owner, Verb.MANAGE, mirrored.get("a"))
    mirrored.system.put("a", acl=readers())
    mirrored.sync()
    rows = user_grants_of(Document)._default_manager.order_by("user__email")
    assert [row.origin for row in rows.filter(content_object=mirrored.get("a"))] == [
        Origin.MANUAL,
        Origin.MANUAL,
    ]
    assert seen_by(ada) == ["a"]


def test_a_document_opened_by_hand_to_its_source_is_restricted_again(mirrored: Connected) -> None:
    mirrored.system.put("a", acl=readers())
    mirrored.sync()
    mirrored.documents().update(acl_state=Document.AclState.INHERIT)
    assert seen_by(mirrored.library.owner) == ["a"]
    mirrored.sync()
    assert seen_by(mirrored.library.owner) == []


@pytest.mark.parametrize("lists", [True, False])
def test_who_joins_later_gets_the_grant_at_the_next_sync(
    with_test_connectors: None, library: Library, lists: bool
) -> None:
    connected = connect(library, mirrors=True, lists=lists)
    connected.system.put("a", acl=readers("ada@example.org", "Crew"))
    connected.sync()
    waiting = WaitingReader.objects.order_by("kind").values_list("kind", "name")
    assert list(waiting) == [("email", "ada@example.org"), ("team", "Crew")]
    ada, bob = a_member(connected, "ada@example.org"), a_member(connected, "bob@example.org")
    factories.make_team(library.organization, bob, label="Crew")
    assert (seen_by(ada), seen_by(bob)) == ([], [])
    connected.sync()
    assert (seen_by(ada), seen_by(bob)) == (["a"], ["a"])
    assert not WaitingReader.objects.exists()


def test_while_the_rights_cannot_be_read_nothing_of_the_source_is_anybodys(
    mirrored: Connected,
) -> None:
    ada = a_member(mirrored, "ada@example.org")
    mirrored.system.put("a", "# A\n\nA quokka.\n", acl=readers("ada@example.org"))
    mirrored.sync()
    mirrored.read_all()
    mirrored.system.list_errors = [AclUnknown("The directory doesn't answer.")]
    assert mirrored.sync() is Ended.FAILED
    assert seen_by(ada) == []
    assert search(factories.authority_of(ada), query="quokka").hits == ()
    mirrored.library.source.refresh_from_db()
    assert mirrored.library.source.acl_unknown_since is not None
    assert mirrored.connection.last_error == "The directory doesn't answer."


def test_rights_that_can_be_read_again_open_the_source(mirrored: Connected) -> None:
    ada = a_member(mirrored, "ada@example.org")
    mirrored.system.put("a", acl=readers("ada@example.org"))
    mirrored.sync()
    mirrored.system.list_errors = [AclUnknown("The directory doesn't answer.")]
    mirrored.sync()
    mirrored.system.put("b")
    mirrored.system.fail_after = 0
    mirrored.sync()
    assert seen_by(ada) == []  # broken off: not read in full yet
    mirrored.system.fail_after = None
    mirrored.sync()
    assert seen_by(ada) == ["a"]


def test_rights_of_one_item_that_cannot_be_read_hide_that_one(mirrored: Connected) -> None:
    ada = a_member(mirrored, "ada@example.org")
    for name in "ab":
        mirrored.system.put(name, acl=readers("ada@example.org"))
    mirrored.sync()
    mirrored.system.put("a", revision="2", acl=readers("ada@example.org"))
    mirrored.system.fetch_errors["a"] = AclUnknown("Its rights can't be read.")
    mirrored.sync()
    assert seen_by(ada) == ["b"]


def test_rights_that_make_no_sense_hide_the_document(mirrored: Connected) -> None:
    ada = a_member(mirrored, "ada@example.org")
    mirrored.system.put("a", acl=readers("ada@example.org"))
    mirrored.sync()
    nonsense = readers()
    object.__setattr__(nonsense, "readers", (Principal("planet", "ada@example.org"),))  # type: ignore[arg-type]
    mirrored.system.put("a", acl=nonsense)
    mirrored.sync()
    assert seen_by(ada) == []


def test_a_new_document_is_never_there_before_its_rights(
    mirrored: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rights that can't be stored leave no document behind."""

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("no rights today")

    mirrored.system.put("a", acl=readers("ada@example.org"))
    monkeypatch.setattr("retrieval.connectors.store.mirror_rights", refuse)
    with pytest.raises(RuntimeError, match="no rights today"):
        mirrored.sync()
    assert mirrored.names() == []


def test_disconnecting_takes_back_what_came_from_the_other_side(mirrored: Connected) -> None:
    ada = a_member(mirrored, "ada@example.org")
    mirrored.system.put("a", acl=readers("ada@example.org"))
    mirrored.system.put("b", acl=readers("ada@example.org"))
    mirrored.sync()
    factories.grant(ada, Verb.VIEW, mirrored.get("b"))
    disconnect(mirrored.library.as_owner, connection=mirrored.connection)
    assert seen_by(ada) == ["b"]


def test_a_page_of_a_hundred_known_items_costs_what_one_of_ten_costs(
    with_test_connectors: None, library: Library
) -> None:
    connected = connect(library, mirrors=True, page_size=200)

    def count_queries(items: int) -> int:
        for number in range(items):
            connected.system.put(f"n{number}", acl=readers(f"p{number}@example.org", "everyone"))
        connected.sync()
        with CaptureQueriesContext(connection) as queries:
            connected.sync()
        return len(queries)

    assert count_queries(10) == count_queries(100)


def test_what_came_out_of_an_archive_follows_the_archives_rights(mirrored: Connected) -> None:
    ada, bob = a_member(mirrored, "ada@example.org"), a_member(mirrored, "bob@example.org")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.md", "# A\n\nText.\n")
        archive.writestr("b.md", "# B\n\nText.\n")

    def put(*names: str) -> None:
        mirrored.system.put("notes", file_name="notes.zip", acl=readers(*names))
        mirrored.system.data["notes"] = packed.getvalue()
        mirrored.sync()

    put("ada@example.org")
    assert expand_document(mirrored.get("notes").pk) == "expanded"
    assert (len(seen_by(ada)), seen_by(bob)) == (3, [])
    put("bob@example.org")
    assert (seen_by(ada), len(seen_by(bob))) == ([], 3)
    mirrored.system.drop("notes")
    mirrored.sync()
    assert mirrored.names() == []
