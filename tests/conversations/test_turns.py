"""Starting a turn: rows, journal, audit, and refusals that change nothing."""

from __future__ import annotations

import pytest

from accounts.permissions import Verb
from agents.models import Agent, LanguageModel
from agents.services import publish_agent
from audit.models import AuditEvent
from conversations import services, turns
from conversations.models import Conversation, ConversationUserGrant, JournalEvent, Message, Run
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Conflict, Denied, Invalid, Missing, TooLarge
from tests import factories
from tests.conversations.worlds import (
    answer,
    ask,
    audited,
    claim,
    finish,
    journal_of,
    kinds_of,
    make_world,
    open_gate,
    state_of,
)

pytestmark = pytest.mark.django_db


# --- start


def test_start_makes_one_conversation_one_message_one_run() -> None:
    world = make_world()
    turn = ask(world, "How many days do I get?")
    conversation = Conversation.objects.get()
    message, run = Message.objects.get(), Run.objects.get()
    assert turn == turns.Turn(conversation=conversation, run=run, message=message, replayed=False)
    assert conversation.title == "How many days do I get?"
    assert (conversation.agent, conversation.started_by) == (world.agent, world.member.user)
    assert (conversation.head, conversation.last_seq) == (message, 2)
    assert (message.role, message.text, message.parent) == ("user", "How many days do I get?", None)
    assert message.author == world.member.user
    assert (run.state, run.trigger, run.attempt, run.lease_hash) == ("queued", "chat", 0, "")
    assert run.agent_version == world.agent.current_version
    assert run.language_model == world.agent.language_model
    assert (run.question, run.parent, run.user) == (message, None, world.member.user)


def test_start_journals_what_was_said_and_the_run() -> None:
    world = make_world()
    turn = ask(world, "Hello")
    run = turn.run
    assert journal_of(turn.conversation) == [
        (
            1,
            "user_message",
            {
                "message": str(turn.message.pk),
                "text": "Hello",
                "author": str(world.member.user.public_id),
            },
        ),
        (
            2,
            "run_queued",
            {
                "run": str(run.pk),
                "message": str(run.answer_id),
                "question": str(turn.message.pk),
            },
        ),
    ]
    assert list(JournalEvent.objects.order_by("seq").values_list("run_id", "attempt")) == [
        (None, 0),
        (run.pk, 0),
    ]


def test_start_is_audited_with_who_and_what() -> None:
    world = make_world()
    turn = ask(world, "Hello")
    assert audited(world, "conversations.") == [
        "conversations.created",
        "conversations.turn_started",
    ]
    event = AuditEvent.objects.get(action="conversations.turn_started")
    assert (event.actor_id, event.channel) == (world.member.user.public_id, "session")
    assert (event.object_type, event.object_id) == ("run", str(turn.run.pk))
    assert event.data == {
        "conversation": str(turn.conversation.pk),
        "agent_version": str(world.agent.current_version_id),
        "trigger": "chat",
    }


def test_who_starts_a_conversation_manages_it_and_nobody_else_sees_it() -> None:
    world = make_world()
    turn = ask(world)
    grant = ConversationUserGrant.objects.get()
    assert (grant.user, grant.origin) == (world.member.user, "share")
    assert grant.permission.codename == "manage_conversation"
    with pytest.raises(Missing):
        turns.get_run(factories.authority_of(world.another()), turn.run.pk)


def test_bells_ring_only_after_commit(django_capture_on_commit_callbacks: object) -> None:
    world = make_world()
    with django_capture_on_commit_callbacks() as callbacks:  # type: ignore[operator]
        ask(world)
    assert len(callbacks) == 3  # Two journal events, and "there is a run".


def test_the_next_turn_hangs_on_the_answer() -> None:
    world = make_world()
    first = answer(world, "Two days.")
    second = ask(world, "Paid?", conversation=first.conversation)
    assert second.conversation == first.conversation
    assert second.message.parent_id == first.run.answer_id
    assert kinds_of(first.conversation) == [
        "user_message",
        "run_queued",
        "run_started",
        "text",
        "run_finished",
        "user_message",
        "run_queued",
    ]


def test_k46_the_same_key_is_the_same_turn() -> None:
    world = make_world()
    first = ask(world, "Hello", key="k-1")
    before = state_of(world)
    again = ask(world, "Hello", key="k-1")
    assert (again.run, again.message, again.replayed) == (first.run, first.message, True)
    assert state_of(world) == before


def test_k46_the_same_key_after_the_run_finished_is_still_the_same_turn() -> None:
    world = make_world()
    first = ask(world, "Hello", key="k-1")
    finish(open_gate())
    again = ask(world, "Hello", key="k-1")
    assert (again.run.pk, again.run.state, again.replayed) == (first.run.pk, "succeeded", True)
    assert (Message.objects.count(), Run.objects.count()) == (1, 1)


def test_the_same_key_with_other_words_is_a_conflict() -> None:
    world = make_world()
    ask(world, "Hello", key="k-1")
    before = state_of(world)
    with pytest.raises(Conflict) as refused:
        ask(world, "Goodbye", key="k-1")
    assert refused.value.code == "idempotency_key"
    assert state_of(world) == before


