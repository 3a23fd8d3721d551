"""The mailbox connector and the server: signing in, encryption, refusals, broken answers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from retrieval.connectors.connections import create_connection, sync_now
from retrieval.connectors.contract import ConnectorError, Fetched
from retrieval.connectors.mail_config import MailboxConfig
from retrieval.connectors.mail_wire import MailLine
from retrieval.connectors.sync import Ended, sync_connection
from retrieval.models import Document
from tests.retrieval.conftest import Library
from tests.retrieval.connectors.servers.certificates import make_certificate, serving_context
from tests.retrieval.connectors.servers.imap_server import serving
from tests.retrieval.connectors.servers.mail_world import World, letter


@pytest.fixture
def world(settings: Any) -> Iterator[World]:
    with serving() as server:
        settings.EGRESS_ALLOW = (f"127.0.0.1:{server.port}",)
        made = World(server)
        yield made
        made.close()


def failure_of(world: World, **more: Any) -> ConnectorError:
    with pytest.raises(ConnectorError) as caught:
        world.connect(**more).check()
    return caught.value


def test_a_mailbox_that_can_be_read_passes_the_check(world: World) -> None:
    world.connect().check()

    assert [command.split(" ")[0] for command in world.server.commands] == [
        "CAPABILITY",
        "LOGIN",
        "EXAMINE",
    ]


def test_a_wrong_password_is_a_final_error(world: World) -> None:
    error = failure_of(world, password="wrong password")

    assert (error.message, error.retry) == (
        "127.0.0.1 refused the user name or the password.",
        False,
    )


def test_a_server_that_lets_nobody_in_just_now_is_asked_again(world: World) -> None:
    world.server.login_refusal = "[UNAVAILABLE] later"

    assert failure_of(world, password="wrong").retry is True


def test_a_server_without_passwords_is_a_final_error(world: World) -> None:
    world.server.capabilities = "IMAP4rev1 LOGINDISABLED"

    error = failure_of(world)

    assert (error.retry, [c for c in world.server.commands if c.startswith("LOGIN")]) == (False, [])


@pytest.mark.parametrize("password", ['qu"ote \\ back', "пароль 密码", "a\r\nb", "x {5}"])
def test_passwords_may_hold_any_characters(world: World, password: str) -> None:
    world.server.password = password

    world.connect(password=password).check()


def test_the_password_is_in_no_log_and_no_message(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    error = failure_of(world, password="hunter2-hunter2")

    assert ("hunter2" in caplog.text, "hunter2" in str(error), "hunter2" in repr(error)) == (
        False,
        False,
        False,
    )


def test_a_folder_that_is_not_there_is_a_final_error(world: World) -> None:
    error = failure_of(world, folders=["INBOX", "Archiv"])

    assert (error.message, error.retry) == ("The mailbox has no folder Archiv.", False)


def test_an_inner_address_is_refused_before_any_connection(world: World, settings: Any) -> None:
    settings.EGRESS_ALLOW = ()

    error = failure_of(world)

    assert (error.retry, world.server.connections) == (False, 0)
    assert error.message == (
        "That address may not be reached from here. Use a public one, or ask the operator to "
        "allow it."
    )


def test_a_server_that_is_away_is_asked_again(world: World) -> None:
    connector = world.connect()
    world.server.shutdown()
    world.server.server_close()

    with pytest.raises(ConnectorError) as caught:
        connector.check()

    assert caught.value.retry is True


def test_a_connection_that_breaks_is_made_again_by_the_next_call(world: World) -> None:
    uid = world.server.inbox.add(letter("First"))
    connector = world.connect()
    [page, _last] = connector.list_changes(None)
    world.server.hang_up_on.add("UID FETCH")

    with pytest.raises(ConnectorError) as caught:
        connector.fetch(page.changes[0])
    world.server.hang_up_on.clear()

    assert (caught.value.message, caught.value.retry) == (
        "The connection to 127.0.0.1 failed.",
        True,
    )
    assert connector.fetch(page.changes[0]) == Fetched(
        world.server.inbox.mails[uid].data, "message/rfc822"
    )


def test_a_connection_that_was_idle_is_tried_before_it_is_used(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.server.inbox.add(letter("First"))
    connector = world.connect()
    [page, _last] = connector.list_changes(None)
    monkeypatch.setattr("retrieval.connectors.mail_wire._IDLE_SECONDS", 0.0)
    world.server.hang_up_on.add("NOOP")

    fetched = connector.fetch(page.changes[0])

    assert (fetched is not None, world.server.connections) == (True, 2)


@pytest.mark.parametrize(
    "raw",
    [
        b"* 1 FETCH (UID 1 BODY[] (((((\r\n",
        b"* 1 FETCH UID\r\n",
        b"* 1 FETCH (UID 1 BODY[] {99999999999999999999}\r\n",
        b"\xff\xfe\x00\r\n",
        b"* 1 FETCH (" + b"(" * 5_000 + b")" * 5_000 + b")\r\n",
    ],
)
def test_an_answer_that_makes_no_sense_is_an_error_for_admins(world: World, raw: bytes) -> None:
    world.server.inbox.add(letter("First"))
    connector = world.connect()
    [page, _last] = connector.list_changes(None)
    world.server.instead["UID FETCH"] = raw

    with pytest.raises(ConnectorError):
        connector.fetch(page.changes[0])


def test_a_message_whose_structure_makes_no_sense_is_listed_without_attachments(
    world: World,
) -> None:
    world.server.inbox.add(letter("First", attached={"a.pdf": b"%PDF-1"}))
    world.server.broken_structure = True

    assert world.sync().titles == ["First"]


def test_more_bytes_than_were_asked_for_are_not_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.connectors.mail_wire._TALK_BYTES", 100_000)
    world.server.inbox.add(letter("First"))
    connector = world.connect(largest_message_mb=1)
    [page, _last] = connector.list_changes(None)
    world.server.instead["UID FETCH"] = b"* 1 FETCH (UID 1 BODY[] {1200000}\r\n" + b"x" * 1_200_000

    with pytest.raises(ConnectorError, match="sends more than was asked for"):
        connector.fetch(page.changes[0])


def test_a_server_that_never_comes_to_an_end_is_left(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.connectors.mail_wire.COMMAND_SECONDS", 0.3)
    line = world.connect()._line
    assert isinstance(line, MailLine)
    world.server.instead["EXAMINE"] = b"* 1 EXISTS {1000}\r\n"

    with pytest.raises(ConnectorError) as caught:
        line.open_folder("INBOX")

    assert (caught.value.message, caught.value.retry) == (
        "127.0.0.1 takes too long to answer.",
        True,
    )


def test_messages_that_vanish_while_they_are_listed_hide_no_others(world: World) -> None:
    for number in range(3):
        world.server.inbox.add(letter(str(number)))
    world.server.instead["UID SEARCH"] = b"* 1 EXPUNGE\r\n* SEARCH 1\r\n"

    with pytest.raises(ConnectorError, match="changes too fast") as caught:
        world.sync()

    assert caught.value.retry is True


def test_tls_is_checked_for_the_name_of_the_server(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with serving(tls=serving_context(certificate)) as server:
        settings.EGRESS_ALLOW = (f"127.0.0.1:{server.port}", f"localhost:{server.port}")
        server.inbox.add(letter("First"))
        world = World(server)

        assert world.sync(host="localhost", security="tls").titles == ["First"]
        assert failure_of(world, security="tls").message == (
            "The certificate of 127.0.0.1 isn't valid."
        )


def test_a_certificate_that_nobody_trusts_is_a_final_error(tmp_path: Path, settings: Any) -> None:
    with serving(tls=serving_context(make_certificate(tmp_path))) as server:
        settings.EGRESS_ALLOW = (f"localhost:{server.port}",)
        error = failure_of(World(server), host="localhost", security="tls")

        assert (error.message, error.retry) == ("The certificate of localhost isn't valid.", False)
        assert server.commands == []


def test_starttls_encrypts_before_the_password_is_sent(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with serving(tls=serving_context(certificate), starttls=True) as server:
        settings.EGRESS_ALLOW = (f"localhost:{server.port}",)
        server.inbox.add(letter("First"))

        synced = World(server).sync(host="localhost", security="starttls")

        assert synced.titles == ["First"]
        assert [command.split(" ")[0] for command in server.commands[:4]] == [
            "CAPABILITY",
            "STARTTLS",
            "CAPABILITY",
            "LOGIN",
        ]


def test_a_server_without_starttls_gets_no_password(world: World) -> None:
    error = failure_of(world, security="starttls")

    assert (error.message, error.retry) == (
        "127.0.0.1 doesn't offer STARTTLS. Choose TLS.",
        False,
    )
    assert world.server.commands == ["CAPABILITY"]


@pytest.mark.parametrize(
    "values",
    [
        {"host": " "},
        {"host": "a\nb"},
        {"user": ""},
        {"password": ""},
        {"folders": []},
        {"folders": [" "]},
        {"folders": ["a\r\nb"]},
        {"since": "31.01.2026"},
        {"port": 0},
    ],
)
def test_settings_that_make_no_sense_are_refused(values: dict[str, Any]) -> None:
    whole = {"host": "mail.example.org", "user": "me", "password": "secret"}

    MailboxConfig.model_validate(whole)
    with pytest.raises(ValidationError):
        MailboxConfig.model_validate(whole | values)


@pytest.mark.django_db
def test_a_connected_mailbox_becomes_documents_and_follows_what_is_deleted(
    world: World, library: Library
) -> None:
    uid = world.server.inbox.add(letter("Offer", attached={"offer.pdf": b"%PDF-1"}))
    world.server.inbox.add(letter("Answer"))
    connection = create_connection(
        library.as_owner,
        source=library.source,
        connector="mailbox",
        config=MailboxConfig(
            host="127.0.0.1",
            port=world.server.port,
            security="none",
            user=world.server.user,
            password=world.server.password,
        ),
    )
    assert sync_connection(connection.pk) is Ended.SUCCEEDED
    living = Document.objects.filter(source=library.source, deleted_at=None)
    before = sorted(living.values_list("title", flat=True))
    del world.server.inbox.mails[uid]
    sync_now(library.as_owner, connection=connection)
    assert sync_connection(connection.pk) is Ended.SUCCEEDED

    assert before == ["Answer", "Offer", "offer"]
    assert list(living.values_list("title", "author", "file_name")) == [
        ("Answer", "Ada Lovelace", "Answer.eml")
    ]
