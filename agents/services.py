"""Publishing: what an admin edits becomes an immutable, numbered, digested version that runs
execute.
"""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.authority import Authority, Capability
from agents.guard.registry import tool_names
from agents.models import Agent, AgentVersion, LanguageModel, ModelProvider, Prompt, PromptVersion
from audit.record import record
from kaizen.kernel.errors import Invalid
from kaizen.kernel.models import exact_json

EXTRACTIVE = "Best passages (no language model)"


def digest_of(value: Any) -> str:
    """SHA-256 over the exact text of a definition."""
    return hashlib.sha256(exact_json(value).encode("utf-8", "surrogatepass")).hexdigest()


@transaction.atomic
def publish_prompt(authority: Authority, *, prompt: Prompt) -> PromptVersion:
    """Make the prompt's text its next version, unless the newest version says the same.

    Locks the prompt. Raises Denied without the right to configure.
    """
    authority.check(Capability.CONFIGURE)
    Prompt.objects.select_for_update().get(organization_id=authority.organization_id, pk=prompt.pk)
    digest = digest_of(prompt.text)
    newest = PromptVersion.objects.filter(prompt=prompt).order_by("-number").first()
    if newest is not None and newest.digest == digest:
        return newest
    version = PromptVersion.objects.create(
        organization_id=authority.organization_id,
        prompt=prompt,
        number=newest.number + 1 if newest else 1,
        text=prompt.text,
        digest=digest,
        created_by_id=authority.user_id,
    )
    record(
        authority,
        "agents.prompt_published",
        subject=prompt,
        data={"number": version.number, "digest": digest},
    )
    for agent in Agent.objects.filter(prompt=prompt, archived_at=None):
        publish_agent(authority, agent=agent)
    return version


@transaction.atomic
def publish_agent(authority: Authority, *, agent: Agent) -> AgentVersion:
    """Make the agent as edited its next version, unless nothing that bears on a run has changed.

    Locks the agent. Raises Denied without the right to configure, Invalid for a tool that doesn't
    exist.
    """
    authority.check(Capability.CONFIGURE)
    agent = Agent.objects.select_for_update().get(
        organization_id=authority.organization_id, pk=agent.pk
    )
    unknown = sorted(set(agent.tools) - set(tool_names()))
    if unknown:
        raise Invalid(f"There is no tool called {unknown[0]!r}.")
    prompt_version = _newest_prompt_version(authority, agent.prompt)
    definition = _definition(agent, prompt_version)
    digest = digest_of(definition)
    newest = AgentVersion.objects.filter(agent=agent).order_by("-number").first()
    if newest is None or newest.digest != digest:
        newest = AgentVersion.objects.create(
            organization_id=authority.organization_id,
            agent=agent,
            number=newest.number + 1 if newest else 1,
            prompt_version=prompt_version,
            language_model=agent.language_model,
            definition=definition,
            digest=digest,
            created_by_id=authority.user_id,
        )
        record(
            authority,
            "agents.agent_published",
            subject=agent,
            data={"number": newest.number, "digest": digest},
        )
    if agent.current_version_id != newest.pk:
        Agent.objects.filter(pk=agent.pk).update(current_version=newest)
    return newest


def _newest_prompt_version(authority: Authority, prompt: Prompt) -> PromptVersion:
    newest = PromptVersion.objects.filter(prompt=prompt).order_by("-number").first()
    if newest is not None and newest.digest == digest_of(prompt.text):
        return newest
    version = PromptVersion.objects.create(
        organization_id=authority.organization_id,
        prompt=prompt,
        number=newest.number + 1 if newest else 1,
        text=prompt.text,
        digest=digest_of(prompt.text),
        created_by_id=authority.user_id,
    )
    record(authority, "agents.prompt_published", subject=prompt, data={"number": version.number})
    return version


def _definition(agent: Agent, prompt_version: PromptVersion) -> dict[str, Any]:
    sources = None
    if not agent.all_sources:
        sources = sorted(agent.sources.values_list("key", flat=True))
    return {
        "name": agent.name,
        "persona": prompt_version.text,
        "language_model": None if agent.language_model_id is None else str(agent.language_model_id),
        "tools": sorted(set(agent.tools)),
        "sources": sources,
        "limits": {"steps": agent.max_steps, "seconds": agent.max_seconds},
    }


def ensure_extractive(organization_id: UUID) -> LanguageModel:
    """The built-in model of an organisation, made on first use; the default until an admin sets
    another.
    """
    found = (
        LanguageModel.objects.filter(
            organization_id=organization_id, provider__kind=ModelProvider.Kind.EXTRACTIVE
        )
        .select_related("provider")
        .order_by("created_at", "id")
        .first()
    )
    if found is not None:
        return found
    provider, _ = ModelProvider.objects.get_or_create(
        organization_id=organization_id,
        name="Built in",
        kind=ModelProvider.Kind.EXTRACTIVE,
    )
    model, _ = LanguageModel.objects.get_or_create(
        organization_id=organization_id,
        provider=provider,
        name="extractive",
        defaults={
            "label": EXTRACTIVE,
            "is_default": not LanguageModel.objects.filter(
                organization_id=organization_id, is_default=True
            ).exists(),
        },
    )
    return model
