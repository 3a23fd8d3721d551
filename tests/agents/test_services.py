"""Publishing: versions are numbered, digested, made only when something changed, never changed."""

from __future__ import annotations

import pytest
from django.db import ProgrammingError, transaction

from accounts.models import Membership, Role
from agents.models import (
    Agent,
    AgentSource,
    AgentVersion,
    LanguageModel,
    ModelProvider,
    PromptVersion,
)
from agents.queries import (
    get_agent,
    get_usable_agent,
    list_usable_agents,
    resolve_language_model,
)
from agents.services import digest_of, ensure_extractive, publish_agent, publish_prompt
from audit.models import AuditEvent
from kaizen.kernel.errors import Conflict, Denied, Invalid, Missing
from tests import factories
from tests.conversations.worlds import make_world

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> Membership:
    return factories.make_member(factories.make_organization(), role=Role.ADMIN)


@pytest.fixture
def agent(admin: Membership) -> Agent:
    return factories.make_agent(admin.organization)


def test_the_first_version_holds_all_that_bears_on_a_run(admin: Membership, agent: Agent) -> None:
    version = publish_agent(factories.authority_of(admin), agent=agent)
    agent.refresh_from_db()
    assert agent.current_version == version
    assert version.number == 1
    assert version.definition == {
        "name": agent.name,
        "persona": "Answer from the sources and cite them.",
        "language_model": str(agent.language_model_id),
        "tools": ["read_document", "search"],
        "sources": None,
        "limits": {"steps": 12, "seconds": 300},
    }
    assert version.digest == digest_of(version.definition)
    assert (version.prompt_version.number, version.language_model) == (1, agent.language_model)
    assert version.created_by == admin.user
    assert list(
        AuditEvent.objects.filter(organization_id=admin.organization_id)
        .order_by("at", "id")
        .values_list("action", flat=True)
    ) == ["agents.prompt_published", "agents.agent_published"]


def test_publishing_what_is_unchanged_makes_no_version(admin: Membership, agent: Agent) -> None:
    authority = factories.authority_of(admin)
    first = publish_agent(authority, agent=agent)
    Agent.objects.filter(pk=agent.pk).update(
        description="Only shown", tools=["search", "read_document", "search"]
    )
    assert publish_agent(authority, agent=agent) == first
    assert AgentVersion.objects.count() == 1


@pytest.mark.parametrize(
    "change",
    [{"name": "Other"}, {"tools": ["search"]}, {"all_sources": False}, {"max_steps": 3}],
)
def test_each_change_that_bears_on_a_run_makes_the_next_version(
    admin: Membership, agent: Agent, change: dict[str, object]
) -> None:
    authority = factories.authority_of(admin)
    first = publish_agent(authority, agent=agent)
    Agent.objects.filter(pk=agent.pk).update(**change)
    second = publish_agent(authority, agent=agent)
    assert (second.number, second.digest != first.digest) == (2, True)


def test_going_back_is_a_further_version(admin: Membership, agent: Agent) -> None:
    authority = factories.authority_of(admin)
    first = publish_agent(authority, agent=agent)
    for steps in (3, 12):
        Agent.objects.filter(pk=agent.pk).update(max_steps=steps)
        newest = publish_agent(authority, agent=agent)
    assert (newest.number, newest.digest) == (3, first.digest)


def test_attached_sources_stand_in_the_version(admin: Membership, agent: Agent) -> None:
    sources = [factories.make_source(admin.organization) for _ in range(2)]
    for source in reversed(sources):
        AgentSource.objects.create(organization=admin.organization, agent=agent, source=source)
    Agent.objects.filter(pk=agent.pk).update(all_sources=False)
    version = publish_agent(factories.authority_of(admin), agent=agent)
    assert version.definition["sources"] == sorted(source.key for source in sources)


def test_a_new_prompt_publishes_the_agents_that_use_it(admin: Membership, agent: Agent) -> None:
    authority = factories.authority_of(admin)
    publish_agent(authority, agent=agent)
    archived = factories.make_agent(admin.organization, prompt=agent.prompt)
    Agent.objects.filter(pk=archived.pk).update(archived_at=agent.created_at)
    agent.prompt.text = "Be brief."
    agent.prompt.save()
    version = publish_prompt(authority, prompt=agent.prompt)
    agent.refresh_from_db()
    assert (version.number, version.text, version.digest) == (
        2,
        "Be brief.",
        digest_of("Be brief."),
    )
    assert agent.current_version is not None
    assert agent.current_version.definition["persona"] == "Be brief."
    assert AgentVersion.objects.filter(agent=archived).count() == 0
    assert publish_prompt(authority, prompt=agent.prompt) == version


