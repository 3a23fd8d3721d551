"""Events over plain HTTP. Another thread reads them, so these tests commit."""

from __future__ import annotations

import pytest

from tests.conversations.callers import Caller, problem
from tests.conversations.worlds import answer, ask, finish, make_world, open_gate, write


@pytest.mark.parametrize("scopes", [(), ("chat",)], ids=["session", "key"])
def test_events_are_read_after_a_number(committed_db: str, scopes: tuple[str, ...]) -> None:
    world = make_world()
    turn = ask(world)
    gate = open_gate()
    write(gate, "Two")
    finish(gate)
    caller = Caller(world.member, *scopes)
    path = f"conversations/{turn.conversation.pk}/events/"
    response = caller.get(f"{path}?after=2")
    assert response["Cache-Control"] == "no-store"
    events = response.json()["events"]
    assert [(event["seq"], event["kind"]) for event in events] == [
        (3, "run_started"),
        (4, "text"),
        (5, "run_finished"),
    ]
    assert caller.get(f"{path}?after=5").json() == {"events": []}
    assert caller.get(f"{path}?after=5&wait=1").json() == {"events": []}
    for wrong in ("after=x", "after=-1", "wait=1.5", f"after={'9' * 30}"):
        assert problem(caller.get(f"{path}?{wrong}")) == (400, "invalid")
    assert caller.post(path).status_code == 405


def test_a_stream_of_events_says_who_it_is(committed_db: str) -> None:
    world = make_world()
    turn = ask(world)
    caller = Caller(world.member, "chat")
    response = caller.get(
        f"conversations/{turn.conversation.pk}/events/", Accept="text/event-stream"
    )
    assert response["Content-Type"] == "text/event-stream"
    assert response["Cache-Control"] == "no-store"
    response.close()


def test_who_may_read_events(committed_db: str) -> None:
    world, other = make_world(), make_world()
    turn = ask(world, "Canary")
    path = f"conversations/{turn.conversation.pk}/events/"
    unused = "conversations/01890000-0000-7000-8000-000000000000/events/"
    for stranger in (world.another(), world.admin, other.member):
        for scopes in ((), ("chat",)):
            caller = Caller(stranger, *scopes)
            for address in (path, unused, f"{path}?wait=1"):
                assert problem(caller.get(address)) == (404, "missing")
    assert problem(Caller(world.member, "search").get(path)) == (403, "scope")
    nobody = Caller(world.member, "chat")
    nobody.headers["Authorization"] = "Bearer kz_nonsense"
    assert problem(nobody.get(path)) == (401, "unauthenticated")


def test_after_a_revocation_events_hold_nothing_of_the_passage(committed_db: str) -> None:
    world = make_world()
    world.add_document()
    turn = answer(world, "Form 4471 [[{cite}]].", searches=True)
    caller = Caller(world.member, "chat")
    path = f"conversations/{turn.conversation.pk}/events/?after=0"
    assert b"4471" in caller.get(path).content
    world.revoke()
    response = caller.get(path)
    assert (response.status_code, b"4471" in response.content) == (200, False)
    assert len(response.json()["events"]) == 7
