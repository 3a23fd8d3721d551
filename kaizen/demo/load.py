"""Loads the story into the database, through the services that people use: audited, permissioned,
searchable.

Promises: each step can be repeated, so a load that was killed goes on where it was; what was loaded
whole is never touched again, whatever its members change. Works as the application's role. Not for:
the story itself (`story.py`) or asking questions of it (`walk.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from django.contrib.auth.hashers import make_password
from django.db import transaction

from accounts.authority import Authority, Channel, from_user_id
from accounts.invitations import accept_invitations
from accounts.models import Membership, Organization, Project, Role, Team, User
from accounts.permissions import Verb
from accounts.queries import get_everyone
from accounts.services import (
    add_to_team,
    create_organization,
    create_project,
    create_team,
    grant,
    invite_member,
    revoke,
)
from agents.models import Agent, AgentSource, Prompt
from agents.services import ensure_extractive, publish_agent, publish_prompt
from audit.models import AuditEvent
from audit.record import record_system
from kaizen.demo.shape import DemoAgent, DemoGrant, DemoOrganization, DemoSource, DemoTask
from kaizen.demo.story import DEMO_PASSWORD, DOCUMENTS, ORGANIZATIONS
from kaizen.kernel.errors import Conflict
from kaizen.kernel.tenancy import scope
from retrieval.documents import set_acl_state, upload
from retrieval.ingest.store import ingest_document
from retrieval.models import Document, Source
from retrieval.sources import create_source
from tasks.models import Task
from tasks.services import save_task

LOADED = "kaizen.demo_loaded"
TOOLS = ["search", "read_document"]
PROGRESS_SECONDS = 2.0
Tell = Callable[[str], None]


def load_if_empty(tell: Tell) -> bool:
    """Load the demo where there is no organisation yet, or finish a load that was broken off.

    Returns whether the demo is loaded now. Leaves every other database alone.
    """
    slugs = {story.slug for story in ORGANIZATIONS}
    found = set(Organization.objects.values_list("slug", flat=True))
    if all(_is_loaded(slug) for slug in slugs):
        return True
    if found - slugs:
        return False
    try:
        load(tell)
    except Conflict as conflict:
        tell(f"The demo isn't loaded: {conflict.message}")
        return False
    return True


def load(tell: Tell) -> None:
    """Load every organisation of the story that isn't loaded whole.

    Raises Conflict when an organisation of the same slug belongs to somebody else.
    """
    for story in ORGANIZATIONS:
        if not _is_loaded(story.slug):
            Loading(story, tell).run()


def is_loaded() -> bool:
    """Whether the whole demo has been loaded here."""
    return all(_is_loaded(story.slug) for story in ORGANIZATIONS)


def _is_loaded(slug: str) -> bool:
    organizations = Organization.objects.filter(slug=slug).values("pk")
    return AuditEvent.objects.filter(organization_id__in=organizations, action=LOADED).exists()


class Loading:
    """The load of one organisation. Every step finds what an earlier try left."""

    def __init__(self, story: DemoOrganization, tell: Tell) -> None:
        self.story = story
        self.authority: Authority
        self.teams: dict[str, Team] = {}
        self.sources: dict[str, Source] = {}
        self._tell = tell
        self._spoke_at = time.monotonic()

    def run(self) -> None:
        """All steps in order; the last one marks the organisation as loaded whole."""
        story = self.story
        self._tell(f"Loading {story.name}: {len(story.members)} members")
        organization, owner = self._found_organization()
        self.authority = from_user_id(
            owner.pk, organization_id=organization.pk, channel=Channel.COMMAND
        )
        with scope(self.authority):
            self._add_people(owner)
            self._add_projects()
        for source in story.sources:
            with scope(self.authority):
                self.sources[source.slug] = self._add_source(source)
        self._add_documents()
        with scope(self.authority):
            ensure_extractive(organization.pk)
            agents = {agent.slug: self._add_agent(agent) for agent in story.agents}
        for task in story.tasks:
            self._add_task(task, agents[task.agent])
        with scope(self.authority):
            self._give_up_own_grants(owner)
            record_system(organization.pk, LOADED, subject=organization)

    def _found_organization(self) -> tuple[Organization, User]:
        # The first admin founds it and so is its owner.
        founder = next(member for member in self.story.members if member.role in ("owner", "admin"))
        with transaction.atomic():
            owner = self._find_or_make_user(founder.email, founder.name)
            found = Organization.objects.filter(slug=self.story.slug).first()
            if found is None:
                found = create_organization(name=self.story.name, slug=self.story.slug, owner=owner)
                Organization.objects.filter(pk=found.pk).update(time_zone=self.story.time_zone)
            is_ours = Membership.objects.filter(organization=found, user=owner, role=Role.OWNER)
            if not is_ours.exists():
                raise Conflict(f"The organisation at /o/{found.slug}/ isn't the demo's.")
        return found, owner

    def _find_or_make_user(self, email: str, name: str) -> User:
        user = User.objects.filter(email__iexact=email).first()
        if user is None:
            user = User.objects.create_user(email, name=name, time_zone=self.story.time_zone)
            user.password = _hash_password()
            user.save(update_fields=["password"])
        self._say_if_slow(f"{self.story.name}: {name}")
        return user

    def _add_people(self, owner: User) -> None:
        here = self.authority.organization_id
        for team in self.story.teams:
            found = Team.objects.filter(organization_id=here, label=team.name).first()
            parent = self.teams.get(team.parent)
            self.teams[team.name] = found or create_team(
                self.authority, label=team.name, parent=parent
            )
        for member in self.story.members:
            user = self._find_or_make_user(member.email, member.name)
            membership = Membership.objects.filter(organization_id=here, user=user).first()
            if membership is None:
                invitation = invite_member(self.authority, email=member.email, role=member.role)
                membership = invitation.membership
                accept_invitations(user)
            for name in member.teams:
                add_to_team(self.authority, team=self.teams[name], membership=membership)

    def _add_projects(self) -> None:
        here = self.authority.organization_id
        for project in self.story.projects:
            found = Project.objects.filter(organization_id=here, name=project.name).first()
            if found is None:
                found = create_project(
                    self.authority, name=project.name, description=project.description
                )
            self._grant(project.grants, found)

    def _add_source(self, story: DemoSource) -> Source:
        here = self.authority.organization_id
        source = Source.objects.filter(organization_id=here, name=story.name).first()
        if source is None:
            project = Project.objects.filter(organization_id=here, name=story.project).first()
            source = create_source(
                self.authority, name=story.name, description=story.description, project=project
            )
        self._grant(story.grants, source)
        return source

    def _add_documents(self) -> None:
        files = [(story, path) for story in self.story.sources for path in self._files(story)]
        for number, (story, path) in enumerate(files, start=1):
            with scope(self.authority):
                document = self._add_document(story, path)
            if document.state != Document.State.INDEXED:
                outcome = ingest_document(document.pk)
                if outcome.message:
                    self._tell(f"{path.name} can't be read: {outcome.message}")
            self._say_if_slow(f"{self.story.name}: {number} of {len(files)} documents read")

    def _files(self, story: DemoSource) -> list[Path]:
        return sorted((DOCUMENTS / self.story.slug / story.slug).iterdir())

    def _add_document(self, story: DemoSource, path: Path) -> Document:
        """Store a file with its rights.

        One transaction, so that a secret is never wider for a moment.
        """
        document = upload(
            self.authority,
            source=self.sources[story.slug],
            file_name=path.name,
            data=path.read_bytes(),
            start=False,
        )
        for restricted in story.restricted:
            if restricted.file == path.name:
                restricted_state = Document.AclState.RESTRICTED
                set_acl_state(self.authority, document=document, state=restricted_state)
                self._grant(restricted.grants, document)
        return document

    def _add_agent(self, story: DemoAgent) -> Agent:
        here = self.authority.organization_id
        text = next(prompt for prompt in self.story.prompts if prompt.slug == story.prompt)
        prompt, _ = Prompt.objects.get_or_create(
            organization_id=here, name=text.name, defaults={"text": text.text}
        )
        publish_prompt(self.authority, prompt=prompt)
        agent, _ = Agent.objects.get_or_create(
            organization_id=here,
            name=story.name,
            defaults={
                "description": story.description,
                "prompt": prompt,
                "tools": TOOLS,
                "all_sources": False,
            },
        )
        for slug in story.sources:
            AgentSource.objects.get_or_create(
                organization_id=here, agent=agent, source=self.sources[slug]
            )
        publish_agent(self.authority, agent=agent)
        self._grant(story.grants, agent)
        agent.refresh_from_db()
        return agent

    def _add_task(self, story: DemoTask, agent: Agent) -> None:
        owner = User.objects.get(email__iexact=story.owner)
        authority = from_user_id(
            owner.pk, organization_id=self.authority.organization_id, channel=Channel.COMMAND
        )
        with scope(authority):
            if Task.objects.for_authority(authority).filter(owner=owner, name=story.name).exists():
                return
            save_task(
                authority,
                name=story.name,
                agent_id=agent.pk,
                prompt=story.prompt,
                cron=story.cron,
                time_zone=story.time_zone,
                consent=True,
            )

    def _grant(self, grants: Iterable[DemoGrant], obj: Project | Source | Document | Agent) -> None:
        for given in grants:
            grant(self.authority, principal=self._principal(given), verb=Verb(given.verb), obj=obj)

    def _principal(self, given: DemoGrant) -> User | Team:
        if given.kind == "everyone":
            return get_everyone(self.authority.organization_id)
        if given.kind == "team":
            return self.teams[given.name]
        return User.objects.get(email__iexact=given.name)

    def _give_up_own_grants(self, owner: User) -> None:
        """Whoever makes something manages it.

        Where not everyone may look, the founder may not either.
        """
        here = self.authority.organization_id
        secret: list[Project | Source | Document] = [
            self.sources[source.slug] for source in self.story.sources if _is_secret(source.grants)
        ]
        hidden = [project.name for project in self.story.projects if _is_secret(project.grants)]
        secret += Project.objects.filter(organization_id=here, name__in=hidden)
        secret += Document.objects.filter(
            organization_id=here, acl_state=Document.AclState.RESTRICTED
        )
        for obj in secret:
            revoke(self.authority, principal=owner, verb=Verb.MANAGE, obj=obj)

    def _say_if_slow(self, text: str) -> None:
        if time.monotonic() - self._spoke_at > PROGRESS_SECONDS:
            self._spoke_at = time.monotonic()
            self._tell(text)


@cache
def _hash_password() -> str:
    """One hash for all: the password is public, and hashing is slow on purpose."""
    return make_password(DEMO_PASSWORD)


def _is_secret(grants: Iterable[DemoGrant]) -> bool:
    return all(given.kind != "everyone" for given in grants)
