"""A chat turn, from the member's browser to a cited answer, over the product's own processes."""

from __future__ import annotations

from tests.world import Desk


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
