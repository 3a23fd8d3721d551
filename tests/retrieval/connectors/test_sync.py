"""Syncing: pages and checkpoints, doing things twice, deletions, moves."""

from __future__ import annotations

import pytest

from retrieval.connectors.connections import allow_deletions, disconnect
from retrieval.connectors.contract import Gone
from retrieval.connectors.sync import Ended, sync_connection
from retrieval.documents import delete_document
from retrieval.models import Chunk, Connection, Document, SyncRun
from retrieval.search import Mode, search
from tests.retrieval.conftest import Library
from tests.retrieval.connectors.connected import Connected, connect

pytestmark = pytest.mark.django_db


def test_a_sync_brings_every_page_in(connected: Connected) -> None:
    for name in "abcde":
        connected.system.put(name, path=f"notes/{name}", author="Ada", tags=("x",))
    assert connected.sync() is Ended.SUCCEEDED
    assert connected.names() == ["a", "b", "c", "d", "e"]
    assert connected.counts() == (5, 5, 0, 0, 0)
    document = connected.get("a")
    assert (document.path, document.author, document.tags) == ("notes/a", "Ada", ["x"])
    assert (document.state, document.revision) == (Document.State.WAITING, "1")
    assert connected.system.closed == 1


def test_what_was_synced_is_found(connected: Connected) -> None:
    connected.system.put("quokka", "# Quokka\n\nA quokka hops over the sandbank.\n")
    connected.sync()
    connected.read_all()
    found = search(connected.library.as_owner, query="quokka sandbank")
    assert [hit.title for hit in found.hits] == ["Quokka"]


def test_a_second_sync_of_the_same_changes_and_fetches_nothing(connected: Connected) -> None:
    for name in "abc":
        connected.system.put(name)
    connected.sync()
    connected.read_all()
    before = list(connected.documents().order_by("pk").values())
    connected.system.fetched.clear()
    assert connected.sync() is Ended.SUCCEEDED
    assert connected.system.fetched == []
    assert connected.counts() == (3, 0, 0, 0, 0)
    assert list(connected.documents().order_by("pk").values()) == before


def test_another_revision_with_the_same_bytes_makes_no_version(connected: Connected) -> None:
    connected.system.put("a", "# A\n\nText.\n")
    connected.sync()
    connected.read_all()
    connected.system.put("a", "# A\n\nText.\n", revision="2", path="elsewhere/a")
    connected.sync()
    document = connected.get("a")
    assert document.versions.count() == 1
    assert (document.revision, document.path) == ("2", "elsewhere/a")
    assert document.state == Document.State.INDEXED


def test_another_title_with_the_same_bytes_is_read_again_and_found(connected: Connected) -> None:
    connected.system.put("a", "Plain text of some length.\n", title="Wombat")
    connected.sync()
    connected.read_all()
    cited = Chunk.objects.get(document=connected.get("a"))
    connected.system.put("a", "Plain text of some length.\n", revision="2", title="Quokka")
    connected.sync()
    connected.read_all()
    found = search(connected.library.as_owner, query="quokka", mode=Mode.LEXICAL)
    assert [(hit.title, hit.document_id) for hit in found.hits] == [
        ("Quokka", connected.get("a").pk)
    ]
    # What was cited stays openable, in the version that it was cited from.
    assert Chunk.objects.filter(pk=cited.pk).exists()
    assert search(connected.library.as_owner, query="wombat", mode=Mode.LEXICAL).hits == ()


def test_another_content_is_the_next_version_of_the_same_document(connected: Connected) -> None:
    connected.system.put("a", "# A\n\nOld.\n")
    connected.sync()
    first = connected.get("a")
    connected.system.put("a", "# A\n\nNew.\n", revision="2")
    connected.sync()
    document = connected.get("a")
    assert document.pk == first.pk
    assert list(document.versions.order_by("number").values_list("number", flat=True)) == [1, 2]
    assert connected.counts() == (1, 0, 1, 0, 0)


def test_what_a_listing_no_longer_names_is_gone(connected: Connected) -> None:
    for name in "abc":
        connected.system.put(name)
    connected.sync()
    connected.system.drop("b")
    connected.sync()
    assert connected.names() == ["a", "c"]
    assert connected.counts() == (2, 0, 0, 1, 0)


def test_a_listing_that_broke_off_deletes_nothing(connected: Connected) -> None:
    for name in "abcdef":
        connected.system.put(name)
    connected.sync()
    connected.system.drop("a")
    connected.system.fail_after = 1
    assert connected.sync() is Ended.FAILED
    assert connected.names() == ["a", "b", "c", "d", "e", "f"]


def test_a_listing_that_broke_off_goes_on_from_its_checkpoint(connected: Connected) -> None:
    for name in "abcdef":
        connected.system.put(name)
    connected.system.fail_after = 1
    assert connected.sync() is Ended.FAILED
    assert connected.connection.checkpoint == "2"
    connected.system.fail_after = None
    assert connected.sync() is Ended.SUCCEEDED
    assert connected.system.asked == [None, "2"]
    assert connected.system.fetched == ["a", "b", "c", "d", "e", "f"]
    assert connected.names() == ["a", "b", "c", "d", "e", "f"]


