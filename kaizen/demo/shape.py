"""The shapes that the demo is told in: frozen values, no behaviour, no Django."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["owner", "admin", "auditor", "member"]
Verb = Literal["view", "use", "change", "share", "manage"]


@dataclass(frozen=True, slots=True)
class DemoGrant:
    """A verb for one principal; `name` is a team's name, a member's e-mail, or empty."""

    kind: Literal["everyone", "team", "member"]
    verb: Verb
    name: str = ""


@dataclass(frozen=True, slots=True)
class DemoTeam:
    """A team; members of a nested team have what its parent was granted."""

    name: str
    parent: str = ""


@dataclass(frozen=True, slots=True)
class DemoMember:
    """A person in one organisation; the same e-mail in two organisations is the same person."""

    email: str
    name: str
    role: Role
    teams: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DemoProject:
    """A project with its own grants."""

    name: str
    description: str
    grants: tuple[DemoGrant, ...]


@dataclass(frozen=True, slots=True)
class RestrictedDocument:
    """A file that is narrower than its source: only these grants count for it."""

    file: str
    grants: tuple[DemoGrant, ...]


@dataclass(frozen=True, slots=True)
class DemoSource:
    """A source; its files are all files of `documents/<organisation>/<slug>/`."""

    slug: str
    name: str
    description: str
    grants: tuple[DemoGrant, ...]
    project: str = ""
    restricted: tuple[RestrictedDocument, ...] = ()


@dataclass(frozen=True, slots=True)
class DemoPrompt:
    """A persona."""

    slug: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class DemoAgent:
    """An agent over some sources; it can only narrow what its user may see."""

    slug: str
    name: str
    description: str
    prompt: str
    sources: tuple[str, ...]
    grants: tuple[DemoGrant, ...]


@dataclass(frozen=True, slots=True)
class DemoTask:
    """A recurring task of one member, who consents to it by loading the demo."""

    name: str
    owner: str
    agent: str
    prompt: str
    cron: str
    time_zone: str


@dataclass(frozen=True, slots=True)
class DemoOrganization:
    """One organisation with all that belongs to it."""

    slug: str
    name: str
    business: str
    time_zone: str
    teams: tuple[DemoTeam, ...]
    members: tuple[DemoMember, ...]
    projects: tuple[DemoProject, ...]
    sources: tuple[DemoSource, ...]
    prompts: tuple[DemoPrompt, ...]
    agents: tuple[DemoAgent, ...]
    tasks: tuple[DemoTask, ...] = ()


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """What `make demo` asks: `expected` must be among the cited files, `must_not_cite` never is.

    Without `expected` the answer is one that this member may not see.
    """

    organization: str
    member: str
    question: str
    expected: str | None
    must_not_cite: tuple[str, ...] = ()
    agent: str = "handbook-assistant"


EVERYONE_VIEWS = (DemoGrant("everyone", "view"),)
EVERYONE_USES = (DemoGrant("everyone", "use"),)
