"""Syncing: pages and checkpoints, doing things twice, deletions, failures, pausing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kaizen.kernel.clock import now
from kaizen.kernel.errors import Conflict
from retrieval.connections import allow_deletions, disconnect, pause, resume, update_connection
from retrieval.connectors.contract import ConnectorError, Gone
from retrieval.connectors.jobs import find_due
from retrieval.connectors.sync import Ended, sync_connection
from retrieval.documents import delete_document
from retrieval.models import Connection, Document, SyncItem, SyncRun
from retrieval.search import search
from tests.retrieval.conftest import Library
from tests.retrieval.connectors.connected import Connected, connect
from tests.retrieval.connectors.upstream import SYSTEMS, UpstreamConfig

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


def test_one_bad_item_does_not_hold_up_the_rest(connected: Connected) -> None:
    for name in "abc":
        connected.system.put(name)
    connected.system.fetch_errors["a"] = ConnectorError("It is locked.")
    connected.system.fetch_errors["b"] = ZeroDivisionError()
    assert connected.sync() is Ended.SUCCEEDED
    assert connected.names() == ["c"]
    assert connected.counts() == (3, 1, 0, 0, 2)
    failing = SyncItem.objects.filter(failures__gt=0).order_by("external_id")
    assert list(failing.values_list("external_id", "error")) == [
        ("a", "It is locked."),
        ("b", "The connector broke (ZeroDivisionError); the worker's log says more."),
    ]
    assert connected.connection.state == Connection.State.ACTIVE


def test_an_item_that_failed_is_tried_again_in_the_next_sync_of_a_log(
    with_test_connectors: None, library: Library
) -> None:
    connected = connect(library, lists=False)
    connected.system.put("a")
    connected.system.fetch_errors["a"] = ConnectorError("It is locked.")
    connected.sync()
    connected.system.fetch_errors.clear()
    connected.sync()
    assert connected.names() == ["a"]
    assert not SyncItem.objects.filter(failures__gt=0).exists()


def test_an_item_that_failed_twice_waits(connected: Connected) -> None:
    connected.system.put("a")
    connected.system.fetch_errors["a"] = ConnectorError("It is locked.")
    for _ in range(3):
        connected.sync()
    assert connected.system.fetched == ["a", "a"]
    connected.system.put("a", revision="2")
    connected.sync()
    assert connected.system.fetched == ["a", "a", "a"]


def test_an_item_too_large_fails_alone(
    connected: Connected, settings: pytest.FixtureRequest
) -> None:
    settings.KAIZEN_UPLOAD_LIMIT = 100  # type: ignore[attr-defined]
    connected.system.put("big", "x" * 101)
    connected.system.put("small")
    connected.sync()
    assert connected.names() == ["small"]


def test_nonsense_from_a_connector_spoils_one_item_only(connected: Connected) -> None:
    connected.system.put("a")
    connected.system.put("b", author=17)
    connected.system.put("c", file_name="")
    connected.sync()
    assert connected.names() == ["a"]
    assert connected.counts() == (3, 1, 0, 0, 2)


def test_an_item_gone_when_it_is_fetched_is_no_failure(connected: Connected) -> None:
    connected.system.put("a")
    del connected.system.data["a"]
    connected.sync()
    assert connected.names() == []
    assert connected.counts() == (1, 0, 0, 0, 0)


def test_a_failing_connection_is_left_alone_ever_longer(connected: Connected) -> None:
    delays = []
    for _ in range(3):
        connected.system.list_errors = [ConnectorError("Nobody answers.")]
        assert connected.sync() is Ended.FAILED
        delays.append((connected.connection.next_sync_at - now()).total_seconds())
    assert 58 < delays[0] < 73
    assert 118 < delays[1] < 145
    assert 238 < delays[2] < 289
    assert connected.connection.state == Connection.State.FAILING
    assert connected.connection.last_error == "Nobody answers."
    assert connected.connection.consecutive_failures == 3


def test_a_success_ends_the_failing(connected: Connected) -> None:
    connected.system.list_errors = [ConnectorError("Nobody answers.")]
    connected.sync()
    connected.sync()
    assert connected.connection.state == Connection.State.ACTIVE
    assert (connected.connection.last_error, connected.connection.consecutive_failures) == ("", 0)


def test_the_other_sides_retry_after_is_honoured(connected: Connected) -> None:
    connected.system.put("a")
    connected.system.put("b")
    connected.system.fetch_errors["a"] = ConnectorError("Slow down.", retry_after=7200)
    assert connected.sync() is Ended.FAILED
    assert connected.system.fetched == ["a"]
    assert connected.connection.next_sync_at > now() + timedelta(seconds=7190)


def test_what_cannot_succeed_by_itself_waits_longest(connected: Connected) -> None:
    connected.system.list_errors = [ConnectorError("The password is wrong.", retry=False)]
    connected.sync()
    assert connected.connection.next_sync_at > now() + timedelta(hours=5)


def test_pausing_stops_before_the_next_item(connected: Connected) -> None:
    for name in "abcd":
        connected.system.put(name)
    owner = connected.library.as_owner

    def pause_at_b(name: str) -> None:
        if name == "b":
            pause(owner, connection=connected.connection)

    connected.system.on_fetch = pause_at_b
    assert connected.sync() is Ended.STOPPED
    assert connected.system.fetched == ["a", "b"]
    assert connected.names() == ["a", "b"]
    assert connected.last_run().state == SyncRun.State.STOPPED


def test_a_paused_connection_is_not_synced(connected: Connected) -> None:
    pause(connected.library.as_owner, connection=connected.connection)
    assert sync_connection(connected.connection.pk) is Ended.NOTHING
    assert find_due() == []
    with pytest.raises(Conflict):
        connected.sync()


def test_resuming_goes_on_where_it_stopped(connected: Connected) -> None:
    for name in "abcd":
        connected.system.put(name)
    owner = connected.library.as_owner
    connected.system.on_fetch = lambda name: (
        pause(owner, connection=connected.connection) if name == "c" else None
    )
    connected.sync()
    connected.system.on_fetch = None
    resume(owner, connection=connected.connection)
    assert connected.sync() is Ended.SUCCEEDED
    assert connected.system.asked == [None, "2"]
    assert connected.system.fetched == ["a", "b", "c", "d"]


def test_a_long_sync_makes_room_and_goes_on(connected: Connected) -> None:
    for name in "abcd":
        connected.system.put(name)
    assert connected.sync(slice_seconds=0) is Ended.GOES_ON
    assert connected.names() == ["a", "b"]
    assert connected.sync(slice_seconds=0) is Ended.GOES_ON
    assert connected.sync() is Ended.SUCCEEDED
    assert SyncRun.objects.filter(connection=connected.connection).count() == 1
    assert connected.names() == ["a", "b", "c", "d"]


def test_other_settings_read_everything_anew_and_fence_off_the_old_sync(
    connected: Connected,
) -> None:
    SYSTEMS["another"] = connected.system
    for name in "abcd":
        connected.system.put(name)
    owner = connected.library.as_owner

    def change(name: str) -> None:
        if name == "b":
            config = UpstreamConfig(system="another")
            update_connection(owner, connection=connected.connection, config=config)

    connected.system.on_fetch = change
    assert connected.sync() is Ended.LOST
    assert connected.names() == ["a"]
    connected.system.on_fetch = None
    assert connected.sync() is Ended.SUCCEEDED
    assert connected.system.asked == [None, None]
    assert connected.names() == ["a", "b", "c", "d"]


def test_requests_are_paced(connected: Connected) -> None:
    for name in "abc":
        connected.system.put(name)
    update_connection(
        connected.library.as_owner, connection=connected.connection, requests_a_minute=600
    )
    began = now()
    connected.sync()
    # Three pages asked for and three items: five waits of a tenth of a second.
    assert now() - began >= timedelta(seconds=0.5)


def test_a_due_connection_is_sent_once(connected: Connected) -> None:
    assert find_due() == [connected.connection.pk]
    assert find_due() == []


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


def test_what_was_nonsense_once_is_no_trouble_once_it_makes_sense(connected: Connected) -> None:
    connected.system.put("a")
    connected.sync()
    connected.system.put("a", author=17)
    connected.sync()
    assert SyncItem.objects.get().error == "Its author isn't text."
    connected.system.put("a")
    connected.sync()
    assert (SyncItem.objects.get().error, SyncItem.objects.get().failures) == ("", 0)
    assert connected.names() == ["a"]


def test_a_document_deleted_by_hand_comes_back_while_it_is_there_upstream(
    connected: Connected,
) -> None:
    connected.system.put("a")
    connected.sync()
    delete_document(connected.library.as_owner, document=connected.get("a"))
    assert connected.names() == []
    connected.sync()
    assert connected.names() == ["a"]
