"""Reading conversations: what is in them, who may, and at the same cost however much there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.permissions import Verb
from conversations import turns
from conversations.models import Conversation, Run
from conversations.queries import (
    get_conversation,
    list_conversations,
    read_events,
    view_conversation,
)
from conversations.services import archive
from kaizen.kernel.errors import Denied, Missing
from tests import factories
from tests.conversations.worlds import (
    World,
    answer,
    ask,
    finish,
    make_world,
    open_gate,
    write,
)

pytestmark = pytest.mark.django_db


def count(work: Callable[[], Any]) -> int:
    """How many queries `work` makes once everything is warm."""
    work()
    with CaptureQueriesContext(
        connection,
    ) as queries:
        work()
    return len(queries)


def talk(world: World, *, messages: int, searches: bool = False) -> Conversation:
    """A conversation of so many messages, half of them answers."""
    conversation = None
    for number in range(messages // 2):
        turn = answer(
            world,
            "See [[{cite}]]." if searches else "Two days.",
            question=f"Question {number}",
            conversation=conversation,
            searches=searches,
        )
        conversation = turn.conversation
    assert conversation is not None
    return conversation


def test_a_conversation_is_its_path_from_the_first_word_to_the_newest() -> None:
    world = make_world()
    conversation = talk(world, messages=4)
    view = view_conversation(world.authority, conversation.pk)
    assert [(message.role, message.text) for message in view.messages] == [
        ("user", "Question 0"),
        ("assistant", "Two days."),
        ("user", "Question 1"),
        ("assistant", "Two days."),
    ]
    assert (view.active_run, view.ended_run, view.may_change) == (None, None, True)
    assert view.after == conversation.last_seq == 10


def test_a_run_that_goes_on_is_shown_from_its_beginning() -> None:
    world = make_world()
    conversation = talk(world, messages=2)
    turn = ask(world, "And?", conversation=conversation)
    write(open_gate(), "We")
    view = view_conversation(world.authority, conversation.pk)
    assert view.active_run == turn.run
    assert [message.text for message in view.messages][-1] == "And?"
    assert view.after == 6
    events = read_events(world.authority, conversation.pk, after=view.after)
    assert [event["kind"] for event in events] == ["run_queued", "run_started", "text"]


def test_a_run_that_ended_without_a_word_is_shown_with_its_error() -> None:
    world = make_world()
    turn = ask(world)
    finish(open_gate(), Run.State.FAILED, code="overloaded", message="Busy.")
    view = view_conversation(world.authority, turn.conversation.pk)
    assert view.ended_run == turn.run
    assert (view.ended_run.error_code, len(view.messages)) == ("overloaded", 1)


def test_a_retried_answer_takes_the_place_of_the_broken_one() -> None:
    world = make_world()
    turn = ask(world)
    gate = open_gate()
    write(gate, "Two d")
    turns.lose(turn.run.pk, attempt=1)
    turns.retry(world.authority, run_id=turn.run.pk, key="r")
    gate = open_gate()
    write(gate, "Two days.")
    finish(gate)
    view = view_conversation(world.authority, turn.conversation.pk)
    assert [message.text for message in view.messages] == ["How many days do I get?", "Two days."]


def test_who_may_see_a_conversation() -> None:
    world = make_world()
    conversation = talk(world, messages=2)
    watcher = factories.authority_of(world.another((Verb.VIEW, conversation)))
    assert view_conversation(watcher, conversation.pk).may_change is False
    assert get_conversation(watcher, conversation.pk) == conversation
    with pytest.raises(Denied):
        get_conversation(watcher, conversation.pk, Verb.CHANGE)
    strangers = [world.another(), world.admin, make_world().member]
    for stranger in map(factories.authority_of, strangers):
        for read in (view_conversation, get_conversation):
            with pytest.raises(Missing):
                read(stranger, conversation.pk)
        with pytest.raises(Missing):
            read_events(stranger, conversation.pk, after=0)
        assert list(list_conversations(stranger)) == []
    with pytest.raises(Missing):
        view_conversation(world.authority, "nonsense")


def test_the_list_holds_the_newest_first_and_no_archived_ones() -> None:
    world = make_world()
    one, two, three = (ask(world).conversation for _ in range(3))
    archive(world.authority, conversation_id=str(two.pk))
    for conversation, day in ((one, 2), (three, 1)):
        moment = conversation.created_at.replace(year=2031, month=1, day=day)
        Conversation.objects.filter(pk=conversation.pk).update(updated_at=moment)
    assert list(list_conversations(world.authority)) == [one, three]


@pytest.mark.parametrize("searches", [False, True])
def test_a_conversation_of_twenty_messages_costs_what_one_of_two_does(searches: bool) -> None:
    world = make_world()
    if searches:
        world.add_document()
    short = talk(world, messages=2, searches=searches)
    long = talk(world, messages=20, searches=searches)
    authority = world.authority
    # the conversation; runs, their calls, their passages; the newest run; messages; may it change
    expected = 7 if searches else 6
    assert count(lambda: view_conversation(authority, short.pk)) == expected
    assert count(lambda: view_conversation(authority, long.pk)) == expected


def test_the_list_costs_one_query_for_ten_and_for_a_hundred() -> None:
    world = make_world()
    authority = world.authority

    def read() -> list[str]:
        return [f"{item.title} {item.agent.name}" for item in list_conversations(authority)]

    for _ in range(10):
        ask(world)
    assert (len(read()), count(read)) == (10, 1)
    for _ in range(90):
        ask(world)
    assert (len(read()), count(read)) == (100, 1)


def test_a_page_of_events_costs_the_same_for_five_and_for_fifty() -> None:
    world = make_world()
    turn = ask(world)
    gate = open_gate()
    authority = world.authority

    def read() -> list[dict[str, Any]]:
        return read_events(authority, turn.conversation.pk, after=0)

    costs = []
    for number in range(50):
        write(gate, "x", offset=number)
        if number in (4, 49):
            costs.append((len(read()), count(read)))
    # the conversation, its events, its runs, their calls
    assert costs == [(8, 4), (53, 4)]
