"""Syncing when something goes wrong, and when somebody interferes: bad items, backing off, pausing,
other settings.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from kaizen.kernel.clock import now
from kaizen.kernel.errors import Conflict
from retrieval.connectors.connections import pause, resume, update_connection
from retrieval.connectors.contract import ConnectorError
from retrieval.connectors.jobs import find_due
from retrieval.connectors.sync import Ended, sync_connection
from retrieval.models import Connection, SyncItem, SyncRun
from tests.retrieval.conftest import Library
from tests.retrieval.connectors.connected import Connected, connect
from tests.retrieval.connectors.upstream import SYSTEMS, UpstreamConfig

pytestmark = pytest.mark.django_db


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
