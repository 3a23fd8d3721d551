"""Reads of the agents app."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

from accounts import relation
from accounts.authority import Authority
from accounts.permissions import Verb
from agents.models import Agent, AgentVersion, LanguageModel
from agents.services import ensure_extractive
from kaizen.kernel.errors import Conflict, Missing


def list_usable_agents(authority: Authority) -> QuerySet[Agent]:
    """The published agents the caller may talk to, by name."""
    return (
        relation.visible(authority, Agent, Verb.USE)
        .filter(archived_at=None, current_version__isnull=False)
        .order_by("name", "id")
    )


def get_usable_agent(authority: Authority, agent_id: UUID | str) -> Agent:
    """An agent the caller may talk to. Raises Missing, Denied, or Conflict when it is archived or
    unpublished.
    """
    agent = relation.get(authority, Agent, agent_id, Verb.USE)
    if agent.archived_at is not None or agent.current_version_id is None:
        raise Conflict("This agent can't be used any more. Choose another one.")
    return agent


def resolve_language_model(version: AgentVersion) -> LanguageModel:
    """The model a run of `version` uses: its own, or the organisation's default, or the built-in
    one.

    Raises Conflict when the model named was switched off: the agent's answers must not change
    silently.
    """
    model = version.language_model
    if model is None:
        model = (
            LanguageModel.objects.select_related("provider")
            .filter(organization_id=version.organization_id, is_default=True, enabled=True)
            .first()
        )
    if model is None:
        return ensure_extractive(version.organization_id)
    if not (model.enabled and model.provider.enabled):
        raise Conflict("The language model of this agent is switched off. Tell an administrator.")
    return model


def get_agent(authority: Authority, agent_id: UUID | str) -> Agent:
    """An agent the caller may see. Raises Missing."""
    agent = relation.visible(authority, Agent).filter(pk=relation.parse_id(agent_id)).first()
    if agent is None:
        raise Missing
    return agent
