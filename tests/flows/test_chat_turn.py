"""A chat turn, from the member's browser to a cited answer, over the product's own processes."""

from __future__ import annotations

import json

from accounts.permissions import Verb
from accounts.services import remove_from_team
from tests import factories
from tests.providers.server import ModelServer
from tests.world import Desk, use_model


def test_a_member_asks_and_gets_a_cited_answer_from_what_they_may_see(desk: Desk) -> None:
    member = desk.sign_in(desk.reader)
    turn = member.ask(desk.agent.pk, "How many days of leave for moving house?")
    finished = member.wait_until_finished(turn)
    assert (finished["state"], finished["salvaged"]) == ("succeeded", False)
    answer = member.api(f"conversations/{turn['conversation']}/").json()["messages"][-1]
    assert "two days" in answer["text"]
    assert [source["title"] for source in answer["sources"]] == ["Moving house"]


def test_another_member_without_the_grant_gets_no_passage(desk: Desk) -> None:
    member = desk.sign_in(desk.outsider)
    turn = member.ask(desk.agent.pk, "How many days of leave for moving house?")
    finished = member.wait_until_finished(turn)
    assert finished["state"] == "succeeded"
    answer = member.api(f"conversations/{turn['conversation']}/").json()["messages"][-1]
    assert answer["sources"] == []
    assert "two days" not in answer["text"]


def test_K02_a_chat_loses_a_document_when_the_team_loses_its_member(
    desk: Desk, model_server: ModelServer
) -> None:
    """Same chat, same socket: the first turn that starts after the removal sees nothing of it."""
    team = factories.make_team(desk.organization, desk.outsider)
    factories.grant(team, Verb.VIEW, desk.source)
    agent = use_model(desk, model_server, "echo-search")
    member = desk.sign_in(desk.outsider)
    turn = member.ask(agent.pk, "How many days of leave for moving house?")
    member.wait_until_finished(turn)
    path = f"conversations/{turn['conversation']}/"
    (source,) = member.api(path).json()["messages"][-1]["sources"]
    citation = f"documents/{source['document']}/"
    assert member.api(citation).status == 200

    remove_from_team(factories.authority_of(desk.admin), team=team, membership=desk.outsider)
    before = len(model_server.requests)
    again = member.ask(
        agent.pk, "And how many for moving house?", conversation=turn["conversation"]
    )
    member.wait_until_finished(again)

    sent = [json.dumps(request.json) for request in model_server.requests[before:]]
    assert len(sent) == 2
    assert not [request for request in sent if "two days of paid leave" in request]
    assert '\\"passages\\":[]' in sent[-1]
    messages = member.api(path).json()["messages"]
    assert messages[-1]["sources"] == []
    assert "two days" not in json.dumps(messages)
    assert member.api(citation).status == 404
