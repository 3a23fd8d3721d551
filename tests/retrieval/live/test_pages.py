"""The page of connected accounts: what it lists, connecting, disconnecting, and what it never
shows.
"""

from __future__ import annotations

import html
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from accounts.permissions import Verb, delete_grant
from audit.models import AuditEvent
from retrieval.live.accounts import list_accounts
from retrieval.models import LiveResult, LiveSource, MemberCredential
from tests import factories
from tests.retrieval.live.conftest import ADA, ADMIN, BOB, Scene


@pytest.fixture
def ada(scene: Scene, client: Client) -> Client:
    """Ada's browser."""
    client.force_login(scene.ada.user)
    return client


def at(scene: Scene, act: str = "") -> str:
    place = f"{scene.source.pk}/{act}/" if act else ""
    return f"/o/{scene.organization.slug}/live/{place}"


def text_of(response: Any) -> str:
    return html.unescape(response.content.decode())


def test_connecting_tries_the_token_keeps_it_encrypted_and_never_shows_it(
    scene: Scene, ada: Client
) -> None:
    assert "Not connected" in text_of(ada.get(at(scene)))
    response = ada.post(at(scene, "connect"), {"token": f"  Bearer {ADA}\n"}, follow=True)
    page = text_of(response)
    assert "Agents may now read there under your account." in page
    assert "What agents may read there: 1 tool" in page
    assert ADA not in page
    assert scene.server.tokens() == {f"Bearer {ADA}"}
    assert scene.server.calls == []  # Trying lists the tools and calls none.
    with connection.cursor() as cursor:
        cursor.execute("SELECT token FROM retrieval_membercredential")
        assert all(ADA not in token for (token,) in cursor.fetchall())
    event = AuditEvent.objects.filter(action="retrieval.account_connected").latest("at")
    assert (event.actor_id, event.data) == (scene.ada.user.public_id, {})


def test_a_refused_token_is_kept_with_what_went_wrong(scene: Scene, ada: Client) -> None:
    page = text_of(ada.post(at(scene, "connect"), {"token": "wrong"}, follow=True))
    assert "Your token is kept, but trying it failed: 127.0.0.1 refuses your account." in page
    assert "Connected, with trouble" in page
    page = text_of(ada.post(at(scene, "connect"), {"token": ADA}, follow=True))
    assert "Connected, with trouble" not in page
    assert MemberCredential.objects.get(membership=scene.ada).token == ADA


@pytest.mark.parametrize("token", ["", "   ", "two words", "é", "a\x00b", "x" * 5_000])
def test_what_can_be_no_token_is_an_error_beside_its_field(
    scene: Scene, ada: Client, token: str
) -> None:
    response = ada.post(at(scene, "connect"), {"token": token})
    assert response.status_code == 400
    assert f'id="wrong-{scene.source.pk}"' in text_of(response)
    assert not MemberCredential.objects.filter(membership=scene.ada).exists()
    assert scene.server.site.asked == []


def test_disconnecting_removes_the_token_and_what_was_read(connected: Scene, ada: Client) -> None:
    connected.read(connected.as_ada, query="chair")
    connected.read(connected.as_bob, query="desk")
    page = text_of(ada.post(at(connected, "disconnect"), follow=True))
    assert "Your token and what was read with it are removed." in page
    assert not MemberCredential.objects.filter(membership=connected.ada).exists()
    assert LiveResult.objects.get().credential.membership == connected.bob
    assert ada.post(at(connected, "disconnect")).status_code == 404


def test_a_member_touches_nobody_elses_account(connected: Scene, ada: Client) -> None:
    ada.post(at(connected, "connect"), {"token": "another"})
    ada.post(at(connected, "disconnect"))
    tokens = MemberCredential.objects.order_by("created_at").values_list("token", flat=True)
    assert set(tokens) == {ADMIN, BOB}


def test_what_one_may_not_see_is_not_there(scene: Scene, client: Client) -> None:
    client.force_login(factories.make_member(scene.organization).user)
    assert "Tickets" not in text_of(client.get(at(scene)))
    for act in ("connect", "disconnect"):
        assert client.post(at(scene, act), {"token": ADA}).status_code == 404
    assert scene.server.site.asked == []


def test_a_token_can_be_removed_after_the_source_was_revoked_and_not_replaced(
    connected: Scene, ada: Client
) -> None:
    delete_grant(connected.ada.user, Verb.VIEW, connected.source)
    page = text_of(ada.get(at(connected)))
    assert "You may no longer see this source" in page
    assert "Tickets" not in page
    assert ada.post(at(connected, "connect"), {"token": ADA}).status_code == 404
    assert ada.post(at(connected, "disconnect")).status_code == 302
    assert "You may no longer see this source" not in text_of(ada.get(at(connected)))


def test_a_plain_source_can_not_be_connected(scene: Scene, ada: Client) -> None:
    plain = factories.make_source(scene.organization)
    factories.grant(scene.ada, Verb.VIEW, plain)
    address = f"/o/{scene.organization.slug}/live/{plain.pk}/connect/"
    assert ada.post(address, {"token": ADA}).status_code == 404


def test_words_of_the_server_are_text_on_the_page(scene: Scene, ada: Client) -> None:
    scene.live.tools.filter(name="search_tickets").update(
        title="<script>alert(1)</script>", description="<img src=x onerror=alert(1)>"
    )
    page = ada.get(at(scene)).content.decode()
    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page
    assert "&lt;script&gt;" in page


def test_the_list_costs_three_queries_however_many_there_are(
    scene: Scene, django_assert_num_queries: Any
) -> None:
    for _ in range(3):
        source = factories.make_source(scene.organization)
        factories.grant(scene.ada, Verb.VIEW, source)
        LiveSource.objects.create(
            organization=scene.organization, source=source, url="https://example.org/mcp"
        )
    authority = scene.as_ada
    list_accounts(authority)
    with django_assert_num_queries(3):
        assert len(list_accounts(authority)) == 4


def test_it_stands_among_the_sources_by_itself_without_documents(
    connected: Scene, ada: Client
) -> None:
    sources = f"/o/{connected.organization.slug}/sources/"
    response = ada.get(sources)
    assert response.context["sources"] == []
    assert [account.name for account in response.context["live"]] == ["Tickets"]
    assert "Live: searched by agents under your own account" in text_of(response)
    own = ada.get(f"{sources}{connected.source.pk}/")
    assert own.headers["Location"] == f"{at(connected)}#source-{connected.source.pk}"
    delete_grant(connected.ada.user, Verb.VIEW, connected.source)
    after = ada.get(sources)
    assert after.context["live"] == []
    assert "Tickets" not in text_of(after)
    assert "Connected accounts" in text_of(after)  # Her token can still be removed there.
