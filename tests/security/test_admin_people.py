"""The admin's forms by name: invitations, keys, teams, owners, documents, signing out, projects."""

from __future__ import annotations

import html
import re

import pytest
from django.core.cache import cache
from django.test import Client

from accounts.models import ApiKey, Membership, Organization, Role, Team, User
from accounts.permissions import Verb
from accounts.relation import visible
from conversations.models import Conversation
from retrieval.models import Document
from tests import factories as make
from tests.security.admin_world import events

pytestmark = pytest.mark.django_db

NO_GRANTS = {"grants-TOTAL_FORMS": "0", "grants-INITIAL_FORMS": "0"}


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
