"""Makes tasks with everything a due time needs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from accounts.authority import Authority
from accounts.models import Membership, Organization, Role
from accounts.permissions import Verb
from agents.models import Agent
from agents.services import publish_agent
from tasks import services
from tasks.models import Occurrence, Task
from tests.factories import (
    authority_of,
    everyone,
    grant,
    make_agent,
    make_member,
    make_organization,
)

DUE = datetime(2031, 3, 3, 7, 0, tzinfo=UTC)  # a Monday, 08:00 in Amsterdam


@dataclass(frozen=True)
class World:
    """An organisation with an admin, a member, and an agent that everyone may use."""

    organization: Organization
    admin: Membership
    member: Membership
    agent: Agent

    @property
    def authority(self) -> Authority:
        """The member's."""
        return authority_of(self.member)


def make_world() -> World:
    """A fresh one."""
    organization = make_organization()
    admin, member = make_member(organization, role=Role.ADMIN), make_member(organization)
    agent = make_agent(organization)
    publish_agent(authority_of(admin), agent=agent)
    agent.refresh_from_db()
    grant(everyone(organization), Verb.USE, agent)
    return World(organization, admin, member, agent)


def save(world: World, **changes: Any) -> Task:
    """The member's task, due on Mondays at eight."""
    values: dict[str, Any] = {
        "name": "Monday digest",
        "agent_id": world.agent.pk,
        "prompt": "What is still open?",
        "cron": "0 8 * * 1",
        "time_zone": "Europe/Amsterdam",
        "consent": True,
        "days": 30,
    }
    return services.save_task(world.authority, **(values | changes))


def make_due(task: Task, at: datetime = DUE) -> Occurrence:
    """An occurrence of `task` that waits for its start."""
    return Occurrence.objects.create(organization=task.organization, task=task, due_at=at)
