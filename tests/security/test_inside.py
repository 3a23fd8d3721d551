"""Foreign ids beside the address, in queries, forms and bodies: as good as unused ones.

Each request is made at one's own organisation and is right but for that one id; with an own id in
its place it succeeds, which is the positive control.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.security.walk_probe import Caller, Worlds, digest, undone
from tests.security.walk_routes import Sent
from tests.security.walk_world import World, unused_id


def _principal(kind: str) -> Callable[[World], object]:
    return lambda w: w.team.uuid if kind == "team" else w.member.user.public_id


@dataclass(frozen=True, kw_only=True)
class Inside:
    """A request at one's own organisation that names a foreign id somewhere inside."""

    method: str
    id_of: Callable[[World], object]
    make: Callable[[World, str], tuple[str, Sent]]
    statuses: tuple[int, ...] = (404,)


def _grant_body(world: World, **changes: str) -> dict[str, str]:
    return {
        "type": "source",
        "object": str(world.source.pk),
        "principal": "person",
        "principal_id": str(world.member.user.public_id),
        "verb": "view",
    } | changes


def _task_body(world: World, agent: str) -> dict[str, object]:
    return {
        "name": "Inside",
        "agent": agent,
        "prompt": "What is new?",
        "cron": "0 9 * * 2",
        "time_zone": "UTC",
        "consent": True,
        "days": 3,
    }


def _as_query(values: dict[str, str]) -> str:
    return "&".join(f"{name}={value}" for name, value in values.items())


GRANTABLE: dict[str, Callable[[World], object]] = {
    "project": lambda w: w.project.pk,
    "source": lambda w: w.source.pk,
    "document": lambda w: w.document.pk,
    "agent": lambda w: w.agent.pk,
    "prompt": lambda w: w.agent.prompt_id,
    "languagemodel": lambda w: w.agent.language_model_id,
    "conversation": lambda w: w.conversation.pk,
    "task": lambda w: w.task.pk,
}

