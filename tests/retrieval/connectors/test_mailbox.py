"""The mailbox connector against a real IMAP server: what it lists and fetches."""

from __future__ import annotations

import zlib
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest

from retrieval.connectors.contract import ConnectorError, Fetched, Item
from tests.retrieval.connectors.servers.imap_server import ARRIVAL, Folder, serving
from tests.retrieval.connectors.servers.mail_world import World, letter

# The message <one@example.org>.
ONE = "INBOX/7ec7020e0c0ef197c47114e4"


@pytest.fixture
def world(settings: Any) -> Iterator[World]:
    with serving() as server:
        settings.EGRESS_ALLOW = (f"127.0.0.1:{server.port}",)
        made = World(server)
        yield made
        made.close()


def test_the_first_sync_lists_every_message(world: World) -> None:
    for subject in ("First", "Second"):
        world.server.inbox.add(letter(subject))

    synced = world.sync()

    assert synced.titles == ["First", "Second"]
    assert [page.is_listing for page in synced.pages] == [True, True]


def test_an_item_tells_subject_author_date_and_folder(world: World) -> None:
    world.server.inbox.add(letter("Plan/2026: Grüße", number="one"))

    assert world.sync().items == [
        Item(
            external_id=ONE,
            revision="1.1",
            file_name="Plan-2026: Grüße.eml",
            title="Plan/2026: Grüße",
            path="INBOX",
            author="Ada Lovelace",
            dated_at=datetime(2026, 3, 2, 9, 0, tzinfo=UTC),
            media_type="message/rfc822",
        )
    ]


def test_fetch_gives_the_message_and_marks_nothing_as_seen(world: World) -> None:
    uid = world.server.inbox.add(letter("First"))
    connector = world.connect()
    [first, _last] = connector.list_changes(None)

    fetched = connector.fetch(first.changes[0])

    mail = world.server.inbox.mails[uid]
    assert (fetched, mail.seen) == (Fetched(mail.data, "message/rfc822"), False)


def test_a_folder_is_only_opened_for_reading(world: World) -> None:
    world.server.inbox.add(letter("First"))

    world.sync()

    assert not any(command.startswith("SELECT") for command in world.server.commands)


def test_a_later_sync_asks_only_for_new_messages(world: World) -> None:
    world.server.inbox.add(letter("First"))
    before = world.sync()
    world.server.inbox.add(letter("Second"))
    world.server.commands.clear()

    later = world.sync(before.checkpoint)

    fetches = [command for command in world.server.commands if command.startswith("UID FETCH")]
    assert (later.titles, later.gone) == (["Second"], [])
    assert [command.split(" ")[2] for command in fetches] == ["2"]
    assert [page.is_listing for page in later.pages] == [False, False]


def test_a_deleted_message_is_gone_with_its_attachments(world: World) -> None:
    uid = world.server.inbox.add(letter("First", number="one", attached={"a.pdf": b"%PDF-1"}))
    before = world.sync()
    del world.server.inbox.mails[uid]

    assert world.sync(before.checkpoint).gone == [ONE, f"{ONE}#2"]


def test_attachments_are_items_with_their_own_names(world: World) -> None:
    attached = {"Angebot März.pdf": b"%PDF-1 offer", 'odd "name".pdf': b"%PDF-1 odd"}
    world.server.inbox.add(letter("Offer", number="one", attached=attached))
    connector = world.connect()
    [first, _last] = connector.list_changes(None)

    _message, *parts = first.changes

    assert [(part.external_id, part.file_name, part.media_type) for part in parts] == [
        (f"{ONE}#2", "Angebot März.pdf", "application/pdf"),
        (f"{ONE}#3", 'odd "name".pdf', "application/pdf"),
    ]
    assert [connector.fetch(part) for part in parts] == [
        Fetched(b"%PDF-1 offer", "application/pdf"),
        Fetched(b"%PDF-1 odd", "application/pdf"),
    ]


def test_attachments_can_be_left_out(world: World) -> None:
    world.server.inbox.add(letter("Offer", attached={"a.pdf": b"%PDF-1"}))

    assert world.sync(attachments=False).titles == ["Offer"]


def test_a_message_that_is_nothing_but_a_file_has_the_file_as_an_item(world: World) -> None:
    world.server.inbox.add(
        "From: scanner@example.org\nSubject: Scan\nMIME-Version: 1.0\n"
        'Content-Type: application/pdf; name="scan.pdf"\n'
        "Content-Transfer-Encoding: base64\n\nJVBERi0xIHNjYW4=\n"
    )
    connector = world.connect()
    [first, _last] = connector.list_changes(None)

    assert [item.file_name for item in first.changes] == ["Scan.eml", "scan.pdf"]
    assert connector.fetch(first.changes[1]) == Fetched(b"%PDF-1 scan", "application/pdf")


