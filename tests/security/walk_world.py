"""Two organisations alike, each with one of everything; every text of it carries a canary.

`build` makes one through the product's own services, an executed and a broken-off run included.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from django.db import transaction

from accounts.models import ApiKey, Membership, Organization, Project, Role, Team
from accounts.permissions import Verb
from accounts.services import create_key
from agents.guard import pipeline
from agents.models import Agent, ToolCall
from agents.services import publish_agent
from conversations import leases, turns
from conversations.gate import Gate
from conversations.models import Conversation, Run
from kaizen.kernel.clock import now
from retrieval.documents import upload
from retrieval.ingest.store import ingest_document
from retrieval.models import Chunk, Document, LiveSource, Source
from tasks.models import Occurrence, Task
from tasks.services import save_task
from tests import factories

SCOPES = ("search", "chat", "ingest", "admin")


@dataclass
class Canaries:
    """The strings of one organisation that nobody outside may ever meet."""

    texts: dict[str, str] = field(default_factory=dict)

    def __call__(self, place: str) -> str:
        return self.texts.setdefault(place, factories.canary(place))

    def found_in(self, text: str, *, but: Iterable[str] = ()) -> list[str]:
        """The places whose canary stands in `text`, those in `but` left out."""
        known = set(but)
        return [
            place
            for place, canary in self.texts.items()
            if place not in known and canary.lower() in text.lower()
        ]


@dataclass(kw_only=True)
class World:
    """One organisation and what stands in it; `owner` is the rightful member of all of it."""

    canaries: Canaries
    organization: Organization
    owner: Membership
    member: Membership
    loner: Membership
    suspended: Membership
    team: Team
    project: Project
    source: Source
    document: Document
    failed_document: Document
    passage: Chunk
    agent: Agent
    conversation: Conversation
    run: Run
    broken_run: Run
    task: Task
    live: LiveSource
    key: ApiKey
    secret: str
    suspended_secret: str
    loner_secret: str
    page_url: str = ""

    @property
    def slug(self) -> str:
        return self.organization.slug


def build(slug: str) -> World:
    """Make an organisation with one of everything."""
    mark = Canaries()
    organization = factories.make_organization(slug, name=mark("organization"))
    owner = _member(organization, mark, "owner", role=Role.ADMIN)
    member = _member(organization, mark, "member")
    loner = _member(organization, mark, "loner")
    suspended = _member(organization, mark, "suspended")
    who = factories.authority_of(owner)
    team = factories.make_team(organization, owner, label=mark("team"))
    project = factories.make_project(
        organization, name=mark("project"), description=mark("project-description")
    )
    source = factories.make_source(
        organization,
        name=mark("source"),
        description=mark("source-description"),
        project=project,
    )
    agent = _agent(organization, mark)
    for obj in (project, source, agent, agent.prompt, agent.language_model):
        factories.grant(owner, Verb.MANAGE, obj)
    publish_agent(who, agent=agent)
    agent.refresh_from_db()
    document = _document(owner, source, mark)
    failed = upload(who, source=source, file_name=f"{mark('failed-file')}.md", data=b" \n \n")
    ingest_document(failed.pk)
    failed.refresh_from_db()
    assert failed.state == Document.State.FAILED, failed.state
    first = turns.start(
        who, text=f"{mark('question')}: what is the rule?", key="first", agent=agent
    )
    execute(first.run, query=mark("passage"), prose=mark("prose"))
    second = turns.start(
        who, text=mark("second-question"), key="second", conversation=first.conversation
    )
    break_off(second.run, text=mark("partial"))
    task = save_task(
        who,
        name=mark("task"),
        agent_id=agent.pk,
        prompt=mark("task-prompt"),
        cron="0 8 * * 1",
        time_zone="UTC",
        consent=True,
    )
    Occurrence.objects.create(
        organization=organization,
        task=task,
        due_at=datetime(2031, 3, 3, 8, tzinfo=UTC),
        state=Occurrence.State.FAILED,
        reason=mark("reason"),
        conversation=first.conversation,
        run=first.run,
    )
    live = _live_source(owner, mark)
    key, secret = make_key(owner, name=mark("key"))
    _, suspended_secret = make_key(suspended)
    _, loner_secret = make_key(loner)
    suspended.state = Membership.State.SUSPENDED
    suspended.save()
    return World(
        canaries=mark,
        organization=organization,
        owner=owner,
        member=member,
        loner=loner,
        suspended=suspended,
        team=team,
        project=project,
        source=source,
        document=document,
        failed_document=failed,
        passage=Chunk.objects.filter(document=document).earliest("ordinal"),
        agent=agent,
        conversation=first.conversation,
        run=first.run,
        broken_run=second.run,
        task=task,
        live=live,
        key=key,
        secret=secret,
        suspended_secret=suspended_secret,
        loner_secret=loner_secret,
    )


def make_key(
    membership: Membership, *, name: str = "a key", scopes: Iterable[str] = SCOPES
) -> tuple[ApiKey, str]:
    """A key of a member, for a day."""
    return create_key(
        factories.authority_of(membership),
        name=name,
        scopes=scopes,
        expires_at=now() + timedelta(days=1),
    )


def execute(run: Run, *, query: str, prose: str) -> str:
    """Let a queued run search and answer with a quotation and a citation; returns the cite."""
    lease = leases.claim()
    assert lease is not None
    assert lease.run_id == run.pk
    gate = Gate(lease, Run.objects.select_related("agent_version").get(pk=run.pk))
    result = pipeline.call_tool(
        gate,
        pipeline.ToolRequest(
            step=1, call_id="call_1", name="search", arguments_raw=json.dumps({"query": query})
        ),
    )
    assert result.outcome == "ok", result
    assert not result.empty
    call = ToolCall.objects.get(pk=result.tool_call_id)
    cite = str(call.record["passages"][0]["cite"])
    gate.append_text(offset=0, text=f"{prose}: see [[{cite}]]. In its words: [[{cite}:0-60]]")
    with transaction.atomic():
        turns.finish_locked(leases.lock(lease), state=Run.State.SUCCEEDED)
    run.refresh_from_db()
    return cite


def break_off(run: Run, *, text: str) -> None:
    """Let a queued run write something and be lost."""
    lease = leases.claim()
    assert lease is not None
    assert lease.run_id == run.pk
    Gate(lease, Run.objects.select_related("agent_version").get(pk=run.pk)).append_text(
        offset=0, text=text
    )
    assert turns.lose(run.pk, attempt=lease.attempt)
    run.refresh_from_db()


def unused_id() -> UUID:
    """An id that nothing has."""
    return uuid4()


def _member(
    organization: Organization, mark: Canaries, who: str, role: Role = Role.MEMBER
) -> Membership:
    user = factories.make_user(f"{mark(f'{who}-email')}@example.org", name=mark(f"{who}-name"))
    return factories.make_member(organization, role=role, user=user)


def _agent(organization: Organization, mark: Canaries) -> Agent:
    model = factories.make_language_model(
        organization, label=mark("model-label"), api_key=mark("provider-secret")
    )
    model.provider.name = mark("provider")
    model.provider.save()
    prompt = factories.make_prompt(organization, name=mark("prompt"), text=mark("prompt-text"))
    return factories.make_agent(
        organization,
        model=model,
        prompt=prompt,
        name=mark("agent"),
        description=mark("agent-description"),
    )


def _live_source(owner: Membership, mark: Canaries) -> LiveSource:
    source = factories.make_source(
        owner.organization, name=mark("live-source"), description=mark("live-description")
    )
    factories.grant(owner, Verb.MANAGE, source)
    live = factories.make_live_source(
        owner.organization,
        source=source,
        url=f"https://127.0.0.1:9/{mark('live-address')}",
        description=mark("live-tool"),
    )
    factories.make_credential(owner, live, mark("live-token"))
    return live


def _document(owner: Membership, source: Source, mark: Canaries) -> Document:
    text = (
        f"# {mark('heading')}\n\nThe rule called {mark('passage')} holds for all.\n\n"
        f"## {mark('section')}\n\nIts exception is {mark('second-passage')}.\n"
    )
    document = upload(
        factories.authority_of(owner),
        source=source,
        file_name=f"{mark('file')}.md",
        data=text.encode(),
        title=mark("title"),
        external_id=mark("external"),
        path=mark("path"),
    )
    ingest_document(document.pk)
    document.refresh_from_db()
    assert document.state == Document.State.INDEXED, document.state_message
    return document