def test_only_who_configures_may_publish(agent: Agent) -> None:
    organization = agent.organization
    for role in (Role.MEMBER, Role.AUDITOR):
        authority = factories.authority_of(factories.make_member(organization, role=role))
        with pytest.raises(Denied):
            publish_agent(authority, agent=agent)
        with pytest.raises(Denied):
            publish_prompt(authority, prompt=agent.prompt)
    stranger = factories.make_member(factories.make_organization(), role=Role.OWNER)
    with pytest.raises(Agent.DoesNotExist):
        publish_agent(factories.authority_of(stranger), agent=agent)
    assert (AgentVersion.objects.count(), PromptVersion.objects.count()) == (0, 0)


def test_a_tool_that_does_not_exist_is_invalid(admin: Membership, agent: Agent) -> None:
    Agent.objects.filter(pk=agent.pk).update(tools=["search", "delete_everything"])
    with pytest.raises(Invalid, match="'delete_everything'"):
        publish_agent(factories.authority_of(admin), agent=agent)
    assert AgentVersion.objects.count() == 0


def test_versions_refuse_change(admin: Membership, agent: Agent) -> None:
    version = publish_agent(factories.authority_of(admin), agent=agent)
    for rows in (AgentVersion.objects.filter(pk=version.pk), PromptVersion.objects.all()):
        with pytest.raises(ProgrammingError, match="permission denied"), transaction.atomic():
            rows.update(digest="x")
        with pytest.raises(ProgrammingError, match="permission denied"), transaction.atomic():
            rows._raw_delete("default")


def test_a_digest_tells_order_and_type_apart() -> None:
    assert digest_of({"a": 1, "b": 2}) != digest_of({"b": 2, "a": 1})
    assert digest_of("1") != digest_of(1)
    assert len(digest_of("\ud83d")) == 64


# --- which model


def test_the_built_in_model_is_made_once_and_is_the_default() -> None:
    organization = factories.make_organization()
    model = ensure_extractive(organization.pk)
    assert ensure_extractive(organization.pk) == model
    assert (model.is_default, model.provider.kind, model.name) == (
        True,
        "extractive",
        "extractive",
    )


def test_the_built_in_model_gives_way_to_another_default() -> None:
    organization = factories.make_organization()
    factories.make_language_model(organization, kind="openai", name="gpt", is_default=True)
    assert ensure_extractive(organization.pk).is_default is False


def test_two_built_in_providers_are_no_trouble() -> None:
    organization = factories.make_organization()
    first = factories.make_language_model(organization)
    factories.make_language_model(organization)
    assert ensure_extractive(organization.pk) == first
    assert ModelProvider.objects.filter(organization=organization).count() == 2


def test_an_agent_without_a_model_uses_the_default_of_now(admin: Membership, agent: Agent) -> None:
    Agent.objects.filter(pk=agent.pk).update(language_model=None)
    version = publish_agent(factories.authority_of(admin), agent=agent)
    assert resolve_language_model(version).provider.kind == "extractive"
    default = factories.make_language_model(
        admin.organization, kind="openai", name="gpt", is_default=True
    )
    assert resolve_language_model(version) == default
    LanguageModel.objects.filter(pk=default.pk).update(enabled=False)
    assert resolve_language_model(version).provider.kind == "extractive"


@pytest.mark.parametrize("what", [LanguageModel, ModelProvider])
def test_an_agents_own_model_that_is_off_is_a_conflict(
    admin: Membership, agent: Agent, what: type[LanguageModel]
) -> None:
    version = publish_agent(factories.authority_of(admin), agent=agent)
    what.objects.update(enabled=False)
    version = AgentVersion.objects.get(pk=version.pk)
    with pytest.raises(Conflict):
        resolve_language_model(version)


# --- which agents


def test_who_may_use_and_see_an_agent() -> None:
    world = make_world()
    assert list(list_usable_agents(world.authority)) == [world.agent]
    assert get_usable_agent(world.authority, world.agent.pk) == world.agent
    assert get_agent(world.authority, str(world.agent.pk)) == world.agent
    stranger = factories.authority_of(make_world().member)
    for read in (get_usable_agent, get_agent):
        with pytest.raises(Missing):
            read(stranger, world.agent.pk)
        with pytest.raises(Missing):
            read(world.authority, "nonsense")
    Agent.objects.filter(pk=world.agent.pk).update(archived_at=world.agent.created_at)
    assert list(list_usable_agents(world.authority)) == []
    with pytest.raises(Conflict):
        get_usable_agent(world.authority, world.agent.pk)
