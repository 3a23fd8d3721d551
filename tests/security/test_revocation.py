"""After one grant is deleted no surface holds a passage of its document, in old chats too.

Each surface is read by the member before (the positive control) and after; the words of the
document are looked for, not only its canaries. Also the cases K03 and K06.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.core.files.storage import default_storage
from pytest_django.plugin import DjangoDbBlocker

from accounts.permissions import Verb
from agents.services import publish_agent
from conversations.models import Conversation
from retrieval.blobs import purge_document
from retrieval.models import Blob, Document
from tests import factories
from tests.client import Member, collect_until
from tests.conftest import connected_to
from tests.providers.thread import serve_in_thread
from tests.security.revocation_scene import (
    AGAIN,
    QUESTION,
    Scene,
    answer_by_name,
    last_seq,
    leaks,
    make_scene,
)
from tests.stack import Stack
from tests.world import add_document

TALKS = ("extractive", "echo", "parrot", "task")
Surface = Callable[[Scene, Member], str]


def _read(member: Member, path: str, *, page: bool = False) -> str:
    answer = (member.page if page else member.api)(path)
    return f"{answer.status} {answer.headers} {answer.body.decode('utf-8', 'replace')}"


def _api(path: str) -> Surface:
    return lambda scene, member: _read(member, _filled(path, scene))


def _page(path: str) -> Surface:
    return lambda scene, member: _read(member, _filled(path, scene), page=True)


def _filled(path: str, scene: Scene) -> str:
    names = {name: scene.conversation(name) for name in TALKS}
    return path.format(
        document=scene.document.pk, chunk=scene.chunk.pk, task_page=scene.task.pk, **names
    )


def _stream(name: str) -> Surface:
    """The events as server-sent events, up to the newest."""

    def surface(scene: Scene, member: Member) -> str:
        conversation = scene.conversation(name)
        cookies = "; ".join(f"{key}={value}" for key, value in member.cookies().items())
        request = urllib.request.Request(
            f"{member.address}/o/{member.slug}/api/v1/conversations/{conversation}/events/?after=0",
            headers={"Accept": "text/event-stream", "Cookie": cookies},
        )
        end, lines = f"id: {last_seq(conversation)}", []
        with contextlib.closing(urllib.request.urlopen(request, timeout=20)) as response:
            for line in response:
                lines.append(line.decode())
                if lines[-1] == "\n" and any(at.startswith(end) for at in lines[-4:]):
                    break
        return "".join(lines)

    return surface


def _socket(name: str, render: str) -> Surface:
    """What a socket opened afresh is told."""

    async def watch(member: Member, conversation: str) -> list[dict[str, Any]]:
        async with member.socket(conversation, render=render) as socket:
            return await collect_until(socket, lambda frame: frame["type"] == "caught_up")

    return lambda scene, member: json.dumps(
        asyncio.run(watch(member, scene.conversation(name))), ensure_ascii=False
    )


def _next_request(name: str, text: str) -> Surface:
    """What the provider is sent for the next turn of a chat."""

    def surface(scene: Scene, member: Member) -> str:
        before = len(scene.server.requests)
        scene.ask_again(member, name, text)
        sent = scene.server.requests[before:]
        assert sent
        return "\n".join(json.dumps(request.json, ensure_ascii=False) for request in sent)

    return surface


def _read_document(scene: Scene, member: Member) -> str:
    """What an agent gets that reads the cited document, and what it answers."""
    before = len(scene.server.requests)
    turn = member.ask(scene.agents["reader"].pk, "Read it.")
    member.wait_until_finished(turn)
    sent = scene.server.requests[before:]
    assert len(sent) == 2
    return _read(member, f"conversations/{turn['conversation']}/") + "\n".join(
        json.dumps(request.json, ensure_ascii=False) for request in sent
    )


SURFACES: dict[str, Surface] = {
    "search, by words": _api("search/?q=severance+ombudsman&mode=lexical"),
    "search, by meaning": _api("search/?q=money+when+being+dismissed&mode=semantic"),
    "search, both": _api("search/?q=severance"),
    "search page": _page("search/?q=severance"),
    "sources page": _page("sources/"),
    "document page": _page("documents/{document}/"),
    "citation link": _page("documents/{document}/?passage={chunk}"),
    "citation panel": _page("documents/{document}/?passage={chunk}&fragment=1"),
    "download": _page("documents/{document}/download/"),
    "document api": _api("documents/{document}/"),
    "content api": _api("documents/{document}/content/"),
    "passages api": _api("documents/{document}/passages/"),
    "passage api": _api("passages/{chunk}/"),
    "read_document tool": _read_document,
    "next provider request, model that searches": _next_request("echo", QUESTION),
    "next provider request, model that remembers": _next_request("parrot", AGAIN),
}
for _name in TALKS:
    SURFACES |= {
        f"page of the {_name} chat": _page(f"chat/{{{_name}}}/"),
        f"api of the {_name} chat": _api(f"conversations/{{{_name}}}/"),
        f"events of the {_name} chat, long poll": _api(f"conversations/{{{_name}}}/events/"),
        f"events of the {_name} chat, stream": _stream(_name),
        f"socket of the {_name} chat, html": _socket(_name, "html"),
        f"export of the {_name} chat, json": _api(f"conversations/{{{_name}}}/export/"),
        f"export of the {_name} chat, markdown": _page(f"chat/{{{_name}}}/export/"),
    }
    if _name != "extractive":  # Its text is marks alone: quotations are put in by the reading.
        SURFACES[f"socket of the {_name} chat, text"] = _socket(_name, "text")
SURFACES.pop("events of the extractive chat, long poll")
SURFACES.pop("events of the extractive chat, stream")

MISSING_AFTER = (
    "document page",
    "citation link",
    "citation panel",
    "download",
    "document api",
    "content api",
    "passages api",
    "passage api",
)
# Surfaces that never hold a passage, before or after: lists and the task's own pages.
LISTS: dict[str, Surface] = {
    "list of chats": _page("chat/rail/"),
    "chats api": _api("conversations/"),
    "sources api": _api("sources/"),
    "tasks page": _page("tasks/"),
    "task page": _page("tasks/{task_page}/"),
    "occurrences api": _api("tasks/{task_page}/occurrences/"),
    "events of the extractive chat, long poll": _api("conversations/{extractive}/events/"),
    "socket of the extractive chat, text": _socket("extractive", "text"),
}


@dataclass(frozen=True)
class Revoked:
    """The scene with the grant deleted, and what each surface said before."""

    scene: Scene
    member: Member
    before: dict[str, str]


@pytest.fixture(scope="module")
def revoked(product: Stack, django_db_blocker: DjangoDbBlocker) -> Iterator[Revoked]:
    with (
        connected_to(product.database, django_db_blocker),
        serve_in_thread(obey=answer_by_name) as server,
    ):
        scene = make_scene(product, server, f"revoked-{uuid.uuid4().hex[:8]}")
        member = scene.sign_in(scene.reader)
        message = member.api(f"conversations/{scene.conversation('echo')}/events/").json()
        results = [event for event in message["events"] if event["kind"] == "text"]
        cite = "".join(event["data"]["text"] for event in results).partition("[[")[2][:9]
        model = "call-tool:read_document," + json.dumps({"document": cite})
        scene.add_agent("reader", model)
        before = {name: surface(scene, member) for name, surface in SURFACES.items()}
        scene.take_the_grant(scene.reader)
        yield Revoked(scene, member, before)


@pytest.mark.parametrize("name", SURFACES)
def test_after_one_grant_is_deleted_no_passage_is_left_in(revoked: Revoked, name: str) -> None:
    assert leaks(revoked.before[name]), revoked.before[name][:2000]  # the positive control
    after = SURFACES[name](revoked.scene, revoked.member)
    assert leaks(after) == []
    if name in MISSING_AFTER:
        assert after.startswith("404 ")


@pytest.mark.parametrize("name", LISTS)
def test_lists_and_tasks_hold_no_passage(revoked: Revoked, name: str) -> None:
    after = LISTS[name](revoked.scene, revoked.member)
    assert after.startswith(("200 ", "["))
    assert leaks(after) == []


def test_the_old_answers_say_that_something_is_no_longer_available(revoked: Revoked) -> None:
    for name in ("extractive", "echo"):
        path = f"conversations/{revoked.scene.conversation(name)}/"
        answers = [
            message
            for message in revoked.member.api(path).json()["messages"]
            if message["role"] == "assistant"
        ]
        assert answers[0]["withheld"] is True
        documents = [source["document"] for source in answers[0]["sources"]]
        assert str(revoked.scene.document.pk) not in documents
        assert "source no longer available" in answers[0]["text"]


def test_what_else_the_member_may_see_is_still_found(revoked: Revoked) -> None:
    titles = [hit["title"] for hit in revoked.member.api("search/?q=soup").json()["results"]]
    assert titles == ["Canteen"]


def test_another_member_with_a_grant_of_their_own_still_finds_it(revoked: Revoked) -> None:
    member = revoked.scene.sign_in(revoked.scene.keeper)
    assert leaks(SURFACES["search, both"](revoked.scene, member))


def test_a_grant_deleted_in_mid_run_is_gone_from_the_runs_next_request(
    revoked: Revoked,
) -> None:
    scene = revoked.scene
    member = scene.sign_in(scene.keeper)
    agent = scene.add_agent("twice", "twice")
    before = len(scene.server.requests)
    turn = member.ask(agent.pk, QUESTION)
    scene.stack.wait_for(
        lambda: len(scene.server.requests) == before + 2, what="the request with the passages"
    )
    scene.take_the_grant(scene.keeper)
    assert member.wait_until_finished(turn)["state"] == "succeeded"
    sent = [json.dumps(request.json) for request in scene.server.requests[before:]]
    assert len(sent) == 3
    assert leaks(sent[1])
    assert leaks(sent[2]) == []
    factories.grant(scene.keeper, Verb.VIEW, scene.document)


@pytest.mark.parametrize("render", ["html", "text"])
def test_who_only_shares_the_chat_sees_no_passage_while_it_is_written(
    revoked: Revoked, render: str
) -> None:
    """Live text is what the run's own member may see; who may see less gets it covered."""
    scene = revoked.scene
    owner = scene.sign_in(scene.keeper)
    agent = scene.agents.get("slow") or scene.add_agent("slow", "slow")
    turn = owner.ask(agent.pk, QUESTION)
    conversation = Conversation.objects.get(pk=turn["conversation"])
    factories.grant(scene.reader, Verb.VIEW, conversation)
    seen = asyncio.run(
        _watch_together([owner, revoked.member], turn["conversation"], turn["run"], render)
    )
    assert leaks(_told(seen[0]))
    assert leaks(_told(seen[1])) == []
    assert any(frame["type"] in ("text", "block") for frame in seen[0])