def test_a_forwarded_message_is_an_item_of_its_own(world: World) -> None:
    world.server.inbox.add(
        "From: a@example.org\nSubject: Fwd\nMIME-Version: 1.0\n"
        'Content-Type: multipart/mixed; boundary="b"\n\n'
        "--b\nContent-Type: text/plain\n\nSee below.\n"
        "--b\nContent-Type: message/rfc822\n\nFrom: b@example.org\nSubject: Inner\n\nText.\n"
        "--b--\n"
    )
    connector = world.connect()
    [first, _last] = connector.list_changes(None)

    assert [item.file_name for item in first.changes] == ["Fwd.eml", "message.eml"]
    assert connector.fetch(first.changes[1]) == Fetched(
        b"From: b@example.org\r\nSubject: Inner\r\n\r\nText.", "message/rfc822"
    )


def test_pictures_in_the_text_and_signatures_are_no_items(world: World) -> None:
    world.server.inbox.add(
        "From: a@example.org\nSubject: Hi\nMIME-Version: 1.0\n"
        'Content-Type: multipart/mixed; boundary="b"\n\n'
        "--b\nContent-Type: text/plain\n\nHi.\n"
        '--b\nContent-Type: image/png; name="logo.png"\n'
        "Content-Disposition: inline\n\nx\n"
        '--b\nContent-Type: application/pgp-signature; name="signature.asc"\n\nx\n'
        "--b--\n"
    )

    assert world.sync().titles == ["Hi"]


def test_a_message_that_is_gone_meanwhile_has_no_bytes(world: World) -> None:
    uid = world.server.inbox.add(letter("First"))
    [item] = world.sync().items
    del world.server.inbox.mails[uid]

    assert world.connect().fetch(item) is None


def test_messages_above_the_limit_are_left_out(world: World) -> None:
    world.server.inbox.add(letter("Large", attached={"a.pdf": b"x" * 800_000}))
    world.server.inbox.add(letter("Small"))

    assert world.sync(largest_message_mb=1).titles == ["Small"]


def test_only_messages_since_a_day_count(world: World) -> None:
    world.server.inbox.add(letter("Old"), arrived=datetime(2026, 1, 31, tzinfo=UTC))
    world.server.inbox.add(letter("New"), arrived=datetime(2026, 2, 1, tzinfo=UTC))

    assert world.sync(since="2026-02-01").titles == ["New"]


def test_a_later_day_takes_older_messages_away(world: World) -> None:
    world.server.inbox.add(letter("Old", number="one"), arrived=datetime(2026, 1, 31, tzinfo=UTC))
    before = world.sync()

    assert world.sync(before.checkpoint, since="2026-02-01").gone == [ONE]


def test_a_folder_that_is_numbered_anew_keeps_its_messages(world: World) -> None:
    world.server.inbox.add(letter("First", number="one"))
    before = world.sync()
    world.server.inbox.renumber()

    later = world.sync(before.checkpoint)

    assert [(item.external_id, item.revision) for item in later.items] == [(ONE, "2.100")]
    assert later.gone == []


def test_a_message_without_an_id_is_new_when_its_folder_is_numbered_anew(world: World) -> None:
    world.server.inbox.add(letter("First"))
    before = world.sync()
    world.server.inbox.renumber()

    later = world.sync(before.checkpoint)

    assert [item.external_id for item in later.items] == ["INBOX/2.100"]
    assert later.gone == ["INBOX/1.1"]


def test_fetching_from_a_folder_that_was_numbered_anew_is_tried_again(world: World) -> None:
    world.server.inbox.add(letter("First"))
    [item] = world.sync().items
    world.server.inbox.renumber()

    with pytest.raises(ConnectorError) as caught:
        world.connect().fetch(item)

    assert caught.value.retry is True


def test_another_message_with_the_same_id_takes_no_place(world: World) -> None:
    world.server.inbox.add(letter("True", number="one"))
    before = world.sync()
    world.server.inbox.add(letter("False", number="one"))

    later = world.sync(before.checkpoint)

    assert [(item.external_id, item.title) for item in later.items] == [("INBOX/1.2", "False")]


def test_a_draft_that_is_saved_again_stays_itself(world: World) -> None:
    uid = world.server.inbox.add(letter("Draft", number="one"))
    before = world.sync()
    del world.server.inbox.mails[uid]
    world.server.inbox.add(letter("Draft, longer", number="one"))

    later = world.sync(before.checkpoint)

    assert [(item.external_id, item.title) for item in later.items] == [(ONE, "Draft, longer")]
    assert later.gone == []


def test_a_folder_that_is_no_longer_chosen_is_gone(world: World) -> None:
    world.server.folders["Archive"] = Folder()
    world.server.folders["Archive"].add(letter("Old"))
    world.server.inbox.add(letter("New"))
    before = world.sync(folders=["INBOX", "Archive"])

    assert world.sync(before.checkpoint, folders=["inbox"]).gone == ["Archive/1.1"]


