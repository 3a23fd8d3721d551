"""The admin's forms by name: K13, forged choices, secrets, grants, publishing, and what the audit
holds after.
"""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from accounts.models import ApiKey, Membership, Organization, Role, Team, User
from accounts.permissions import Verb
from accounts.relation import visible
from agents.models import Agent, AgentSource, AgentVersion, LanguageModel, ModelProvider, Prompt
from audit.models import AuditEvent
from conversations.models import Conversation
from retrieval.acl import visible_sources
from retrieval.models import Document, Source
from tests import factories as make

pytestmark = pytest.mark.django_db

NO_GRANTS = {"grants-TOTAL_FORMS": "0", "grants-INITIAL_FORMS": "0"}


@pytest.fixture
def owner() -> Membership:
    """An owner of organisation `home`."""
    return make.make_member(make.make_organization("home"), role=Role.OWNER)


@pytest.fixture
def admin(client: Client, owner: Membership) -> Client:
    """Signed in as `owner`."""
    client.force_login(owner.user)
    return client


@pytest.fixture
def elsewhere() -> Organization:
    """Another organisation."""
    return make.make_organization("elsewhere", name="Elsewhere")


def events(organization: Organization) -> list[tuple[str, dict[str, Any]]]:
    """What the audit holds, oldest first."""
    rows = AuditEvent.objects.filter(organization_id=organization.pk).order_by("at", "id")
    return [(event.action, event.data) for event in rows]


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


def test_an_invitation_looks_the_same_for_every_e_mail(
    admin: Client, owner: Membership, elsewhere: Organization
) -> None:
    """Whether an account exists isn't told: the answers differ in the link and the
    address alone.
    """
    known = make.make_member(elsewhere, user=make.make_user("known@example.org")).user
    invited_elsewhere = User.objects.create_user("pending@example.org")
    make.make_member(elsewhere, user=invited_elsewhere, state=Membership.State.INVITED)
    pages, links = set(), []
    for email in ("known@example.org", "pending@example.org", "fresh@example.org"):
        response = admin.post(
            "/o/home/admin/accounts/membership/add/", {"email": email, "role": "member"}
        )
        assert response.status_code == 200
        assert "no-store" in response["Cache-Control"]
        text = response.content.decode()
        link = re.search(r"http://testserver(/set-password/([\w-]+)/([\w-]+)/)", text)
        assert link
        links.append(link)
        pages.add(re.sub(r'(nonce|value)="[^"]+"', "", text.replace(link[1], "LINK")))
    assert len(pages) == 1
    assert len({(len(link[2]), len(link[3])) for link in links}) == 1
    forms = set()
    admin.logout()
    for link in links:
        text = admin.get(link[1]).content.decode()
        forms.add(re.sub(r'(value|action)="[^"]+"', "", text))
    assert len(forms) == 1  # and so does the page behind the link
    password = {"password": "a new long password"}
    assert [admin.post(link[1], password).status_code for link in links] == [200, 200, 302]
    known.refresh_from_db()
    assert known.check_password(make.PASSWORD)
    invited_elsewhere.refresh_from_db()
    assert not invited_elsewhere.has_usable_password()


def test_an_api_key_is_shown_once(admin: Client, owner: Membership) -> None:
    """The secret stands in the answer to its making and on no page after; revoking ends it."""
    response = admin.post(
        "/o/home/admin/accounts/apikey/add/",
        {
            "name": "robot",
            "scopes": ["search"],
            "expires_at_0": "2027-01-01",
            "expires_at_1": "00:00",
        },
    )
    found = re.search(r"kz_[\w-]{43}", response.content.decode())
    assert found
    key = ApiKey.objects.get(organization=owner.organization)
    assert key.membership == owner
    for page in ("", f"{key.pk}/change/", f"{key.pk}/history/"):
        assert found[0] not in admin.get(f"/o/home/admin/accounts/apikey/{page}").content.decode()
    admin.post(
        "/o/home/admin/accounts/apikey/", {"action": "revoke", "_selected_action": [str(key.pk)]}
    )
    key.refresh_from_db()
    assert key.revoked_at is not None
    assert [name for name, _ in events(owner.organization)] == [
        "accounts.key_created",
        "accounts.key_revoked",
    ]


