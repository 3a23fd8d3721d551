"""Two organisations with a row in every table the admin shows, each text a canary of its
organisation.

`Canaries.content` holds what even the rightful admin must not read: titles, messages, prompts of
tasks, arguments.
"""

from __future__ import annotations

import itertools
import json
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.db import models

from accounts.authority import key_digest
from accounts.models import ApiKey, Membership, Organization, Role, TeamMembership
from accounts.permissions import Verb, store_grant
from agents.models import (
    AgentSource,
    AgentVersion,
    LanguageModel,
    LedgerEntry,
    ModelCall,
    ModelProvider,
    PromptVersion,
    ToolCall,
)
from audit.chain import seal
from audit.models import AuditEvent
from audit.record import record_system
from conversations.models import Conversation, Message, Run
from kaizen.kernel.clock import now
from retrieval.models import (
    Blob,
    Chunk,
    Connection,
    Document,
    DocumentVersion,
    EmbeddingModel,
    EmbeddingSpace,
    Persona,
    Question,
    QuestionDocument,
    QuestionSet,
    RerankModel,
    ScoreRow,
    ScoreRun,
)
from tasks.models import Delegation, Occurrence, Task
from tests import factories as make

_number = itertools.count(1)
TITLE = "cnry-title"


@dataclass
class House:
    """One organisation, its admin, and what was written where."""

    organization: Organization
    owner: Membership
    mark: str
    shown: list[str] = field(default_factory=list)
    content: list[str] = field(default_factory=list)
    rows: dict[type[models.Model], list[Any]] = field(default_factory=dict)

    def say(self, place: str) -> str:
        """A canary that its own admin may see."""
        text = f"{self.mark}-{place}-{uuid.uuid4().hex[:8]}"
        self.shown.append(text)
        return text

    def hide(self, place: str) -> str:
        """A canary that no admin may see."""
        text = f"{self.mark}-content-{place}-{uuid.uuid4().hex[:8]}"
        self.content.append(text)
        return text

    def keep(self, row: Any) -> Any:
        """Remember `row` under its type."""
        self.rows.setdefault(type(row), []).append(row)
        return row


def build_house(slug: str, *, role: Role = Role.OWNER) -> House:
    """An organisation with one of everything."""
    mark = f"cnry{slug}"
    organization = make.make_organization(slug, name=f"{mark}-organisation-{uuid.uuid4().hex[:8]}")
    owner = make.make_member(
        organization, role=role, user=make.make_user(f"{mark}-owner@example.org", name=mark)
    )
    house = House(organization=organization, owner=owner, mark=mark)
    house.shown.append(organization.name)
    house.keep(organization)
    house.keep(owner)
    furnish(house)
    return house


def furnish(house: House, *, times: int = 1) -> None:
    """Add `times` rows to every table."""
    for _ in range(times):
        _furnish_once(house)


def _furnish_once(house: House) -> None:
    org, user, number = house.organization, house.owner.user, next(_number)
    at = {"organization": org}
    member = house.keep(
        make.make_member(
            org, user=make.make_user(f"{house.say('person')}@example.org", name=house.say("name"))
        )
    )
    team = house.keep(make.make_team(org, label=house.say("team")))
    TeamMembership.objects.create(**at, team=team, membership=member)
    house.keep(
        ApiKey.objects.create(
            **at,
            membership=member,
            name=house.say("key"),
            prefix=f"kz_{number}",
            digest=key_digest(f"{house.mark}{number}"),
            scopes=["search"],
            expires_at=now() + timedelta(days=9),
        )
    )
    project = house.keep(
        make.make_project(org, name=house.say("project"), description=house.say("about"))
    )
    source = house.keep(
        make.make_source(
            org, name=house.say("source"), description=house.say("about"), project=project
        )
    )
    house.keep(
        Connection.objects.create(
            **at,
            source=source,
            connector="folder",
            config={"folder": house.say("folder")},
            secrets=json.dumps({"secret_key": house.hide("secret")}),
        )
    )
    _furnish_models(house, number)
    house.keep(_live_source(house, source=source, member=member))
    document = house.keep(
        Document.objects.create(
            **at,
            source=source,
            title=house.say("document"),
            file_name=house.say("file"),
            external_id=str(number),
            state=Document.State.FAILED,
        )
    )
    blob = Blob.objects.create(**at, digest=f"{number:064}", size=1, storage_name=house.hide("s"))
    version = DocumentVersion.objects.create(
        **at, document=document, number=1, blob=blob, file_name="x"
    )
    Chunk.objects.create(
        **at,
        version=version,
        document=document,
        ordinal=0,
        text=house.hide("passage"),
        kind="text",
        token_count=1,
    )
    provider = house.keep(
        ModelProvider.objects.create(
            **at, name=house.say("provider"), kind="openai", api_key=house.hide("secret")
        )
    )
    model = house.keep(
        LanguageModel.objects.create(**at, provider=provider, name="m", label=house.say("model"))
    )
    prompt = house.keep(make.make_prompt(org, name=house.say("prompt"), text=house.say("persona")))
    prompt_version = house.keep(
        PromptVersion.objects.create(
            **at, prompt=prompt, number=1, text=prompt.text, digest="d", created_by=user
        )
    )
    agent = house.keep(
        make.make_agent(org, name=house.say("agent"), prompt=prompt, model=model, tools=[])
    )
    AgentSource.objects.create(**at, agent=agent, source=source)
    agent_version = house.keep(
        AgentVersion.objects.create(
            **at,
            agent=agent,
            number=1,
            prompt_version=prompt_version,
            language_model=model,
            definition={"persona": prompt.text},
            digest="d",
            created_by=user,
        )
    )
    agent.current_version = agent_version
    agent.save(update_fields=["current_version"])
    _furnish_questions(house, member=member, document=document)
    _furnish_work(house, agent=agent, version=agent_version, model=model, member=member)
    for granted in (project, source, document, agent, prompt, model):
        store_grant(member.user, Verb.VIEW, granted, granted_by_id=user.pk)
        store_grant(team, Verb.USE, granted, granted_by_id=user.pk)
    from audit.models import AuditEvent, AuditLink

    event = record_system(
        org.id, "retrieval.searched", subject=source, data={"note": house.say("audit")}
    )
    house.keep(AuditEvent.objects.get(pk=event))
    seal(org.id)
    house.keep(AuditLink.objects.get(event_id=event))