async def _watch_together(
    members: list[Member], conversation: str, run: str, render: str
) -> list[list[dict[str, Any]]]:
    async def watch(member: Member) -> list[dict[str, Any]]:
        async with member.socket(conversation, render=render) as socket:
            return await collect_until(
                socket,
                lambda frame: frame.get("kind") == "run_finished" and frame["run"] == run,
            )

    return await asyncio.gather(*(watch(member) for member in members))


def _told(frames: list[dict[str, Any]]) -> str:
    """Everything a client was told: each frame as it came, and the pieces of text joined."""
    pieces = [
        frame.get("data", frame).get("text", "")
        for frame in frames
        if "text" in (frame["type"], frame.get("kind"))
    ]
    return json.dumps(frames, ensure_ascii=False) + "\n" + "".join(pieces)


def test_the_processes_logged_no_passage(revoked: Revoked) -> None:
    log = revoked.scene.stack.log()
    assert log
    assert leaks(log) == []


# --- K03 and K06


def test_K03_an_agents_source_is_not_handed_to_who_may_only_use_the_agent(
    revoked: Revoked,
) -> None:
    scene = revoked.scene
    source = factories.make_source(scene.organization, name="Attached")
    factories.grant(scene.admin, Verb.MANAGE, source)
    secret = factories.canary("k03")
    add_document(
        scene.admin, source, "plan.md", f"# Plan\n\nThe code of {secret} is 4471.\n".encode()
    )
    agent = scene.add_agent("attached", "echo-search")
    agent.sources.add(source, through_defaults={"organization": scene.organization})
    agent.all_sources = False
    agent.save()
    publish_agent(factories.authority_of(scene.admin), agent=agent)
    answers = {}
    for who, membership in (("admin", scene.admin), ("member", scene.keeper)):
        member = scene.sign_in(membership)
        before = len(scene.server.requests)
        turn = member.ask(agent.pk, "What does the plan say about 4471?")
        assert member.wait_until_finished(turn)["state"] == "succeeded"
        conversation = member.api(f"conversations/{turn['conversation']}/").json()
        sent = [json.dumps(request.json) for request in scene.server.requests[before:]]
        answers[who] = (conversation["messages"][-1], sent)
    assert secret in answers["admin"][0]["text"]
    assert any(secret in request for request in answers["admin"][1])
    message, sent = answers["member"]
    assert (message["text"], message["sources"]) == ("I found nothing about that.", [])
    assert not [request for request in sent if secret in request]
    assert '\\"passages\\":[]' in sent[-1]
    assert "may see no source here" in sent[-1]


