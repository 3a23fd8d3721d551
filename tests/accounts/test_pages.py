"""The doors outside any organisation: signing in and out, the picker, set-password links,
health.
"""

from __future__ import annotations

import io
import re

import pytest
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.test import Client, override_settings

from accounts import services
from accounts.models import Membership, Organization, Role, User
from audit.models import PLATFORM, AuditEvent, AuditPersonal
from tests import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _fresh_cache(django_db_setup: None) -> None:
    cache.clear()


def platform_events() -> list[str]:
    """What the platform's own chain holds."""
    rows = AuditEvent.objects.filter(organization_id=PLATFORM).order_by("at", "id")
    return [row.action for row in rows]


def sign_in(client: Client, user: User, password: str = make.PASSWORD, **fields: str):  # type: ignore[no-untyped-def]
    """Post the form."""
    return client.post("/login/", {"email": user.email, "password": password, **fields})


def test_home_leads_to_where_the_work_is(client: Client) -> None:
    """Signed out to the sign-in page, one organisation straight in, several or none to
    the picker.
    """
    user = make.make_user()
    assert client.get("/")["Location"] == "/login/"
    client.force_login(user)
    assert client.get("/")["Location"] == "/organizations/"
    make.make_member(make.make_organization("one"), user=user)
    assert client.get("/")["Location"] == "/o/one/"
    make.make_member(make.make_organization("two", name="Two & Co"), user=user)
    make.make_member(make.make_organization("past", name="Past"), user=user, state="suspended")
    assert client.get("/")["Location"] == "/organizations/"
    page = client.get("/organizations/").content.decode()
    assert re.findall(r'href="/o/([a-z]+)/"', page) == ["one", "two"]
    assert "Past" not in page


def test_signing_in_by_any_spelling_of_the_e_mail(client: Client) -> None:
    """The session starts, invitations are accepted, and the platform's audit says so."""
    organization = make.make_organization("joined")
    owner = make.make_member(organization, role=Role.OWNER)
    user = make.make_user("ann@example.org")
    services.invite_member(make.authority_of(owner), email=user.email, role=Role.MEMBER)
    response = client.post("/login/", {"email": "Ann@Example.ORG ", "password": make.PASSWORD})
    assert (response.status_code, response["Location"]) == (302, "/")
    assert Membership.objects.get(user=user).state == Membership.State.ACTIVE
    assert client.get("/")["Location"] == "/o/joined/"
    assert platform_events() == ["accounts.signed_in"]


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ("/o/x/documents/?q=1", "/o/x/documents/?q=1"),
        ("https://evil.test/", "/"),
        ("//evil.test", "/"),
        ("javascript:alert(1)", "/"),
        ("/\\evil.test", "/"),
        ("", "/"),
    ],
)
def test_next_never_leads_to_another_site(client: Client, wanted: str, given: str) -> None:
    """After signing in, and when signed in already."""
    user = make.make_user()
    assert sign_in(client, user, next=wanted)["Location"] == given
    assert client.get("/login/", {"next": wanted})["Location"] == given


def test_a_wrong_password_says_no_more_than_an_unknown_e_mail(client: Client) -> None:
    """One sentence for wrong, unknown and deactivated; the e-mail stands beside the event, not in
    it.
    """
    user, gone = make.make_user("here@example.org"), make.make_user("gone@example.org")
    User.objects.filter(pk=gone.pk).update(is_active=False)
    bodies = set()
    for email, password in (
        ("here@example.org", "wrong"),
        ("none@example.org", make.PASSWORD),
        ("gone@example.org", make.PASSWORD),
    ):
        response = client.post("/login/", {"email": email, "password": password})
        assert response.status_code == 200
        text = response.content.decode().replace(email, "EMAIL")
        bodies.add(re.sub(r'csrfmiddlewaretoken" value="[^"]+"', "", text))
    assert len(bodies) == 1
    assert "match" in bodies.pop()
    assert platform_events() == ["accounts.sign_in_failed"] * 3
    assert "example.org" not in str(list(AuditEvent.objects.values("data")))
    assert "here@example.org" in str(list(AuditPersonal.objects.values("data")))
    assert client.get("/")["Location"] == "/login/"
    assert user.is_active


def test_ten_failures_close_the_door_for_a_while(client: Client) -> None:
    """The eleventh attempt is refused with a time, the right password too; other people aren't held
    up.
    """
    user, other = make.make_user(), make.make_user()
    for _ in range(10):
        assert sign_in(client, user, "wrong").status_code == 200
    for password in ("wrong", make.PASSWORD):
        response = sign_in(client, user, password)
        assert response.status_code == 429
        assert response["Retry-After"]
        assert re.search(r"\d\d:\d\d UTC", response.content.decode())
    assert len(platform_events()) == 10
    assert sign_in(client, other).status_code == 302