def _live_source(house: House, *, source: Any, member: Any) -> Any:
    live = make.make_live_source(
        house.organization, source=source, description=house.say("live-tool")
    )
    make.make_credential(member, live, house.hide("live-token"))
    return live


def _furnish_questions(house: House, *, member: Any, document: Any) -> None:
    at = {"organization": house.organization}
    questions = house.keep(QuestionSet.objects.create(**at, name=house.say("question-set")))
    Persona.objects.create(**at, question_set=questions, membership=member)
    text = house.say("question")
    question = house.keep(
        Question.objects.create(**at, question_set=questions, text=text, digest=text)
    )
    QuestionDocument.objects.create(**at, question=question, document=document, kind="expected")
    run = house.keep(
        ScoreRun.objects.create(
            **at, question_set=questions, started_by=member.user, state="done", planned=1
        )
    )
    ScoreRow.objects.create(
        **at, run=run, question=question, membership=member, scored_at=now(), ndcg_10=1
    )


def _furnish_models(house: House, number: int) -> None:
    """Addresses that nothing is allowed to reach, and states of which there may be many."""
    at: dict[str, Any] = {"organization": house.organization}
    at |= {"base_url": "http://127.0.0.1:9/v1", "api_key": house.hide("secret")}
    model = house.keep(
        EmbeddingModel.objects.create(
            **at, label=house.say("embedding"), kind="compatible", name="m", digest=f"{number:064}"
        )
    )
    house.keep(RerankModel.objects.create(**at, label=house.say("rerank"), name="m"))
    house.keep(
        EmbeddingSpace.objects.create(
            organization=house.organization,
            model=house.say("space"),
            embedding_model=model,
            digest=model.digest,
            dimension=384,
            state=EmbeddingSpace.State.RETIRED,
        )
    )


def _furnish_work(house: House, *, agent: Any, version: Any, model: Any, member: Any) -> None:
    org, user = house.organization, member.user
    at = {"organization": org}
    conversation = house.keep(
        Conversation.objects.create(**at, title=house.hide("title"), agent=agent, started_by=user)
    )
    question = Message.objects.create(
        **at, conversation=conversation, role="user", author=user, text=house.hide("message")
    )
    run = house.keep(
        Run.objects.create(
            **at,
            conversation=conversation,
            user=user,
            agent_version=version,
            language_model=model,
            question=question,
            state=Run.State.FAILED,
            error_message=house.hide("error"),
        )
    )
    call = house.keep(
        ModelCall.objects.create(**at, run_id=run.id, attempt=1, step=1, language_model=model)
    )
    house.keep(
        ToolCall.objects.create(
            **at,
            run_id=run.id,
            attempt=1,
            step=1,
            call_id="c",
            name="search",
            arguments_raw=house.hide("arguments"),
            idempotency_key=uuid.uuid4().hex,
            label=house.hide("label"),
        )
    )
    house.keep(
        LedgerEntry.objects.create(
            **at,
            run_id=run.id,
            model_call_id=call.id,
            user_id=user.pk,
            agent_id=agent.id,
            language_model_id=model.id,
            input_tokens=1,
            output_tokens=1,
            cost=1,
        )
    )
    task = house.keep(
        Task.objects.create(
            **at,
            name=house.say("task"),
            owner=user,
            agent=agent,
            prompt=house.hide("task-prompt"),
            cron="0 9 * * *",
            time_zone="UTC",
        )
    )
    house.keep(
        Delegation.objects.create(
            **at, task=task, user=user, digest="d", expires_at=now() + timedelta(days=1)
        )
    )
    house.keep(
        Occurrence.objects.create(**at, task=task, due_at=now(), conversation=conversation, run=run)
    )


def snapshot(organization: Organization) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of an organisation, of every table that carries one."""
    state: dict[str, list[tuple[Any, ...]]] = {}
    for model in apps.get_models(include_auto_created=True):
        names = {f.name for f in model._meta.get_fields() if getattr(f, "concrete", False)}
        if model is Organization:
            rows = model._default_manager.filter(pk=organization.pk)
        elif names & {"organization", "organization_id"}:
            rows = model._default_manager.filter(organization_id=organization.pk)
        else:
            continue
        state[model._meta.label] = sorted(rows.values_list(), key=str)
    return state


def events(organization: Organization) -> list[tuple[str, dict[str, Any]]]:
    """What the audit holds, oldest first."""
    rows = AuditEvent.objects.filter(organization_id=organization.pk).order_by("at", "id")
    return [(event.action, event.data) for event in rows]