def test_K06_a_deleted_document_answers_nothing_with_no_worker_running(
    revoked: Revoked,
) -> None:
    scene = revoked.scene
    assert scene.stack.children["worker"].process is None
    source = factories.make_source(scene.organization, name="Zoo")
    factories.grant(scene.admin, Verb.MANAGE, source)
    text = b"# Zoo\n\nThe code zebrafish-881 opens the aquarium at the back of the hall.\n"
    document = add_document(scene.admin, source, "zoo.md", text)
    member = scene.sign_in(scene.admin)
    echo = scene.agents["echo"]
    turn = member.ask(echo.pk, "What does zebrafish-881 open?")
    member.wait_until_finished(turn)
    old = f"conversations/{turn['conversation']}/"
    assert "aquarium at the back" in member.api(old).text
    blob = Blob.objects.get(organization=scene.organization, digest=_digest(text))
    for mode in ("lexical", "semantic"):
        assert (
            "zebrafish"
            in member.api(f"search/?q=zebrafish-881&mode={mode}").json()["results"][0]["text"]
        )

    assert member.api(f"documents/{document.pk}/", method="DELETE").status == 204

    for mode in ("lexical", "semantic"):
        hits = member.api(f"search/?q=zebrafish-881&mode={mode}").json()["results"]
        assert not [hit for hit in hits if hit["document"] == str(document.pk)]
        assert "zebrafish" not in json.dumps([hit["text"] for hit in hits])
    asked = member.ask(echo.pk, "What does the zebrafish code open?")
    member.wait_until_finished(asked)
    answer = member.api(f"conversations/{asked['conversation']}/").json()["messages"][-1]
    assert "aquarium" not in json.dumps(answer)
    assert str(document.pk) not in json.dumps(answer)
    for path in ("", "content/", "passages/"):
        assert member.api(f"documents/{document.pk}/{path}").status == 404
    assert member.page(f"documents/{document.pk}/download/").status == 404
    assert default_storage.exists(blob.storage_name)

    # What a worker does once it is back.
    assert purge_document(document.pk) == 1
    assert not default_storage.exists(blob.storage_name)
    assert not Document.objects.filter(pk=document.pk, deleted_at=None).exists()
    assert "aquarium at the back" not in member.api(old).text
    assert "aquarium at the back" not in member.api(f"{old}events/").text


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
