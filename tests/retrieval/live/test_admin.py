"""Setting a live source up in the admin: the address, asking for tools, allowing them, grants."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.test import Client

from accounts.models import Membership, Organization, Role
from audit.models import AuditEvent
from kaizen.kernel.errors import Conflict, Denied, Invalid
from retrieval.acl import visible_sources
from retrieval.live.accounts import connect_account
from retrieval.live.sources import allow_tools, ask_for_tools, create_live_source
from retrieval.models import LiveSource, LiveTool, Source
from tests import factories
from tests.retrieval.live.conftest import ADA, ADMIN, Scene
from tests.retrieval.live.server import CLOSE_TICKET, SEARCH_TICKETS, McpServer

NO_GRANTS = {"grants-TOTAL_FORMS": "0", "grants-INITIAL_FORMS": "0"}


@pytest.fixture
def admin(scene: Scene, client: Client) -> Client:
    """The admin's browser."""
    client.force_login(scene.admin.user)
    return client


def at(scene: Scene, page: str) -> str:
    return f"/o/{scene.organization.slug}/admin/retrieval/livesource/{page}"


def actions(organization: Organization) -> list[str]:
    rows = AuditEvent.objects.filter(organization_id=organization.pk).order_by("at", "id")
    return list(rows.values_list("action", flat=True))


def allowed(live: LiveSource) -> list[str]:
    return sorted(live.tools.filter(allowed=True).values_list("name", flat=True))


def test_a_live_source_is_set_up_step_by_step(scene: Scene, admin: Client) -> None:
    form = {"name": "Wiki", "description": "Live wiki", "address": scene.server.url}
    response = admin.post(at(scene, "add/"), {**form, **NO_GRANTS, "_continue": "1"})
    assert response.status_code == 302
    live = LiveSource.objects.get(source__name="Wiki")
    assert (live.url, live.protocol, live.asked_at) == (scene.server.url, "", None)
    assert scene.server.site.asked == []
    connect_account(scene.as_admin, source_id=live.source_id, token=ADMIN)
    page = at(scene, f"{live.pk}/change/")
    assert 'name="ask"' in admin.get(page).content.decode()
    admin.post(page, {"ask": "on", **NO_GRANTS})
    live.refresh_from_db()
    assert live.protocol == "2026-07-28"
    assert allowed(live) == []
    text = admin.get(page).content.decode()
    assert re.search(r'name="reading"[^>]*value="search_tickets"', text)
    assert re.search(r'name="vouched"[^>]*value="close_ticket"', text)
    reader = factories.make_member(scene.organization)
    granted = {
        "grants-TOTAL_FORMS": "1",
        "grants-INITIAL_FORMS": "0",
        "grants-0-who": reader.user.email,
    }
    admin.post(page, {"reading": ["search_tickets"], **granted})
    assert allowed(live) == ["search_tickets"]
    assert list(visible_sources(factories.authority_of(reader))) == [live.source]
    event = AuditEvent.objects.filter(action="retrieval.live_source_changed").latest("at")
    assert event.data == {"allowed": ["search_tickets"], "vouched": []}


def test_vouching_for_a_tool_is_recorded(scene: Scene, admin: Client) -> None:
    form = {"reading": ["search_tickets"], "vouched": ["close_ticket"], **NO_GRANTS}
    admin.post(at(scene, f"{scene.live.pk}/change/"), form)
    assert allowed(scene.live) == ["close_ticket", "search_tickets"]
    event = AuditEvent.objects.filter(action="retrieval.live_source_changed").latest("at")
    assert event.data == {
        "allowed": ["close_ticket", "search_tickets"],
        "vouched": ["close_ticket"],
    }
    assert event.actor_id == scene.admin.user.public_id
    history = admin.get(at(scene, f"{scene.live.pk}/history/")).content.decode()
    assert "The tools a live source may be read with changed." in history


def test_a_tool_the_server_does_not_offer_can_not_be_ticked(scene: Scene, admin: Client) -> None:
    form = {"reading": ["search_tickets", "made_up"], **NO_GRANTS}
    response = admin.post(at(scene, f"{scene.live.pk}/change/"), form)
    assert response.status_code == 200
    assert "made_up is not one of the available choices" in response.content.decode()
    with pytest.raises(Invalid):
        allow_tools(scene.as_admin, live=scene.live, names=["made_up"])
    assert allowed(scene.live) == ["search_tickets"]