INSIDES: dict[str, Inside] = {
    "search api, source": Inside(
        method="GET",
        id_of=lambda w: w.source.pk,
        make=lambda w, i: ("api/v1/search/", Sent(query=f"q=rule&source={i}")),
        statuses=(200,),
    ),
    "search page, source": Inside(
        method="GET",
        id_of=lambda w: w.source.pk,
        make=lambda w, i: ("search/", Sent(query=f"q=rule&source={i}")),
        statuses=(200,),
    ),
    "document page, passage": Inside(
        method="GET",
        id_of=lambda w: w.passage.pk,
        make=lambda w, i: (f"documents/{w.document.pk}/", Sent(query=f"passage={i}")),
    ),
    "document page, passage as a fragment": Inside(
        method="GET",
        id_of=lambda w: w.passage.pk,
        make=lambda w, i: (f"documents/{w.document.pk}/", Sent(query=f"passage={i}&fragment=1")),
    ),
    "documents of a source, before": Inside(
        method="GET",
        id_of=lambda w: w.document.pk,
        make=lambda w, i: (f"sources/{w.source.pk}/documents/", Sent(query=f"before={i}")),
        statuses=(200,),
    ),
    "turns api, agent": Inside(
        method="POST",
        id_of=lambda w: w.agent.pk,
        make=lambda w, i: ("api/v1/turns/", Sent(json={"agent": i, "text": "Hello"})),
    ),
    "chat page, agent": Inside(
        method="POST",
        id_of=lambda w: w.agent.pk,
        make=lambda w, i: ("chat/", Sent(form={"agent": i, "text": "Hello"})),
    ),
    "tasks api, agent": Inside(
        method="POST",
        id_of=lambda w: w.agent.pk,
        make=lambda w, i: ("api/v1/tasks/", Sent(json=_task_body(w, i))),
    ),
    "task api, agent": Inside(
        method="PATCH",
        id_of=lambda w: w.agent.pk,
        make=lambda w, i: (
            f"api/v1/tasks/{w.task.pk}/",
            Sent(json={"agent": i, "consent": True}),
        ),
    ),
    "task page, agent": Inside(
        method="POST",
        id_of=lambda w: w.agent.pk,
        make=lambda w, i: ("tasks/new/", Sent(form={**_task_body(w, i), "consent": "on"})),
    ),
    "task page, agent in the address": Inside(
        method="GET",
        id_of=lambda w: w.agent.pk,
        make=lambda w, i: ("tasks/new/", Sent(query=f"agent={i}")),
        statuses=(200,),
    ),
    "sources api, project": Inside(
        method="POST",
        id_of=lambda w: w.project.pk,
        make=lambda w, i: ("api/v1/sources/", Sent(json={"name": "Inside", "project": i})),
    ),
    "source api, project": Inside(
        method="PATCH",
        id_of=lambda w: w.project.pk,
        make=lambda w, i: (f"api/v1/sources/{w.source.pk}/", Sent(json={"project": i})),
    ),
    "teams api, parent": Inside(
        method="POST",
        id_of=lambda w: w.team.uuid,
        make=lambda w, i: ("api/v1/teams/", Sent(json={"name": "Inside", "parent": i})),
    ),
    "stop page, own run of a foreign conversation": Inside(
        method="POST",
        id_of=lambda w: w.conversation.pk,
        make=lambda w, i: (f"chat/{i}/runs/{w.broken_run.pk}/stop/", Sent()),
    ),
    "retry page, own run of a foreign conversation": Inside(
        method="POST",
        id_of=lambda w: w.conversation.pk,
        make=lambda w, i: (f"chat/{i}/runs/{w.broken_run.pk}/retry/", Sent()),
    ),
    "stop page, foreign run of an own conversation": Inside(
        method="POST",
        id_of=lambda w: w.broken_run.pk,
        make=lambda w, i: (f"chat/{w.conversation.pk}/runs/{i}/stop/", Sent()),
    ),
}
for _type, _id_of in GRANTABLE.items():
    INSIDES[f"grants, read {_type}"] = Inside(
        method="GET",
        id_of=_id_of,
        make=lambda w, i, _type=_type: (  # type: ignore[misc]
            "api/v1/grants/",
            Sent(query=f"type={_type}&object={i}"),
        ),
    )
    INSIDES[f"grants, give {_type}"] = Inside(
        method="POST",
        id_of=_id_of,
        make=lambda w, i, _type=_type: (  # type: ignore[misc]
            "api/v1/grants/",
            Sent(json=_grant_body(w, type=_type, object=i)),
        ),
    )
    INSIDES[f"grants, take {_type}"] = Inside(
        method="DELETE",
        id_of=_id_of,
        make=lambda w, i, _type=_type: (  # type: ignore[misc]
            "api/v1/grants/",
            Sent(query=_as_query(_grant_body(w, type=_type, object=i))),
        ),
    )
for _kind in ("person", "team"):
    for _method in ("POST", "DELETE"):
        INSIDES[f"grants, {_method} {_kind}"] = Inside(
            method=_method,
            id_of=_principal(_kind),
            make=lambda w, i, _kind=_kind, _method=_method: (  # type: ignore[misc]
                "api/v1/grants/",
                Sent(json=_grant_body(w, principal=_kind, principal_id=i))
                if _method == "POST"
                else Sent(query=_as_query(_grant_body(w, principal=_kind, principal_id=i))),
            ),
            statuses=(400,),
        )


@pytest.mark.parametrize("name", INSIDES)
def test_a_foreign_id_inside_a_request_is_as_good_as_an_unused_one(
    worlds: Worlds, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    inside, home, foreign = INSIDES[name], worlds.home, worlds.foreign
    caller = Caller("owner", home.owner.user)
    before = digest(foreign), digest(home, but=("audit_",))
    shapes = []
    for value in (inside.id_of(foreign), unused_id()):
        path, sent = inside.make(home, str(value))
        answer = caller.ask(inside.method, f"/o/home/{path}", sent)
        assert answer.status in inside.statuses, answer.body[:500]
        assert foreign.canaries.found_in(answer.text) == []
        shapes.append(answer.shape([value]))
    assert shapes[0] == shapes[1]
    assert (digest(foreign), digest(home, but=("audit_",))) == before
    assert foreign.canaries.found_in(caplog.text) == []


@pytest.mark.parametrize("name", INSIDES)
def test_the_same_request_with_an_own_id_succeeds(worlds: Worlds, name: str) -> None:
    """The positive control of the test above."""
    inside, home = INSIDES[name], worlds.home
    path, sent = inside.make(home, str(inside.id_of(home)))
    with undone():
        answer = Caller("owner", home.owner.user).ask(inside.method, f"/o/home/{path}", sent)
    assert 200 <= answer.status < 400, answer.body[:500]
