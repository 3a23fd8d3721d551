"""The accounts API: shapes, scopes, refusals, keys (K19), the schema and its page."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from accounts import services
from accounts.models import ApiKey, Membership, Organization, Role, User
from accounts.permissions import Verb
from kaizen.kernel.clock import now
from tests import factories as make

pytestmark = pytest.mark.django_db
API = "/o/home/api/v1/"


@pytest.fixture
def owner() -> Membership:
    """An owner of `home`."""
    return make.make_member(make.make_organization("home", name="Home"), role=Role.OWNER)


@pytest.fixture
def api(client: Client, owner: Membership) -> Client:
    """Signed in as `owner`."""
    client.force_login(owner.user)
    return client


def send(client: Client, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """One JSON request."""
    return getattr(client, method)(
        API + path,
        data=None if body is None else json.dumps(body),
        content_type="application/json",
        headers=headers,
    )


def key_of(membership: Membership, *scopes: str) -> str:
    """The secret of a new key."""
    return services.create_key(
        make.authority_of(membership),
        name="k",
        scopes=scopes,
        expires_at=now() + timedelta(days=1),
    )[1]


def test_me(api: Client, owner: Membership) -> None:
    """Who the session acts as; public ids only."""
    body = send(api, "get", "me/").json()
    assert body == {
        "id": str(owner.user.public_id),
        "membership": str(owner.pk),
        "email": owner.user.email,
        "name": "",
        "role": "owner",
        "channel": "session",
        "scopes": None,
        "capabilities": ["audit", "configure", "people"],
        "organization": {
            "id": str(owner.organization_id),
            "slug": "home",
            "name": "Home",
            "time_zone": "UTC",
            "locale": "en",
        },
    }
    assert send(api, "get", "organization/").json() == body["organization"]


def test_k19_a_key_ends_with_its_owner_and_comes_back(owner: Membership) -> None:
    """K19: 200, 401, 200; the refused call leaves last-used alone and reads as an unknown
    key does.
    """
    member = make.make_member(owner.organization)
    client = Client()
    header = {"Authorization": f"Bearer {key_of(member, 'search')}"}
    unknown = client.get(API + "me/", headers={"Authorization": "Bearer kz_unknown"})
    assert unknown.status_code == 401
    for model, off, on in (
        (User, {"is_active": False}, {"is_active": True}),
        (Membership, {"state": "suspended"}, {"state": "active"}),
    ):
        rows = model.objects.filter(pk=member.user_id if model is User else member.pk)
        assert client.get(API + "me/", headers=header).status_code == 200
        ApiKey.objects.update(last_used_at=None)
        rows.update(**off)
        refused = client.get(API + "me/", headers=header)
        assert refused.status_code == 401
        assert refused.content == unknown.content
        assert refused["WWW-Authenticate"] == unknown["WWW-Authenticate"]
        assert ApiKey.objects.get().last_used_at is None
        rows.update(**on)
        assert client.get(API + "me/", headers=header).status_code == 200
        assert ApiKey.objects.get().last_used_at is not None


def test_expired_revoked_and_foreign_keys_are_unknown_keys(owner: Membership) -> None:
    """All 401 with one body."""
    other = make.make_member(make.make_organization("elsewhere"))
    expired, revoked, foreign = (
        key_of(owner, "search"),
        key_of(owner, "search"),
        key_of(other, "search"),
    )
    keys = list(ApiKey.objects.filter(membership=owner).order_by("id"))
    ApiKey.objects.filter(pk=keys[0].pk).update(expires_at=now())
    services.revoke_key(make.authority_of(owner), key=keys[1])
    client = Client()
    bodies = set()
    for secret in (
        expired,
        revoked,
        foreign,
        "kz_x",
        "kz_\udcff".encode("utf-8", "replace").decode(),
    ):
        response = client.get(API + "me/", headers={"Authorization": f"Bearer {secret}"})
        assert response.status_code == 401
        bodies.add(response.content)
    for header in ("Basic YTpi", "Bearer", "Bearer  "):
        response = client.get(API + "me/", headers={"Authorization": header})
        bodies.add(response.content)
    assert len(bodies) == 1


def test_configuration_needs_the_admin_scope(owner: Membership) -> None:
    """A search key tells who it is and nothing else; an admin key may do what its owner may."""
    client = Client()
    narrow = {"Authorization": f"Bearer {key_of(owner, 'search')}"}
    wide = {"Authorization": f"Bearer {key_of(owner, 'admin')}"}
    assert client.get(API + "me/", headers=narrow).json()["scopes"] == ["search"]
    for path in ("members/", "teams/", "projects/", "keys/"):
        refused = client.get(API + path, headers=narrow)
        assert (refused.status_code, refused.json()["code"]) == (403, "scope")
        assert client.get(API + path, headers=wide).status_code == 200


def test_members_are_invited_and_listed_by_admins_only(api: Client, owner: Membership) -> None:
    """201 with a link; bad e-mails and roles are named; a plain member gets 403."""
    made = send(api, "post", "members/", {"email": "new@example.org", "role": "member"})
    assert made.status_code == 201
    assert made.json()["member"]["state"] == "invited"
    assert made.json()["link"].startswith("http://testserver/set-password/")
    listed = send(api, "get", "members/").json()["results"]
    assert [row["email"] for row in listed] == ["new@example.org", owner.user.email]
    bad = send(api, "post", "members/", {"email": "no", "role": "king"})
    assert bad.status_code == 400
    assert sorted(bad.json()["errors"]) == ["email", "role"]
    assert send(api, "post", "members/", {"email": "new@example.org\x00"}).status_code == 400
    plain = Client()
    plain.force_login(make.make_member(owner.organization).user)
    assert send(plain, "get", "members/").status_code == 403
    assert send(plain, "post", "members/", {"email": "x@example.org"}).status_code == 403
    assert not User.objects.filter(email="x@example.org").exists()


def test_lists_come_in_pages(api: Client, owner: Membership) -> None:
    """By the last row seen, without doubles or gaps; a broken cursor is a plain refusal."""
    for _ in range(5):
        make.make_team(owner.organization)
    seen, path = [], "teams/?limit=2"
    while path:
        body = send(api, "get", path).json()
        seen += [row["id"] for row in body["results"]]
        path = body["next"].split("/api/v1/")[1] if body["next"] else None
    assert len(seen) == len(set(seen)) == 6
    assert send(api, "get", "teams/?cursor=cD1ub25zZW5zZQ==").status_code in (400, 404)


def test_projects_follow_the_relation(api: Client, owner: Membership) -> None:
    """A maker sees theirs; a foreign, an ungranted and a random id are the same 404."""
    made = send(api, "post", "projects/", {"name": "Bridge"})
    assert made.status_code == 201
    project = made.json()["id"]
    hidden = make.make_project(owner.organization)
    foreign = make.make_project(make.make_organization("elsewhere"))
    assert [row["id"] for row in send(api, "get", "projects/").json()["results"]] == [project]
    assert send(api, "get", f"projects/{project}/").json()["name"] == "Bridge"
    bodies = set()
    for identity in (hidden.pk, foreign.pk, uuid.uuid4()):
        response = send(api, "get", f"projects/{identity}/")
        assert response.status_code == 404
        bodies.add(response.content)
    assert len(bodies) == 1
    assert send(api, "post", "projects/", {"name": "Bridge"}).status_code == 409


def test_keys_are_made_shown_once_and_revoked(api: Client, owner: Membership) -> None:
    """The secret is in the first answer only; nobody's key but one's own is found."""
    body = {
        "name": "robot",
        "scopes": ["chat"],
        "expires_at": (now() + timedelta(days=5)).isoformat(),
    }
    made = send(api, "post", "keys/", body)
    assert made.status_code == 201
    assert made["Cache-Control"] == "no-store"
    secret = made.json()["secret"]
    listed = send(api, "get", "keys/")
    assert secret not in listed.content.decode()
    assert sorted(listed.json()["results"][0]) == [
        "created_at",
        "expires_at",
        "id",
        "last_used_at",
        "name",
        "prefix",
        "revoked_at",
        "scopes",
    ]
    colleague = make.make_member(owner.organization)
    key_of(colleague, "search")
    theirs = ApiKey.objects.get(membership=colleague)
    assert send(api, "delete", f"keys/{theirs.pk}/").status_code == 404
    assert send(api, "delete", f"keys/{made.json()['id']}/").status_code == 204
    assert (
        Client().get(API + "me/", headers={"Authorization": f"Bearer {secret}"}).status_code == 401
    )


def test_grants(api: Client, owner: Membership) -> None:
    """Given, listed and taken by type, object, principal and verb; unknown things are 404,
    strangers 400.
    """
    source = make.make_source(owner.organization)
    member = make.make_member(owner.organization)
    stranger = make.make_member(make.make_organization("elsewhere"))
    say = {
        "type": "source",
        "object": str(source.pk),
        "principal": "person",
        "principal_id": str(member.user.public_id),
        "verb": "use",
    }
    made = send(api, "post", "grants/", say)
    assert made.status_code == 201
    assert send(api, "post", "grants/", say).status_code == 200
    assert send(api, "post", "grants/", {**say, "principal": "everyone"}).status_code == 201
    listed = send(api, "get", f"grants/?type=source&object={source.pk}").json()["results"]
    assert [(row["principal"], row["label"], row["verb"], row["origin"]) for row in listed] == [
        ("person", member.user.email, "use", "manual"),
        ("everyone", "Everyone", "use", "manual"),
    ]
    foreign = make.make_source(Organization.objects.get(slug="elsewhere"))
    for change in ({"object": str(foreign.pk)}, {"object": str(uuid.uuid4())}, {"type": "user"}):
        assert send(api, "post", "grants/", {**say, **change}).status_code == 404
    for identity in (str(stranger.user.public_id), str(uuid.uuid4()), None):
        refused = send(api, "post", "grants/", {**say, "principal_id": identity})
        assert refused.status_code == 400
        assert refused.json()["detail"] == "That person or team isn't in this organisation."
    query = "&".join(f"{name}={value}" for name, value in say.items())
    assert send(api, "delete", f"grants/?{query}").status_code == 204
    listed = send(api, "get", f"grants/?type=source&object={source.pk}").json()["results"]
    assert [row["principal"] for row in listed] == ["everyone"]


def test_a_sharer_uses_the_grants_api_too(api: Client, owner: Membership) -> None:
    """With share on an object a plain member may; without, the object isn't there or it
    is denied.
    """
    project = make.make_project(owner.organization)
    member = make.make_member(owner.organization)
    client = Client()
    client.force_login(member.user)
    say = {"type": "project", "object": str(project.pk), "principal": "everyone", "verb": "view"}
    assert send(client, "post", "grants/", say).status_code == 404
    make.grant(member, Verb.VIEW, project)
    assert send(client, "post", "grants/", say).status_code == 403
    make.grant(member, Verb.SHARE, project)
    assert send(client, "post", "grants/", say).status_code == 201
    assert send(client, "post", "grants/", {**say, "verb": "manage"}).status_code == 403


def test_the_schema_and_its_page(api: Client, owner: Membership) -> None:
    """OpenAPI 3 for this organisation's address; the page loads own files only and runs no inline
    script.
    """
    schema = api.get(API + "schema/?format=json").json()
    assert schema["openapi"].startswith("3.")
    assert schema["servers"] == [{"url": "/o/home"}]
    assert {"/api/v1/me/", "/api/v1/grants/", "/api/v1/keys/{key_id}/"} <= set(schema["paths"])
    assert sorted(schema["components"]["securitySchemes"]) == ["apiKey", "session"]
    page = api.get(API + "docs/")
    text = page.content.decode()
    assert page.status_code == 200
    assert "<style" not in text
    assert "<script>" not in text
    assert "//" not in text.replace("<!-- -->", "").replace("</", "")
    script = api.get(API + "docs/?script=")
    assert script["Content-Type"].startswith("application/javascript")
    assert "SwaggerUIBundle" in script.content.decode()
    anonymous = Client()
    for path in ("schema/", "docs/"):
        assert anonymous.get(API + path).status_code == 401
    key = {"Authorization": f"Bearer {key_of(owner, 'search')}"}
    assert anonymous.get(API + "docs/", headers=key).status_code == 200