def test_names_of_folders_may_hold_any_characters(world: World) -> None:
    world.server.folders['Entw&APw-rfe/&U,BTFw- &- "x"'] = Folder()
    world.server.folders['Entw&APw-rfe/&U,BTFw- &- "x"'].add(letter("Hi"))

    [item] = world.sync(folders=['Entwürfe/台北 & "x"']).items

    assert item.external_id == 'Entwürfe/台北 & "x"/1.1'


@pytest.mark.parametrize(
    ("header", "title"),
    [
        (b"Subject: =?utf-8?B?w5xiZXI=?=\n =?utf-8?Q?_Gr=C3=B6=C3=9Fe?=", "Über Größe"),
        (b"Subject: =?gb18030?B?1sfE3LGoz/o=?=", "智能报销"),
        (b"Subject: caf\xe9", "café"),
        ("Subject: 今月 =?utf-8?Q?=C3=9C?=".encode(), "今月 Ü"),
        (b"Subject: =?no-such?Q?x=C3=9C?=", "xÜ"),
        (b"Subject: a\0b", "a\ufffdb"),
        (b"Subject:", "(no subject)"),
        (b"X-Other: 1", "(no subject)"),
    ],
)
def test_subjects_are_read_whatever_their_coding(world: World, header: bytes, title: str) -> None:
    world.server.inbox.add(b"From: a@example.org\n" + header + b"\n\nText.\n")

    assert world.sync().titles == [title]


@pytest.mark.parametrize(
    "date", ["nonsense", "Mon, 99 Mar 2026 10:00:00 +0000", "", "Mon, 1 Jan 99999 00:00:00 +0000"]
)
def test_a_bad_date_gives_way_to_the_arrival(world: World, date: str) -> None:
    world.server.inbox.add(f"From: a@example.org\nSubject: x\nDate: {date}\n\nText.\n")

    assert [item.dated_at for item in world.sync().items] == [ARRIVAL]


def test_an_author_without_a_name_is_an_address(world: World) -> None:
    world.server.inbox.add("From: <a@example.org>\nSubject: x\n\nText.\n")

    assert [item.author for item in world.sync().items] == ["a@example.org"]


@pytest.mark.parametrize("sender", ["(" * 3_000, "=?utf-8?B?" * 2_000, '"' * 3_000, "\\" * 3_000])
def test_a_sender_made_to_confuse_hides_no_other_message(world: World, sender: str) -> None:
    world.server.inbox.add(f"From: {sender}\nSubject: Odd\n\nText.\n")
    world.server.inbox.add(letter("Even"))

    assert world.sync().titles == ["Odd", "Even"]


def test_an_empty_mailbox_is_an_empty_listing(world: World) -> None:
    synced = world.sync()

    assert [(page.changes, page.is_listing) for page in synced.pages] == [((), True)]


def test_more_messages_than_a_page_are_read_in_pages(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.connectors.mailbox.PAGE_SIZE", 2)
    monkeypatch.setattr("retrieval.connectors.mail_wire._SEARCH_WINDOW", 2)
    for number in range(5):
        world.server.inbox.add(letter(str(number)))

    synced = world.sync()

    assert [len(page.changes) for page in synced.pages] == [2, 2, 1, 0]
    assert synced.titles == ["0", "1", "2", "3", "4"]


def test_a_listing_that_broke_off_goes_on_where_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.connectors.mailbox.PAGE_SIZE", 2)
    for number in range(4):
        world.server.inbox.add(letter(str(number)))
    [first] = islice(world.connect().list_changes(None), 1)
    del world.server.inbox.mails[1]

    rest = world.sync(first.checkpoint)

    assert (rest.titles, rest.gone) == (["2", "3"], ["INBOX/1.1"])
    assert [page.is_listing for page in rest.pages] == [True, True, True]


def test_other_limits_lead_to_a_whole_listing(world: World) -> None:
    world.server.inbox.add(letter("First"))
    before = world.sync()

    later = world.sync(before.checkpoint, largest_message_mb=9)

    assert (later.titles, later.pages[0].is_listing) == (["First"], True)


@pytest.mark.parametrize("checkpoint", ["", "nonsense", "eJw=", "e30="])
def test_an_unreadable_checkpoint_leads_to_a_whole_listing(world: World, checkpoint: str) -> None:
    world.server.inbox.add(letter("First"))

    assert world.sync(checkpoint).titles == ["First"]


def test_a_checkpoint_holds_no_subjects_and_no_addresses(world: World) -> None:
    world.server.inbox.add(letter("Secret plan", number="one"))

    told = zlib.decompress(b64decode(world.sync().checkpoint)).decode()

    assert ("Secret" in told, "example.org" in told) == (False, False)
