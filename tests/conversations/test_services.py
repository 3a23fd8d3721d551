"""Renaming, putting away, exporting."""

from __future__ import annotations

import pytest

from accounts.permissions import Verb
from conversations import services
from conversations.export import as_markdown
from conversations.queries import view_conversation
from kaizen.kernel.errors import Denied, Invalid, Missing
from tests import factories
from tests.conversations.worlds import (
    answer,
    ask,
    audited,
    journal_of,
    make_world,
    state_of,
)

pytestmark = pytest.mark.django_db


def test_a_new_title_is_kept_journaled_and_audited() -> None:
    world = make_world()
    conversation = ask(world).conversation
    services.rename(
        world.authority, conversation_id=str(conversation.pk), title="  Moving \n house\x00 "
    )
    conversation.refresh_from_db()
    assert conversation.title == "Moving house\ufffd"
    assert journal_of(conversation)[-1] == (3, "title", {"title": "Moving house\ufffd"})
    assert audited(world, "conversations.")[-1] == "conversations.renamed"


@pytest.mark.parametrize("title", ["", " \n", "x" * 201])
def test_a_title_has_one_to_two_hundred_characters(title: str) -> None:
    world = make_world()
    conversation = ask(world).conversation
    before = state_of(world)
    with pytest.raises(Invalid):
        services.rename(world.authority, conversation_id=str(conversation.pk), title=title)
    assert state_of(world) == before


def test_archiving_twice_is_archiving_once() -> None:
    world = make_world()
    conversation = ask(world).conversation
    identity = str(conversation.pk)
    first = services.archive(world.authority, conversation_id=identity).archived_at
    assert first is not None
    assert services.archive(world.authority, conversation_id=identity).archived_at == first
    assert audited(world, "conversations.archived") == ["conversations.archived"]


def test_who_may_rename_and_archive() -> None:
    world = make_world()
    conversation = ask(world).conversation
    identity = str(conversation.pk)
    changer = factories.authority_of(world.another((Verb.CHANGE, conversation)))
    services.rename(changer, conversation_id=identity, title="Changed")
    before = state_of(world)
    watcher = factories.authority_of(world.another((Verb.VIEW, conversation)))
    with pytest.raises(Denied):
        services.rename(watcher, conversation_id=identity, title="x")
    with pytest.raises(Denied):
        services.archive(changer, conversation_id=identity)
    for stranger in (world.another(), world.admin, make_world().admin):
        authority = factories.authority_of(stranger)
        with pytest.raises(Missing):
            services.rename(authority, conversation_id=identity, title="x")
        with pytest.raises(Missing):
            services.archive(authority, conversation_id=identity)
    assert state_of(world) == before


def test_an_export_is_what_the_reader_may_see() -> None:
    world = make_world()
    world.add_document()
    turn = answer(world, "Form 4471 [[{cite}]].", searches=True)
    text = as_markdown(view_conversation(world.authority, turn.conversation.pk))
    asked, answered = (
        f"{message.created_at:%Y-%m-%d %H:%M} UTC"
        for message in view_conversation(world.authority, turn.conversation.pk).messages
    )
    assert text == (
        "# How many days do I get?\n\n"
        f"## Question, {asked}\n\nHow many days do I get?\n\n"
        f"## {world.agent.name}, {answered}\n\nForm 4471 [1].\n\n"
        f"Sources:\n\n1. moving ({world.source.name})\n"
    )
    world.revoke()
    text = as_markdown(view_conversation(world.authority, turn.conversation.pk))
    assert "Form ▒▒▒▒ [source no longer available]." in text
    assert "Sources" not in text