def test_a_refused_start_leaves_its_key_unused() -> None:
    world = make_world()
    first = ask(world, "Hello")
    with pytest.raises(Conflict):
        ask(world, "More", key="k-1", conversation=first.conversation)
    finish(open_gate())
    assert ask(world, "More", key="k-1", conversation=first.conversation).replayed is False


def test_a_second_message_while_an_answer_is_written_is_a_conflict() -> None:
    world = make_world()
    first = ask(world)
    before = state_of(world)
    for make_active in (lambda: None, claim):
        make_active()
        before = state_of(world)
        with pytest.raises(Conflict) as refused:
            ask(world, "And?", conversation=first.conversation)
        assert refused.value.code == "busy"
        assert state_of(world) == before


def test_neither_agent_nor_conversation_is_invalid() -> None:
    world = make_world()
    with pytest.raises(Invalid):
        turns.start(world.authority, text="Hello", key="k")
    assert Conversation.objects.count() == 0


def _unshare(agent: Agent) -> None:
    agent_grants = type(agent)._meta.apps.get_model("agents", "AgentTeamGrant")
    agent_grants.objects.filter(content_object=agent).delete()


def test_an_agent_that_was_not_granted_is_missing() -> None:
    world = make_world()
    _unshare(world.agent)
    with pytest.raises(Missing):
        ask(world)
    assert Conversation.objects.count() == 0


def test_an_agent_that_may_only_be_viewed_is_denied() -> None:
    world = make_world()
    _unshare(world.agent)
    factories.grant(world.member, Verb.VIEW, world.agent)
    with pytest.raises(Denied):
        ask(world)
    assert Conversation.objects.count() == 0


def test_an_agent_of_another_organisation_is_missing() -> None:
    world, other = make_world(), make_world()
    with pytest.raises(Missing):
        turns.start(world.authority, text="Hello", key="k", agent=other.agent)
    assert Conversation.objects.count() == 0


@pytest.mark.parametrize("change", [{"archived_at": now()}, {"current_version": None}])
def test_an_archived_or_unpublished_agent_is_a_conflict(change: dict[str, object]) -> None:
    world = make_world()
    Agent.objects.filter(pk=world.agent.pk).update(**change)
    with pytest.raises(Conflict):
        ask(world)
    assert Conversation.objects.count() == 0


def test_an_agent_whose_model_is_switched_off_is_a_conflict() -> None:
    world = make_world()
    LanguageModel.objects.update(enabled=False)
    with pytest.raises(Conflict, match="switched off"):
        ask(world)
    assert Conversation.objects.count() == 0


def test_an_agent_lost_in_mid_conversation_takes_no_further_turn() -> None:
    world = make_world()
    first = answer(world, "Two.")
    _unshare(world.agent)
    before = state_of(world)
    with pytest.raises(Missing):
        ask(world, "And?", conversation=first.conversation)
    assert state_of(world) == before


def test_a_conversation_that_may_only_be_viewed_takes_no_turn() -> None:
    world = make_world()
    first = answer(world, "Two.")
    watcher = world.another((Verb.VIEW, first.conversation))
    before = state_of(world)
    with pytest.raises(Denied):
        ask(world, conversation=first.conversation, authority=factories.authority_of(watcher))
    stranger = factories.authority_of(world.another())
    with pytest.raises(Missing):
        ask(world, conversation=first.conversation, authority=stranger)
    assert state_of(world) == before


def test_an_archived_conversation_takes_no_turn() -> None:
    world = make_world()
    first = answer(world, "Two.")
    services.archive(world.authority, conversation_id=str(first.conversation.pk))
    with pytest.raises(Conflict, match="archived"):
        ask(world, "And?", conversation=first.conversation)


def test_a_further_turn_runs_the_newest_version_of_the_agent() -> None:
    world = make_world()
    first = answer(world, "Two.")
    Agent.objects.filter(pk=world.agent.pk).update(max_steps=3)
    newer = publish_agent(factories.authority_of(world.admin), agent=world.agent)
    second = ask(world, "And?", conversation=first.conversation)
    assert (newer.number, second.run.agent_version) == (2, newer)


# --- what is said


def test_k23_text_is_made_storable() -> None:
    world = make_world()
    turn = ask(world, "status \ud83d ok \udc00 end \x00!")
    assert Message.objects.get().text == "status \ufffd ok \ufffd end \ufffd!"
    assert journal_of(turn.conversation)[0][2]["text"] == "status \ufffd ok \ufffd end \ufffd!"


@pytest.mark.parametrize("text", ["", "  \n\t ", "\u200b\u2060"])
def test_text_that_shows_nothing_is_invalid(text: str) -> None:
    world = make_world()
    with pytest.raises(Invalid):
        ask(world, text)
    assert Conversation.objects.count() == 0


def test_the_longest_message_is_a_hundred_thousand_characters() -> None:
    world = make_world()
    assert len(ask(world, "x" * 100_000).message.text) == 100_000
    with pytest.raises(TooLarge, match="100001"):
        ask(world, "x" * 100_001)
    assert Message.objects.count() == 1


def test_the_title_is_the_first_eighty_characters_on_one_line() -> None:
    world = make_world()
    assert ask(world, "One\n\n two").conversation.title == "One two"
    title = ask(world, "y" * 81).conversation.title
    assert title == "y" * 79 + "…"
