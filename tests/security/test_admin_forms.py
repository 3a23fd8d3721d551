"""The admin's forms by name: K13, forged choices, secrets, grants, publishing, and what the audit
holds after.
"""

from __future__ import annotations

import html
import re

import pytest
from django.test import Client

from accounts.models import Membership, Organization, Role
from agents.models import Agent, AgentSource, AgentVersion, LanguageModel, ModelProvider, Prompt
from audit.models import AuditEvent
from retrieval.acl import visible_sources
from retrieval.models import Source
from tests import factories as make
from tests.security.admin_world import events

pytestmark = pytest.mark.django_db

NO_GRANTS = {"grants-TOTAL_FORMS": "0", "grants-INITIAL_FORMS": "0"}


def test_k13_admin_autocomplete_history_delete_and_change_stay_inside(
    admin: Client, owner: Membership, elsewhere: Organization
) -> None:
    """K13: a name that exists only in B is never offered; B's object has no pages; A's delete page
    lists no B.
    """
    project = make.make_project(elsewhere, name="Acme")
    agent = make.make_agent(elsewhere, name="Acme agent")
    offered = admin.get(
        "/o/home/admin/autocomplete/",
        {"app_label": "retrieval", "model_name": "source", "field_name": "project", "term": "Acme"},
    )
    assert offered.json() == {"results": [], "pagination": {"more": False}}
    for page in ("history", "delete", "change"):
        response = admin.get(f"/o/home/admin/agents/agent/{agent.pk}/{page}/")
        assert response.status_code == 404
        assert "Acme" not in response.content.decode()
    own = make.make_language_model(owner.organization, label="Ours")
    make.make_language_model(elsewhere, label="Acme model")
    deletion = admin.get(f"/o/home/admin/agents/languagemodel/{own.pk}/delete/")
    assert deletion.status_code == 200
    assert "Ours" in deletion.content.decode()
    assert "Acme" not in deletion.content.decode()
    # The positive control: in its own organisation the same term finds it.
    theirs = make.make_member(elsewhere, role=Role.ADMIN)
    admin.force_login(theirs.user)
    offered = admin.get(
        "/o/elsewhere/admin/autocomplete/",
        {"app_label": "retrieval", "model_name": "source", "field_name": "project", "term": "Acme"},
    )
    assert offered.json()["results"] == [{"id": str(project.pk), "text": "Acme"}]


def test_a_foreign_id_can_not_be_chosen(
    admin: Client, owner: Membership, elsewhere: Organization
) -> None:
    """A forged project, provider, prompt or source of B is refused as any unknown one, and nothing
    is saved.
    """
    project = make.make_project(elsewhere)
    model = make.make_language_model(elsewhere)
    prompt = make.make_prompt(elsewhere)
    source = make.make_source(elsewhere)
    own = make.make_prompt(owner.organization)
    forged = {
        "retrieval/source": {"name": "S", "project": project.pk},
        "agents/languagemodel": {"label": "L", "name": "m", "provider": model.provider_id},
        "agents/agent": {"name": "A", "prompt": prompt.pk, "max_steps": 1, "max_seconds": 10},
    }
    inline = {
        "agent_sources-TOTAL_FORMS": "1",
        "agent_sources-INITIAL_FORMS": "0",
        "agent_sources-0-source": str(source.pk),
    }
    for path, fields in forged.items():
        response = admin.post(f"/o/home/admin/{path}/add/", {**fields, **NO_GRANTS, **inline})
        assert response.status_code == 200  # the form again, with an error
    response = admin.post(
        "/o/home/admin/agents/agent/add/",
        {"name": "A", "prompt": own.pk, "max_steps": 1, "max_seconds": 10, **NO_GRANTS, **inline},
    )
    assert response.status_code == 200
    assert "Select a valid choice" in response.content.decode()
    assert Source.objects.filter(organization=owner.organization).count() == 0
    assert LanguageModel.objects.filter(organization=owner.organization).count() == 0
    assert Agent.objects.filter(organization=owner.organization).count() == 0
    assert AgentSource.objects.count() == 0


def test_a_taken_name_is_an_error_on_the_form(admin: Client, owner: Membership) -> None:
    """A second source of the same name is refused by the form, not by the database."""
    make.make_source(owner.organization, name="Handbook")
    response = admin.post("/o/home/admin/retrieval/source/add/", {"name": "Handbook", **NO_GRANTS})
    assert response.status_code == 200
    assert "already exists" in response.content.decode()