def test_asking_again_withdraws_what_changed_and_keeps_what_did_not(scene: Scene) -> None:
    other = {**CLOSE_TICKET, "name": "list_tickets", "annotations": {"readOnlyHint": True}}
    scene.server.tools = [SEARCH_TICKETS, other]
    ask_for_tools(scene.as_admin, live=scene.live)
    allow_tools(scene.as_admin, live=scene.live, names=["search_tickets", "list_tickets"])
    changed = {**other, "inputSchema": {"type": "object", "properties": {"all": {}}}}
    scene.server.tools = [{**SEARCH_TICKETS, "description": "New words"}, changed]
    ask_for_tools(scene.as_admin, live=scene.live)
    assert allowed(scene.live) == ["search_tickets"]
    event = AuditEvent.objects.filter(action="retrieval.live_source_asked").latest("at")
    assert event.data == {"tools": 2, "withdrawn": ["list_tickets"]}
    scene.server.tools = []
    ask_for_tools(scene.as_admin, live=scene.live)
    assert not LiveTool.objects.exists()


def test_the_server_is_asked_under_the_admins_own_account_or_none(scene: Scene) -> None:
    ask_for_tools(scene.as_admin, live=scene.live)
    assert scene.server.tokens() == {f"Bearer {ADMIN}"}
    scene.server.site.asked.clear()
    connect_account(scene.as_ada, source_id=scene.source.pk, token=ADA)
    second = factories.make_member(scene.organization, role=Role.ADMIN)
    scene.server.site.asked.clear()
    with pytest.raises(Denied):
        ask_for_tools(factories.authority_of(second), live=scene.live)
    assert scene.server.tokens() == {""}


def test_a_server_that_is_down_is_said_on_the_form(
    scene: Scene, admin: Client, settings: Any
) -> None:
    settings.EGRESS_ALLOW = ("127.0.0.1:9",)
    LiveSource.objects.update(url="http://127.0.0.1:9/mcp")
    form = {"reading": ["search_tickets"], "ask": "on", **NO_GRANTS}
    response = admin.post(at(scene, f"{scene.live.pk}/change/"), form, follow=True)
    assert "127.0.0.1 can't be reached just now." in html.unescape(response.content.decode())
    assert allowed(scene.live) == ["search_tickets"]


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("http://example.org/mcp", "must begin with https://"),
        ("https://127.0.0.1/mcp", "That address can't be fetched."),
        ("https://user:word@example.org/mcp", "That address can't be fetched."),
        ("ftp://example.org", "That address can't be fetched."),
        ("words", "That address can't be fetched."),
    ],
)
def test_an_address_that_tokens_may_not_go_to_is_refused(
    scene: Scene, admin: Client, address: str, sentence: str
) -> None:
    form = {"name": "Wiki", "address": address, **NO_GRANTS}
    response = admin.post(at(scene, "add/"), form)
    assert response.status_code == 200
    assert sentence in html.unescape(response.content.decode())
    assert not Source.objects.filter(name="Wiki").exists()


def test_the_address_can_not_be_changed(scene: Scene, admin: Client) -> None:
    form = {"url": "https://example.org/", "address": "https://example.org/", **NO_GRANTS}
    admin.post(at(scene, f"{scene.live.pk}/change/"), {"reading": ["search_tickets"], **form})
    scene.live.refresh_from_db()
    assert scene.live.url == scene.server.url


def test_a_taken_name_is_refused(scene: Scene, admin: Client) -> None:
    form = {"name": " Tickets ", "address": scene.server.url, **NO_GRANTS}
    response = admin.post(at(scene, "add/"), form)
    assert "already exists" in response.content.decode()
    with pytest.raises(Conflict):
        create_live_source(scene.as_admin, name="Tickets", url=scene.server.url)


@pytest.mark.parametrize("role", [Role.MEMBER, Role.AUDITOR])
def test_only_who_configures_may_set_one_up(
    db: None, server: McpServer, role: Role, client: Client
) -> None:
    organization = factories.make_organization()
    member: Membership = factories.make_member(organization, role=role)
    with pytest.raises(Denied):
        create_live_source(factories.authority_of(member), name="Wiki", url=server.url)
    client.force_login(member.user)
    response = client.get(f"/o/{organization.slug}/admin/retrieval/livesource/add/")
    assert response.status_code in (403, 404)
    assert actions(organization) == []


def test_no_page_of_the_admin_shows_a_token(connected: Scene, client: Client) -> None:
    client.force_login(connected.admin.user)
    for page in ("", f"{connected.live.pk}/change/", f"{connected.live.pk}/history/"):
        response = client.get(at(connected, page))
        assert response.status_code == 200
        assert ADA not in response.content.decode()
