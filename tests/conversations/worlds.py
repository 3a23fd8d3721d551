"""An organisation that talks: an admin, a member, a published agent, a source; and what a runtime
does to a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from accounts.authority import Authority
from accounts.models import Membership, Organization, Role
from accounts.permissions import Verb, delete_grant
from agents.guard import pipeline
from agents.guard.pipeline import ToolRequest, ToolResult
from agents.models import Agent
from agents.services import publish_agent
from audit.models import AuditEvent
from conversations import leases, turns
from conversations.active import load_gate
from conversations.gate import Gate
from conversations.leases import Lease
from conversations.models import Conversation, JournalEvent, Run
from conversations.turns import Turn
from retrieval.documents import upload
from retrieval.ingest.store import ingest_document
from retrieval.models import Document, Source
from tests import factories

MOVING = (
    "Whoever moves house gets two days of paid leave, and the form for it is number 4471.\n\n"
    "Ask your team lead.\n"
)


@dataclass(frozen=True)
class World:
    """One organisation. `member` may use the agent and read the source."""

    organization: Organization
    admin: Membership
    member: Membership
    agent: Agent
    source: Source

    @property
    def authority(self) -> Authority:
        """The member's, of this moment."""
        return factories.authority_of(self.member)

    def another(self, *verbs: tuple[Verb, Any]) -> Membership:
        """A further member with these grants."""
        membership = factories.make_member(self.organization)
        for verb, obj in verbs:
            factories.grant(membership, verb, obj)
        return membership

    def add_document(self, name: str = "moving.md", text: str = MOVING) -> Document:
        """A document in the index, by the product's own way."""
        authority = factories.authority_of(self.admin)
        document = upload(authority, source=self.source, file_name=name, data=text.encode())
        ingest_document(document.pk)
        document.refresh_from_db()
        assert document.state == Document.State.INDEXED, document.state_message
        return document

    def revoke(self) -> None:
        """The member loses the source."""
        assert delete_grant(self.member.user, Verb.VIEW, self.source)


def make_world(*, model: dict[str, Any] | None = None, **agent: Any) -> World:
    """A fresh one; its agent on the built-in model, or on one made with `model`."""
    organization = factories.make_organization()
    admin = factories.make_member(organization, role=Role.ADMIN)
    member = factories.make_member(organization)
    source = factories.make_source(organization)
    factories.grant(admin, Verb.MANAGE, source)
    factories.grant(member, Verb.VIEW, source)
    language_model = factories.make_language_model(organization, **(model or {}))
    made = factories.make_agent(organization, model=language_model, **agent)
    publish_agent(factories.authority_of(admin), agent=made)
    factories.grant(factories.everyone(organization), Verb.USE, made)
    made.refresh_from_db()
    return World(organization, admin, member, made, source)


def ask(
    world: World,
    text: str = "How many days do I get?",
    *,
    key: str = "",
    conversation: Conversation | None = None,
    authority: Authority | None = None,
) -> Turn:
    """The member says something."""
    return turns.start(
        authority or world.authority,
        text=text,
        key=key or turns.new_key(),
        agent=None if conversation else world.agent,
        conversation=conversation,
    )


def claim() -> Lease:
    """A runtime takes the oldest queued run."""
    lease = leases.claim()
    assert lease is not None
    return lease


def open_gate(lease: Lease | None = None) -> Gate:
    """The gate of a run that is claimed now, or was with `lease`."""
    return load_gate(lease or claim())


def search(gate: Gate, query: str = "moving house", *, call_id: str = "c1") -> ToolResult:
    """The model searches."""
    return pipeline.call_tool(
        gate,
        ToolRequest(step=1, call_id=call_id, name="search", arguments_raw=f'{{"query":"{query}"}}'),
    )


def write(gate: Gate, text: str, *, offset: int = 0) -> None:
    """A piece of the answer reaches the journal."""
    gate.append_text(offset=offset, text=text)


def finish(gate: Gate, state: Run.State = Run.State.SUCCEEDED, **how: Any) -> None:
    """The run ends."""
    with transaction.atomic():
        turns.finish_locked(leases.lock(gate.lease), state=state, **how)


def answer(
    world: World,
    text: str,
    *,
    question: str = "How many days do I get?",
    conversation: Conversation | None = None,
    searches: bool = False,
) -> Turn:
    """A whole turn: asked, perhaps searched, answered with `text` (`{cite}` is the first passage
    found).
    """
    turn = ask(world, question, conversation=conversation)
    gate = open_gate()
    if searches:
        search(gate)
        text = text.replace("{cite}", first_cite(turn.run))
    if text:
        write(gate, text)
    finish(gate)
    turn.run.refresh_from_db()
    turn.conversation.refresh_from_db()
    return turn


def first_cite(run: Run) -> str:
    """What the first passage that a tool showed in this run is called."""
    for event in JournalEvent.objects.filter(run_id=run.pk, kind="tool_result").order_by("seq"):
        for passage in event.data["record"]["passages"]:
            return str(passage["cite"])
    raise AssertionError("no tool showed a passage")


def lapse(lease: Lease) -> None:
    """The lease runs out."""
    Run.objects.filter(pk=lease.run_id).update(lease_until=Now() - timedelta(seconds=1))


def journal_of(conversation: Conversation) -> list[tuple[int, str, dict[str, Any]]]:
    """Number, kind and data of every event, in order."""
    events = JournalEvent.objects.filter(conversation=conversation).order_by("seq")
    return [(event.seq, event.kind, event.data) for event in events]


def kinds_of(conversation: Conversation) -> list[str]:
    """The kinds of every event, in order."""
    return [kind for _, kind, _ in journal_of(conversation)]


def audited(world: World, *prefixes: str) -> list[str]:
    """The actions audited in the organisation, oldest first, of these apps."""
    actions = (
        AuditEvent.objects.filter(organization_id=world.organization.id)
        .order_by("at", "id")
        .values_list("action", flat=True)
    )
    return [action for action in actions if action.startswith(prefixes or "")]


def state_of(world: World) -> tuple[Any, ...]:
    """Everything a refused act must leave alone."""
    return (
        list(Conversation.objects.order_by("id").values()),
        list(Run.objects.order_by("id").values()),
        list(JournalEvent.objects.order_by("id").values()),
        AuditEvent.objects.filter(organization_id=world.organization.id).count(),
    )