def test_granting_and_revoking_on_a_source(
    admin: Client, owner: Membership, elsewhere: Organization
) -> None:
    """The table on a source's page grants to a person, a team and everyone, through the services,
    audited.
    """
    source = make.make_source(owner.organization, name="Handbook")
    reader = make.make_member(owner.organization, user=make.make_user("reader@example.org"))
    crew = make.make_team(owner.organization, label="Crew")
    stranger = make.make_member(elsewhere, user=make.make_user("stranger@example.org"))
    address = f"/o/home/admin/retrieval/source/{source.pk}/change/"
    form = {"name": "Handbook", "grants-INITIAL_FORMS": "0", "grants-TOTAL_FORMS": "2"}
    response = admin.post(
        address,
        {
            **form,
            "grants-0-who": "Reader@example.org",
            "grants-1-who": "crew",
            "grants-1-verb": "use",
        },
    )
    assert response.status_code == 302
    assert list(visible_sources(make.authority_of(reader))) == [source]
    for unknown in ("stranger@example.org", "nobody@example.org", "No such team"):
        response = admin.post(address, {**form, "grants-0-who": unknown})
        assert response.status_code == 200
        assert "isn't in this organisation" in html.unescape(response.content.decode())
    assert events(owner.organization) == [
        (
            "accounts.grant_added",
            {"verb": "view", "person": str(reader.user.public_id), "expires_at": None},
        ),
        ("accounts.grant_added", {"verb": "use", "team": str(crew.uuid), "expires_at": None}),
    ]
    page = admin.get(address).content.decode()
    rows = re.findall(r'name="grants-\d-row" value="([^"]+)"', page)
    assert rows == [f"person:{reader.user.public_id}:view", f"team:{crew.uuid}:use"]
    response = admin.post(
        address,
        {**form, "grants-0-row": rows[0], "grants-0-remove": "on", "grants-INITIAL_FORMS": "1"},
    )
    assert response.status_code == 302
    assert list(visible_sources(make.authority_of(reader))) == []
    assert events(owner.organization)[-1] == (
        "accounts.grant_removed",
        {"verb": "view", "person": str(reader.user.public_id)},
    )
    forged = f"person:{stranger.user.public_id}:view"
    response = admin.post(address, {**form, "grants-0-row": forged, "grants-0-expires_at_0": "x"})
    assert response.status_code == 302
    assert list(visible_sources(make.authority_of(stranger))) == []


def test_a_provider_key_is_written_and_never_read_back(admin: Client, owner: Membership) -> None:
    """Blank keeps it, a new one replaces it, "forget" removes it; no page and no audit row holds
    it.
    """
    secret = "sk-canary-0123456789"
    add = "/o/home/admin/agents/modelprovider/add/"
    fields = {"name": "Vendor", "kind": "openai", "enabled": "on"}
    assert admin.post(add, {**fields, "new_api_key": secret}).status_code == 302
    provider = ModelProvider.objects.get(organization=owner.organization)
    assert provider.api_key == secret
    address = f"/o/home/admin/agents/modelprovider/{provider.pk}/change/"
    for page in (
        address,
        "/o/home/admin/agents/modelprovider/",
        address.replace("change", "history"),
    ):
        assert secret not in admin.get(page).content.decode()
    assert admin.post(address, {**fields, "name": "Renamed"}).status_code == 302
    assert ModelProvider.objects.get(pk=provider.pk).api_key == secret
    assert admin.post(address, {**fields, "forget_api_key": "on"}).status_code == 302
    assert ModelProvider.objects.get(pk=provider.pk).api_key == ""
    assert events(owner.organization) == [
        ("admin.added", {"fields": ["kind", "name", "new_api_key"]}),
        ("admin.changed", {"fields": ["name"]}),
        ("admin.changed", {"fields": ["forget_api_key", "name"]}),
    ]
    assert secret not in str(list(AuditEvent.objects.values()))


def test_saving_an_agent_publishes_a_version(admin: Client, owner: Membership) -> None:
    """Adding makes version 1, saving again without a change none, changing its limits version 2."""
    prompt = make.make_prompt(owner.organization)
    source = make.make_source(owner.organization)
    fields = {
        "name": "Helper",
        "prompt": str(prompt.pk),
        "tools": ["search"],
        "max_steps": "5",
        "max_seconds": "60",
        "agent_sources-TOTAL_FORMS": "1",
        "agent_sources-INITIAL_FORMS": "0",
        "agent_sources-0-source": str(source.pk),
        **NO_GRANTS,
    }
    assert admin.post("/o/home/admin/agents/agent/add/", fields).status_code == 302
    agent = Agent.objects.get(organization=owner.organization)
    assert [version.number for version in AgentVersion.objects.filter(agent=agent)] == [1]
    attached = AgentSource.objects.get(agent=agent)
    assert (attached.source_id, attached.organization_id) == (source.pk, owner.organization_id)
    again = {
        **fields,
        "agent_sources-INITIAL_FORMS": "1",
        "agent_sources-0-id": str(attached.pk),
        "agent_sources-0-agent": str(agent.pk),
    }
    address = f"/o/home/admin/agents/agent/{agent.pk}/change/"
    assert admin.post(address, again).status_code == 302
    assert AgentVersion.objects.filter(agent=agent).count() == 1
    assert admin.post(address, {**again, "max_steps": "6"}).status_code == 302
    assert AgentVersion.objects.filter(agent=agent).count() == 2
    assert admin.post(address, {**again, "tools": ["rm_rf"]}).status_code == 200
    assert AgentVersion.objects.filter(agent=agent).count() == 2


def test_saving_a_prompt_publishes_a_version(admin: Client, owner: Membership) -> None:
    """The text becomes version 1, a changed text version 2."""
    fields = {"name": "Persona", "text": "Answer kindly.", **NO_GRANTS}
    assert admin.post("/o/home/admin/agents/prompt/add/", fields).status_code == 302
    prompt = Prompt.objects.get(organization=owner.organization)
    address = f"/o/home/admin/agents/prompt/{prompt.pk}/change/"
    assert admin.post(address, {**fields, "text": "Answer briefly."}).status_code == 302
    assert list(prompt.versions.order_by("number").values_list("number", "text")) == [
        (1, "Answer kindly."),
        (2, "Answer briefly."),
    ]