def test_team_pages_use_public_ids_and_services(admin: Client, owner: Membership) -> None:
    """A team is made, filled by e-mail, nested and deleted; its integer id is on none of
    the pages.
    """
    member = make.make_member(owner.organization, user=make.make_user("ann@example.org"))
    outer = make.make_team(owner.organization, label="Outer")
    response = admin.post(
        "/o/home/admin/accounts/team/add/",
        {
            "label": "Inner",
            "parent": str(outer.uuid),
            "team-members-TOTAL_FORMS": "1",
            "team-members-INITIAL_FORMS": "0",
            "team-members-0-email": "ann@example.org",
            "team-members-0-role": "lead",
        },
    )
    inner = Team.objects.get(organization=owner.organization, label="Inner")
    address = f"/o/home/admin/accounts/team/{inner.uuid}/change/"
    assert response["Location"] == address
    assert inner.parent_id == outer.pk
    assert [place.membership for place in inner.team_memberships.all()] == [member]
    for page in (address, "/o/home/admin/accounts/team/", address.replace("change", "delete")):
        text = admin.get(page).content.decode()
        assert f"/{inner.pk}/" not in text
        assert f'value="{inner.pk}"' not in text
    circle = admin.post(
        f"/o/home/admin/accounts/team/{outer.uuid}/change/",
        {"label": "Outer", "parent": str(inner.uuid)},
        follow=True,
    )
    assert "nested in itself" in html.unescape(circle.content.decode())
    outer.refresh_from_db()
    assert outer.parent_id is None
    deletion = admin.post(f"/o/home/admin/accounts/team/{inner.uuid}/delete/", {"post": "yes"})
    assert deletion.status_code == 302
    assert not Team.objects.filter(pk=inner.pk).exists()
    everyone = make.everyone(owner.organization)
    refused = admin.post(f"/o/home/admin/accounts/team/{everyone.uuid}/delete/", {"post": "yes"})
    assert refused.status_code == 403


def test_a_title_can_not_be_guessed_by_a_lookup(admin: Client, owner: Membership) -> None:
    """Titles are content: neither shown nor testable by a query parameter."""
    agent = make.make_agent(owner.organization)
    Conversation.objects.create(
        organization=owner.organization, agent=agent, started_by=owner.user, title="Redundancies"
    )
    for query in ("title__startswith=R", "title=Redundancies", "agent__prompt__text__contains=a"):
        response = admin.get(f"/o/home/admin/conversations/conversation/?{query}")
        assert response.status_code == 400


def test_the_last_owner_stays(admin: Client, owner: Membership) -> None:
    """Demoting the only owner is refused with a sentence; nothing changes."""
    response = admin.post(
        f"/o/home/admin/accounts/membership/{owner.pk}/change/",
        {"role": "member", "state": "active"},
        follow=True,
    )
    assert "at least one owner" in response.content.decode()
    owner.refresh_from_db()
    assert owner.role == Role.OWNER


def test_document_actions_go_through_the_services(admin: Client, owner: Membership) -> None:
    """Restricting and deleting a document, by one who holds its source."""
    source = make.make_source(owner.organization)
    make.grant(owner, Verb.MANAGE, source)
    document = Document.objects.create(
        organization=owner.organization, source=source, title="D", file_name="d", external_id="d"
    )
    address = "/o/home/admin/retrieval/document/"
    chosen = {"_selected_action": [str(document.pk)]}
    assert admin.post(address, {"action": "restrict", **chosen}).status_code == 302
    document.refresh_from_db()
    assert document.acl_state == Document.AclState.RESTRICTED
    assert admin.post(address, {"action": "delete", **chosen}).status_code == 302
    document.refresh_from_db()
    assert document.deleted_at is not None
    assert admin.get(f"{address}{document.pk}/change/").status_code == 404


def test_the_admin_has_its_own_content_security_policy(admin: Client, owner: Membership) -> None:
    """Its pages carry the theme's policy with a nonce; the policy outside stays strict."""
    inside = admin.get("/o/home/admin/")["Content-Security-Policy"]
    assert "'unsafe-eval'" in inside
    assert "frame-ancestors 'none'" in inside
    outside = admin.get("/organizations/")["Content-Security-Policy"]
    assert "unsafe" not in outside
    assert "unsafe" not in admin.get("/o/home/admin/nowhere/")["Content-Security-Policy"]


def test_signing_out_in_the_admin_is_the_products_own(admin: Client, owner: Membership) -> None:
    """The admin's button hands its POST on to /logout/."""
    cache.clear()
    response = admin.post("/o/home/admin/logout/")
    assert (response.status_code, response["Location"]) == (307, "/logout/")
    admin.post("/logout/")
    assert admin.get("/o/home/admin/")["Location"].startswith("/login/")


def test_a_project_grant_from_the_admin_opens_the_project(admin: Client, owner: Membership) -> None:
    """The same table works on every grantable type."""
    member = make.make_member(owner.organization)
    project = make.make_project(owner.organization, name="Bridge")
    response = admin.post(
        f"/o/home/admin/accounts/project/{project.pk}/change/",
        {
            "name": "Bridge",
            "grants-INITIAL_FORMS": "0",
            "grants-TOTAL_FORMS": "1",
            "grants-0-who": "everyone",
        },
    )
    assert response.status_code == 302
    assert list(visible(make.authority_of(member), type(project))) == [project]
