"""A member with one grant on one document, and conversations of theirs that quote it.

Everything runs in the product's own processes. `leaks` finds the document's words in any text.
"""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass, replace
from typing import Any

from accounts.models import Membership, Organization, Role
from accounts.permissions import Verb
from agents.models import Agent
from agents.services import publish_agent
from conversations.models import Conversation, Run
from retrieval.models import Chunk, Document, DocumentUserGrant
from tasks import dispatch
from tasks.models import Occurrence, Task
from tasks.services import save_task
from tests import factories
from tests.client import Member
from tests.providers.received import Received
from tests.providers.script import Script, call_script, text_script
from tests.providers.server import ModelServer
from tests.stack import Stack
from tests.tasks.factories import DUE
from tests.world import add_document

QUESTION = "How is severance computed?"
AGAIN = "Say that again, please."
TITLE, MARKS = factories.canary("title"), (factories.canary("d"), factories.canary("d"))
TEXT = f"""# Severance {TITLE}

Whoever leaves after a reorganisation is paid fourteen weeks of salary for every started decade of
service, filed as {MARKS[0]}, and wired within nine working days after the keys were handed in.

Objections against the amount go to the ombudsman in writing, under the sign {MARKS[1]}, before the
second new moon of the following season has passed.
"""
LUNCH = b"# Canteen\n\nLunch is served from noon until two; the soup costs three euros.\n"
_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """The words of a page, a JSON body or plain text."""
    plain = html.unescape(re.sub(r"<[^>]*>", " ", text)).replace("\\n", " ")
    return [match[0].casefold() for match in _WORD.finditer(plain)]


def _runs(words: list[str]) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}


_SECRET = _runs(words_of(TEXT))


def leaks(text: str) -> list[str]:
    """What of the document stands in `text`: canaries, and five of its words running."""
    found = [mark for mark in (TITLE, *MARKS) if mark in text]
    return found + [" ".join(run) for run in _runs(words_of(text)) & _SECRET]


def answer_by_name(request: Received) -> Script:
    """Models that the model server doesn't know by itself."""
    name = request.model.partition(":")[0]
    call = call_script("search", json.dumps({"query": QUESTION}), id=f"call_{request.number}")
    if name == "parrot":  # Searches once, then only repeats what the chat holds.
        if request.question == AGAIN:
            return text_script(f"As I said. {_last_answer(request)}")
        return _quote(request) if request.results else call
    if name == "twice":  # Searches, takes its time, searches again.
        if len(request.results) == 1:
            return replace(call, wait=3.0)
        return text_script("Done.") if request.results else call
    if name == "slow":  # Searches, then quotes slowly.
        return replace(_quote(request), delay=0.05) if request.results else call
    raise AssertionError(f"unknown model {name}")


def _quote(request: Received) -> Script:
    if not request.passages:
        return text_script("I found nothing about that.")
    passage = request.passages[0]
    words = " ".join(str(passage["text"]).split()[:40])
    return text_script(f"It says: {words} [[{passage['cite']}]]", piece=5)


def _last_answer(request: Received) -> str:
    said = [m for m in request.json["messages"] if m["role"] == "assistant" and m.get("content")]
    return re.sub(r"\[\[.*?\]\]", "", str(said[-1]["content"])) if said else "Nothing."