def test_signing_in_resets_the_count(client: Client) -> None:
    """Nine failures, a success, nine failures: still open."""
    user = make.make_user()
    for _ in range(2):
        for _ in range(9):
            assert sign_in(client, user, "wrong").status_code == 200
        assert sign_in(client, user).status_code == 302
        client.post("/logout/")


def test_k16_signing_out_ends_the_session_for_every_door(client: Client) -> None:
    """K16: the session's row is gone, so a socket that asks again finds nobody; GET signs nobody
    out.
    """
    user = make.make_user()
    make.make_member(make.make_organization("left"), user=user)
    sign_in(client, user)
    assert Session.objects.count() == 1
    assert client.get("/logout/").status_code == 405
    assert Session.objects.count() == 1
    response = client.post("/logout/")
    assert (response.status_code, response["Location"]) == (302, "/login/")
    assert Session.objects.count() == 0
    assert client.get("/o/left/api/v1/me/").status_code == 401
    assert platform_events() == ["accounts.signed_in", "accounts.signed_out"]


def test_the_forms_refuse_what_is_not_posted_from_them() -> None:
    """CSRF is enforced on signing in and out."""
    client = Client(enforce_csrf_checks=True)
    user = make.make_user()
    assert sign_in(client, user).status_code == 403
    client.force_login(user)
    assert client.post("/logout/").status_code == 403


def test_a_set_password_link_works_once(client: Client) -> None:
    """A weak password is refused, a good one is set, the link is then dead; dead links all say the
    same.
    """
    owner = make.make_member(make.make_organization("inviting"), role=Role.OWNER)
    path = services.invite_member(
        make.authority_of(owner), email="new@example.org", role=Role.MEMBER
    ).path
    assert "10 characters" in client.post(path, {"password": "short"}).content.decode()
    response = client.post(path, {"password": "a new long password"})
    assert (response.status_code, response["Location"]) == (302, "/login/")
    user = User.objects.get(email="new@example.org")
    assert user.check_password("a new long password")
    client.get("/login/")  # shows the message once
    bodies = set()
    for link in (path, "/set-password/AAAA/x-y/", "/set-password/%00/x/", "/set-password/!/x/"):
        response = client.post(link, {"password": "another long password"})
        assert response.status_code == 200
        bodies.add(re.sub(r'csrfmiddlewaretoken" value="[^"]+"', "", response.content.decode()))
    assert len(bodies) == 1
    assert "has been used" in bodies.pop()
    user.refresh_from_db()
    assert user.check_password("a new long password")
    assert platform_events() == ["accounts.password_set"]


def test_a_link_of_one_organisation_never_opens_an_account_of_another(client: Client) -> None:
    """A person invited by A and not yet joined can't be taken over by an admin of B inviting them
    too.
    """
    links = []
    for slug in ("first", "second"):
        owner = make.make_member(make.make_organization(slug), role=Role.OWNER)
        links.append(
            services.invite_member(
                make.authority_of(owner), email="shared@example.org", role=Role.ADMIN
            ).path
        )
    password = {"password": "a new long password"}
    assert client.post(links[1], password).status_code == 200
    assert client.post(links[0], password).status_code == 302


def test_health(client: Client) -> None:
    """200 with both parts answering, 503 naming the one that doesn't; no sign-in, no session."""
    response = client.get("/healthz")
    assert response.status_code == 200
    assert response.json() == {"status": "ok", "database": "ok", "valkey": "ok"}
    dead = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": "redis://127.0.0.1:1/0",
        }
    }
    with override_settings(CACHES=dead):
        response = client.get("/healthz")
        assert response.status_code == 503
        assert response.json() == {
            "status": "unavailable",
            "database": "ok",
            "valkey": "unavailable",
        }
        assert sign_in(client, make.make_user()).status_code == 503


def test_the_operators_commands() -> None:
    """An organisation with a new owner, who gets a link; a link for a known person; refusals in a
    sentence.
    """
    out = io.StringIO()
    call_command(
        "create_organization", "acme", "--name", "Acme", "--owner", "Boss@Acme.org", stdout=out
    )
    organization = Organization.objects.get(slug="acme")
    assert Membership.objects.get(organization=organization).user.email == "boss@acme.org"
    assert "/set-password/" in out.getvalue()
    with pytest.raises(CommandError):
        call_command("create_organization", "acme", "--name", "A", "--owner", "x@acme.org")
    out = io.StringIO()
    call_command("password_link", "boss@acme.org", stdout=out)
    assert out.getvalue().startswith("/set-password/")
    with pytest.raises(CommandError):
        call_command("password_link", "nobody@acme.org")