def test_a_log_is_read_from_its_checkpoint_on(with_test_connectors: None, library: Library) -> None:
    connected = connect(library, lists=False)
    for name in "abc":
        connected.system.put(name)
    connected.sync()
    connected.system.drop("a")
    connected.system.put("d")
    connected.sync()
    assert connected.system.asked == [None, "3"]
    assert connected.names() == ["b", "c", "d"]
    assert connected.counts() == (2, 1, 0, 1, 0)


def test_a_listing_that_would_delete_most_is_held(connected: Connected) -> None:
    for number in range(20):
        connected.system.put(f"n{number:02}")
    connected.sync()
    for number in range(11):
        connected.system.drop(f"n{number:02}")
    assert connected.sync() is Ended.HELD
    assert len(connected.names()) == 20
    assert connected.connection.held_deletions == 11
    assert connected.last_run().state == SyncRun.State.HELD
    assert connected.connection.last_error.startswith("The other side names 9 of 20 documents.")


def test_held_deletions_are_carried_out_once_allowed(connected: Connected) -> None:
    for number in range(20):
        connected.system.put(f"n{number:02}")
    connected.sync()
    for number in range(11):
        connected.system.drop(f"n{number:02}")
    connected.sync()
    allow_deletions(connected.library.as_owner, connection=connected.connection)
    assert connected.sync() is Ended.SUCCEEDED
    assert len(connected.names()) == 9
    assert (connected.connection.held_deletions, connected.connection.deletions_allowed) == (
        0,
        False,
    )


def test_half_of_the_documents_may_go_without_asking(connected: Connected) -> None:
    for number in range(20):
        connected.system.put(f"n{number:02}")
    connected.sync()
    for number in range(10):
        connected.system.drop(f"n{number:02}")
    assert connected.sync() is Ended.SUCCEEDED
    assert len(connected.names()) == 10


def test_documents_of_others_in_the_source_stay(connected: Connected) -> None:
    connected.library.add("# Mine\n\nBy hand.\n", "mine.md")
    connected.system.put("a")
    connected.sync()
    connected.system.drop("a")
    connected.sync()
    assert connected.names() == ["mine.md"]


def test_disconnecting_leaves_the_documents(connected: Connected) -> None:
    connected.system.put("a")
    connected.sync()
    disconnect(connected.library.as_owner, connection=connected.connection)
    assert connected.names() == ["a"]
    assert not Connection.objects.exists()


def test_disconnecting_may_delete_the_documents(connected: Connected) -> None:
    connected.library.add("# Mine\n\nBy hand.\n", "mine.md")
    for name in "abc":
        connected.system.put(name)
    connected.sync()
    disconnect(connected.library.as_owner, connection=connected.connection, delete_documents=True)
    assert sync_connection(connected.connection.pk) is Ended.REMOVED
    assert connected.names() == ["mine.md"]
    assert not Connection.objects.exists()


def test_a_moved_file_stays_the_same_document(connected: Connected) -> None:
    connected.system.put("old/a", "# A\n\nText.\n", path="old/a", file_name="a.md")
    connected.sync()
    connected.read_all()
    before = connected.get("old/a")
    connected.system.drop("old/a")
    connected.system.put("new/a", "# A\n\nText.\n", path="new/a", file_name="a.md")
    connected.sync()
    after = connected.get("new/a")
    assert (after.pk, after.path) == (before.pk, "new/a")
    assert after.state == Document.State.INDEXED
    assert after.versions.count() == 1
    assert connected.names() == ["new/a"]
    connected.sync()
    assert connected.names() == ["new/a"]


def test_a_copy_takes_nothing_from_its_original(connected: Connected) -> None:
    connected.system.put("a", "# A\n\nText.\n")
    connected.sync()
    original = connected.get("a")
    connected.system.put("0-copy", "# A\n\nText.\n")
    connected.sync()
    assert connected.get("a").pk == original.pk
    assert connected.names() == ["0-copy", "a"]


def test_a_log_cannot_delete_what_the_connection_did_not_bring(
    with_test_connectors: None, library: Library
) -> None:
    library.add("# Mine\n\nBy hand.\n", "mine.md")
    connected = connect(library, lists=False)
    connected.system.log.append(Gone("mine.md"))
    connected.sync()
    assert connected.names() == ["mine.md"]


def test_a_document_deleted_by_hand_comes_back_while_it_is_there_upstream(
    connected: Connected,
) -> None:
    connected.system.put("a")
    connected.sync()
    delete_document(connected.library.as_owner, document=connected.get("a"))
    assert connected.names() == []
    connected.sync()
    assert connected.names() == ["a"]