@dataclass(kw_only=True)
class Scene:
    """The organisation; `reader` holds exactly one grant on the document, and grants elsewhere."""

    stack: Stack
    server: ModelServer
    organization: Organization
    admin: Membership
    reader: Membership
    keeper: Membership
    document: Document
    chunk: Chunk
    agents: dict[str, Agent]
    turns: dict[str, dict[str, Any]]
    task: Task

    def sign_in(self, membership: Membership) -> Member:
        return Member(self.stack.address, self.organization.slug).sign_in(membership.user.email)

    def conversation(self, name: str) -> str:
        """The id of a conversation by the name of its agent."""
        return str(self.turns[name]["conversation"])

    def take_the_grant(self, membership: Membership) -> None:
        """Delete the one row."""
        rows = DocumentUserGrant.objects.filter(user=membership.user, content_object=self.document)
        assert rows.count() == 1
        rows.delete()

    def ask_again(self, member: Member, name: str, text: str) -> dict[str, Any]:
        """A further turn of a conversation, to its end."""
        path = f"conversations/{self.conversation(name)}/turns/"
        answer = member.api(path, body={"text": text})
        assert answer.status == 201, answer.text
        turn: dict[str, Any] = answer.json()
        member.wait_until_finished(turn)
        return turn

    def add_agent(self, name: str, model: str) -> Agent:
        """An agent on a model of the model server, for everyone."""
        self.agents[name] = make_agent(self.organization, self.admin, self.server, model)
        return self.agents[name]


def make_agent(
    organization: Organization, admin: Membership, server: ModelServer, model: str
) -> Agent:
    """A published agent on the model server, or on the built-in model when `model` is empty."""
    language_model = (
        factories.make_language_model(
            organization, kind="openai_compatible", name=model, base_url=server.openai_url
        )
        if model
        else factories.make_language_model(organization)
    )
    agent = factories.make_agent(organization, model=language_model)
    publish_agent(factories.authority_of(admin), agent=agent)
    factories.grant(factories.everyone(organization), Verb.USE, agent)
    agent.refresh_from_db()
    return agent


def make_scene(stack: Stack, server: ModelServer, slug: str) -> Scene:
    """Build it, with one finished conversation for each of the agents."""
    organization = factories.make_organization(slug)
    admin = factories.make_member(organization, role=Role.ADMIN)
    reader = factories.make_member(organization)
    keeper = factories.make_member(organization)
    closed = factories.make_source(organization, name="Closed")
    opened = factories.make_source(organization, name="Open")
    for source in (closed, opened):
        factories.grant(admin, Verb.MANAGE, source)
    factories.grant(factories.everyone(organization), Verb.VIEW, opened)
    document = add_document(admin, closed, "severance.md", TEXT.encode())
    add_document(admin, opened, "canteen.md", LUNCH)
    for member in (reader, keeper):
        factories.grant(member, Verb.VIEW, document)
    scene = Scene(
        stack=stack,
        server=server,
        organization=organization,
        admin=admin,
        reader=reader,
        keeper=keeper,
        document=document,
        chunk=Chunk.objects.filter(document=document).earliest("ordinal"),
        agents={},
        turns={},
        task=Task(),
    )
    member = scene.sign_in(reader)
    for name, model in (("extractive", ""), ("echo", "echo-search"), ("parrot", "parrot")):
        agent = scene.add_agent(name, model)
        scene.turns[name] = member.ask(agent.pk, QUESTION)
        finished = member.wait_until_finished(scene.turns[name])
        assert finished["state"] == "succeeded", finished
    scene.ask_again(member, "parrot", AGAIN)
    scene.task = _executed_task(scene, member)
    return scene


def _executed_task(scene: Scene, member: Member) -> Task:
    """A task of the reader with one occurrence, executed as a worker does."""
    task = save_task(
        factories.authority_of(scene.reader),
        name="Weekly",
        agent_id=scene.agents["echo"].pk,
        prompt=QUESTION,
        cron="0 8 * * 1",
        time_zone="UTC",
        consent=True,
    )
    occurrence = Occurrence.objects.create(organization=scene.organization, task=task, due_at=DUE)
    dispatch.execute(occurrence.pk)
    occurrence.refresh_from_db()
    run = Run.objects.get(pk=occurrence.run_id)
    scene.turns["task"] = {"conversation": str(run.conversation_id), "run": str(run.pk)}
    assert member.wait_until_finished(scene.turns["task"])["state"] == "succeeded"
    dispatch.settle()
    return task


def last_seq(conversation_id: str) -> int:
    """The number of a conversation's newest event."""
    return Conversation.objects.values_list("last_seq", flat=True).get(pk=conversation_id)
