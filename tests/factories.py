"""Makes rows for tests: plain functions with sensible defaults, each returning the row.

`canary()` gives the unique strings that the walks look for: whatever a foreign organisation holds
carries one.
"""

from __future__ import annotations

import itertools
import uuid
from functools import cache

from django.contrib.auth.hashers import make_password

from accounts.authority import Authority, Channel, from_user
from accounts.models import Membership, Organization, Project, Role, Team, TeamMembership, User
from accounts.permissions import Verb, store_grant
from agents.models import Agent, LanguageModel, ModelProvider, Prompt
from retrieval.models import LiveSource, LiveTool, MemberCredential, Source

_count = itertools.count(1)
PASSWORD = "a long test password"


def canary(place: str = "x") -> str:
    """A string that occurs nowhere else."""
    return f"canary-{place}-{uuid.uuid4().hex[:10]}"


def make_organization(slug: str | None = None, **fields: object) -> Organization:
    """An active organisation with its everyone-team."""
    number = next(_count)
    organization = Organization.objects.create(
        slug=slug or f"org-{number}", name=fields.pop("name", f"Organisation {number}"), **fields
    )
    name = uuid.uuid4()
    Team.objects.create(
        organization=organization,
        uuid=name,
        name=str(name),
        label="Everyone",
        kind=Team.Kind.EVERYONE,
    )
    return organization


@cache
def _password_hash() -> str:
    """Hashed once: the product's hasher is slow on purpose."""
    return make_password(PASSWORD)


def make_user(email: str | None = None, **fields: object) -> User:
    """A person who can sign in with PASSWORD."""
    address = (email or f"person{next(_count)}@example.org").lower()
    return User.objects.create(email=address, password=_password_hash(), **fields)


def make_member(
    organization: Organization,
    *,
    role: Role = Role.MEMBER,
    user: User | None = None,
    **fields: object,
) -> Membership:
    """An active membership, of a new person unless one is given."""
    return Membership.objects.create(
        organization=organization,
        user=user or make_user(),
        role=role,
        state=fields.pop("state", Membership.State.ACTIVE),
        **fields,
    )


def authority_of(membership: Membership, channel: Channel = Channel.SESSION) -> Authority:
    """The member's authority, resolved as the product does."""
    return from_user(membership.user, slug=membership.organization.slug, channel=channel)


def make_team(
    organization: Organization, *members: Membership, label: str = "", parent: Team | None = None
) -> Team:
    """A team with these members."""
    name = uuid.uuid4()
    team = Team.objects.create(
        organization=organization,
        uuid=name,
        name=str(name),
        label=label or f"Team {next(_count)}",
        parent=parent,
    )
    for membership in members:
        TeamMembership.objects.create(organization=organization, team=team, membership=membership)
    return team


def everyone(organization: Organization) -> Team:
    """The team that stands for everyone."""
    return Team.objects.get(organization=organization, kind=Team.Kind.EVERYONE)


def grant(principal: Membership | User | Team, verb: Verb, obj: object) -> None:
    """Store a grant row directly."""
    who = principal.user if isinstance(principal, Membership) else principal
    store_grant(who, verb, obj, granted_by_id=None)


def make_project(organization: Organization, **fields: object) -> Project:
    """A project."""
    return Project.objects.create(
        organization=organization, name=fields.pop("name", f"Project {next(_count)}"), **fields
    )


def make_source(organization: Organization, **fields: object) -> Source:
    """A source without documents."""
    return Source.objects.create(
        organization=organization, name=fields.pop("name", f"Source {next(_count)}"), **fields
    )


def make_language_model(
    organization: Organization,
    *,
    kind: str = "extractive",
    name: str = "extractive",
    base_url: str = "",
    api_key: str = "",
    **fields: object,
) -> LanguageModel:
    """A model with its provider; the built-in extractive one by default."""
    number = next(_count)
    provider = ModelProvider.objects.create(
        organization=organization,
        name=f"Provider {number}",
        kind=kind,
        base_url=base_url,
        api_key=api_key,
    )
    return LanguageModel.objects.create(
        organization=organization,
        provider=provider,
        name=name,
        label=fields.pop("label", f"Model {number}"),
        **fields,
    )


def make_prompt(organization: Organization, **fields: object) -> Prompt:
    """A prompt."""
    return Prompt.objects.create(
        organization=organization,
        name=fields.pop("name", f"Prompt {next(_count)}"),
        text=fields.pop("text", "Answer from the sources and cite them."),
        **fields,
    )


def make_agent(
    organization: Organization, *, model: LanguageModel | None = None, **fields: object
) -> Agent:
    """An agent with the tools search and read_document; not published yet:
    `agents.services.publish_agent`.
    """
    return Agent.objects.create(
        organization=organization,
        name=fields.pop("name", f"Agent {next(_count)}"),
        prompt=fields.pop("prompt", None) or make_prompt(organization),
        language_model=model or make_language_model(organization),
        tools=fields.pop("tools", ["search", "read_document"]),
        **fields,
    )


def make_live_source(
    organization: Organization,
    *,
    source: Source | None = None,
    url: str = "https://127.0.0.1:9/mcp",
    tool: str = "look",
    **about: object,
) -> LiveSource:
    """A live source with one allowed tool; its address is one that is never connected to."""
    live = LiveSource.objects.create(
        organization=organization, source=source or make_source(organization), url=url
    )
    LiveTool.objects.create(
        organization=organization,
        live_source=live,
        name=tool,
        schema={"type": "object"},
        read_only=True,
        digest="d",
        allowed=True,
        **about,
    )
    return live


def make_credential(membership: Membership, live: LiveSource, token: str) -> MemberCredential:
    """A member's own account at a live source, with the token in it."""
    return MemberCredential.objects.create(
        organization=membership.organization, membership=membership, live_source=live, token=token
    )
