"""The journal: numbers without gaps or doubles, and no way to change what stands in it."""

from __future__ import annotations

import threading
import uuid

import psycopg
import pytest
from django.db import ProgrammingError, connection, transaction

from conversations import journal
from conversations.models import Conversation, JournalEvent
from kaizen.embedded.environment import OWNER_ROLE
from kaizen.kernel.errors import Missing
from tests import servers
from tests.conversations.worlds import World, ask, make_world, open_gate, write


def _append(world: World, conversation: Conversation, title: str = "x") -> int:
    return journal.append(
        organization_id=world.organization.id,
        conversation_id=conversation.pk,
        kind="title",
        data={"title": title},
    )


def _numbers(conversation: Conversation) -> list[int]:
    return list(
        JournalEvent.objects.filter(conversation=conversation)
        .order_by("seq")
        .values_list("seq", flat=True)
    )


@pytest.mark.django_db
def test_each_conversation_counts_from_one() -> None:
    world = make_world()
    one, two = ask(world).conversation, ask(world).conversation
    assert [_append(world, one), _append(world, two), _append(world, one)] == [3, 3, 4]
    assert (_numbers(one), _numbers(two)) == ([1, 2, 3, 4], [1, 2, 3])


@pytest.mark.django_db
def test_what_is_rolled_back_uses_no_number() -> None:
    world = make_world()
    conversation = ask(world).conversation
    with transaction.atomic():
        assert _append(world, conversation) == 3
        transaction.set_rollback(True)
    assert _append(world, conversation) == 3
    conversation.refresh_from_db()
    assert (conversation.last_seq, _numbers(conversation)) == (3, [1, 2, 3])


def test_writers_at_once_leave_neither_gap_nor_double(committed_db: str) -> None:
    world = make_world()
    conversation = ask(world).conversation

    def work() -> None:
        for _ in range(10):
            _append(world, conversation)
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert _numbers(conversation) == list(range(1, 43))


@pytest.mark.django_db
def test_an_unknown_kind_is_refused() -> None:
    world = make_world()
    conversation = ask(world).conversation
    with pytest.raises(KeyError):
        journal.append(
            organization_id=world.organization.id,
            conversation_id=conversation.pk,
            kind="gossip",
            data={},
        )
    assert _numbers(conversation) == [1, 2]


@pytest.mark.django_db
def test_a_conversation_of_another_organisation_is_missing() -> None:
    world, other = make_world(), make_world()
    conversation = ask(world).conversation
    with pytest.raises(Missing):
        _append(other, conversation)
    with pytest.raises(Missing):
        journal.append(
            organization_id=world.organization.id,
            conversation_id=uuid.uuid4(),
            kind="title",
            data={},
        )
    assert _numbers(conversation) == [1, 2]


@pytest.mark.django_db
def test_reading_goes_on_after_a_number() -> None:
    world = make_world()
    conversation = ask(world).conversation
    for _ in range(3):
        _append(world, conversation)

    def read(after: int, limit: int = 500) -> list[int]:
        return [
            event.seq
            for event in journal.read(
                organization_id=world.organization.id,
                conversation_id=conversation.pk,
                after=after,
                limit=limit,
            )
        ]

    assert (read(0), read(3), read(5), read(1, limit=2)) == ([1, 2, 3, 4, 5], [4, 5], [], [2, 3])


@pytest.mark.django_db
def test_the_text_of_an_answer_is_its_pieces_in_order() -> None:
    world = make_world()
    turn = ask(world)
    gate = open_gate()
    write(gate, "Two ")  # event 4
    write(gate, "days 🌍", offset=4)
    of_run = {"organization_id": world.organization.id, "run_id": turn.run.pk}
    assert journal.answer_text(**of_run) == "Two days 🌍"
    assert journal.answer_text(**of_run, until=4) == "Two "
    assert journal.answer_text(**of_run, until=3) == ""


@pytest.mark.django_db
def test_data_is_read_back_exactly() -> None:
    world = make_world()
    conversation = ask(world).conversation
    data = {"z": 1, "a": [1.10, None, "é\u2028\x00"], "half": "\ud83d!"}
    journal.append(
        organization_id=world.organization.id,
        conversation_id=conversation.pk,
        kind="title",
        data=data,
    )
    stored = JournalEvent.objects.get(seq=3).data
    assert stored == data
    assert list(stored) == ["z", "a", "half"]


@pytest.mark.django_db
def test_the_app_can_neither_change_nor_delete() -> None:
    world = make_world()
    ask(world)
    events = JournalEvent.objects.filter(seq=1)
    with pytest.raises(ProgrammingError, match="permission denied"), transaction.atomic():
        events.update(kind="x")
    with pytest.raises(ProgrammingError, match="permission denied"), transaction.atomic():
        events._raw_delete("default")
    assert JournalEvent.objects.get(seq=1).kind == "user_message"


@pytest.mark.parametrize("statement", ["UPDATE {} SET kind = 'x'", "DELETE FROM {}"])
def test_even_the_owner_is_refused(committed_db: str, statement: str) -> None:
    ask(make_world())
    table = JournalEvent._meta.db_table
    with (
        psycopg.connect(servers.database_url(committed_db, role=OWNER_ROLE)) as owner,
        pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"),
    ):
        owner.execute(statement.format(table))  # type: ignore[arg-type]
    assert JournalEvent.objects.count() == 2


def test_an_event_cannot_point_into_another_organisation(committed_db: str) -> None:
    world, other = make_world(), make_world()
    conversation = ask(world).conversation
    with pytest.raises(Exception, match="tenant_fk"):
        JournalEvent.objects.create(
            organization=other.organization,
            conversation=conversation,
            seq=99,
            kind="title",
            data={},
        )
    assert _numbers(conversation) == [1, 2]
