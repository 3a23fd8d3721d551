"""The pages: the rail's cost, and that they show what the reader may see."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.conversations.worlds import World, answer, ask, make_world

pytestmark = pytest.mark.django_db


def sign_in(world: World) -> tuple[Client, str]:
    client = Client()
    client.force_login(world.member.user)
    return client, f"/o/{world.organization.slug}/"


@pytest.mark.parametrize("path", ["chat/rail/", "api/v1/conversations/?limit=100"])
def test_the_list_costs_the_same_for_ten_and_for_a_hundred(path: str) -> None:
    world = make_world()
    client, base = sign_in(world)
    costs = []
    for number in range(100):
        ask(world, f"Question {number}")
        if number in (9, 99):
            client.get(base + path)
            with CaptureQueriesContext(connection) as queries:
                assert client.get(base + path).status_code == 200
            costs.append(len(queries))
    assert costs[0] == costs[1] < 15


def test_a_page_of_twenty_messages_costs_what_one_of_two_does() -> None:
    world = make_world()
    client, base = sign_in(world)
    costs = []
    conversation = None
    for number in range(10):
        conversation = answer(
            world, "Two.", question=f"Question {number}", conversation=conversation
        ).conversation
        if number in (0, 9):
            address = f"{base}chat/{conversation.pk}/"
            client.get(address)
            with CaptureQueriesContext(connection) as queries:
                assert client.get(address).status_code == 200
            costs.append(len(queries))
    assert costs[0] == costs[1]


def test_after_a_revocation_page_and_export_hold_nothing_of_the_passage() -> None:
    world = make_world()
    world.add_document()
    turn = answer(world, "Form 4471 [[{cite}]].", searches=True)
    client, base = sign_in(world)
    pages = [f"{base}chat/{turn.conversation.pk}/", f"{base}chat/{turn.conversation.pk}/export/"]
    assert all(b"4471" in client.get(page).content for page in pages)
    world.revoke()
    for page in pages:
        response = client.get(page)
        assert response.status_code == 200
        assert b"4471" not in response.content, page
        assert "source no longer available" in response.content.decode()


def test_a_refused_question_stays_in_the_form() -> None:
    world = make_world()
    client, base = sign_in(world)
    other = make_world()
    response = client.post(f"{base}chat/", {"text": "My question", "agent": str(other.agent.pk)})
    assert response.status_code == 404
    assert "My question" in response.content.decode()
    response = client.post(f"{base}chat/", {"text": "My question", "agent": str(world.agent.pk)})
    assert response.status_code == 302
    assert response["Location"].startswith(f"{base}chat/")
