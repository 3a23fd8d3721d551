"""Connections in the admin: choosing, the typed form, checking, health, actions."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.test import Client

from audit.models import AuditEvent
from kaizen.kernel.errors import Conflict, Denied, Missing
from retrieval.connectors.connections import create_connection, pause, update_connection
from retrieval.connectors.contract import AclUnknown, ConnectorError
from retrieval.models import Connection
from tests import factories
from tests.retrieval.conftest import Library
from tests.retrieval.connectors.connected import Connected
from tests.retrieval.connectors.upstream import SYSTEMS, Upstream, UpstreamConfig

pytestmark = pytest.mark.django_db
TIMING = {"interval_minutes": "60", "requests_a_minute": "0"}


@pytest.fixture
def page(client: Client, library: Library, with_test_connectors: None) -> Client:
    """Signed in as the library's owner."""
    client.force_login(library.owner.user)
    return client


def base(library: Library) -> str:
    return f"/o/{library.organization.slug}/admin/retrieval/connection/"


def text_of(response: Any) -> str:
    return html.unescape(response.content.decode())


def act(page: Client, connected: Connected, action: str, **more: str) -> str:
    """Press a button of a connection's page; the page that follows."""
    response = page.post(
        base(connected.library),
        {"action": action, "_selected_action": str(connected.connection.pk), "index": "0", **more},
        follow=True,
    )
    assert response.status_code == 200
    return text_of(response)


def test_adding_begins_with_the_choice_of_a_connector(page: Client, library: Library) -> None:
    shown = text_of(page.get(f"{base(library)}add/"))
    assert 'href="?connector=upstream"' in shown
    assert 'href="?connector=folder"' in shown
    assert "Brings the rights of the other side with it." in shown


def test_an_unknown_connector_leads_to_the_choice(page: Client, library: Library) -> None:
    assert "What should be connected?" in text_of(page.get(f"{base(library)}add/?connector=nope"))


def test_the_form_has_the_fields_of_the_connectors_configuration(
    page: Client, library: Library
) -> None:
    shown = text_of(page.get(f"{base(library)}add/?connector=folder"))
    inputs = re.findall(r'<(input|select|textarea)[^>]* name="(config_\w+)"', shown)
    assert inputs == [
        ("select", "config_place"),
        ("input", "config_folder"),
        ("input", "config_bucket"),
        ("input", "config_endpoint"),
        ("input", "config_region"),
        ("input", "config_access_key"),
        ("input", "config_secret_key"),
        ("input", "config_prefix"),
        ("textarea", "config_skip"),
    ]
    assert "It must lie below one that the operator allows." in shown
    assert "Thumbs.db\ndesktop.ini" in shown


def test_saving_connects_the_source_and_keeps_the_secret_secret(
    page: Client, library: Library
) -> None:
    SYSTEMS["admin"] = Upstream()
    secret = "token-canary-0123"
    response = page.post(
        f"{base(library)}add/?connector=upstream",
        {
            "source": str(library.source.pk),
            "config_system": "admin",
            "config_token": secret,
            **TIMING,
        },
    )
    assert response.status_code == 302
    connection = Connection.objects.get(source=library.source)
    assert connection.config == {"system": "admin"}
    assert connection.secrets == f'{{"token": "{secret}"}}'
    address = f"{base(library)}{connection.pk}/change/"
    for shown in (address, base(library), address.replace("change", "history")):
        assert secret not in text_of(page.get(shown))
    assert "Unchanged unless filled in." in text_of(page.get(address))
    assert secret not in str(list(AuditEvent.objects.values()))


def test_an_empty_secret_keeps_the_present_one_and_forgetting_removes_it(
    page: Client, library: Library
) -> None:
    connection = _connect_with_token(library)
    address = f"{base(library)}{connection.pk}/change/"
    fields = {"config_system": "admin", "config_token": "", **TIMING, "interval_minutes": "5"}
    assert page.post(address, fields).status_code == 302
    connection.refresh_from_db()
    assert (connection.interval_minutes, connection.secrets) == (5, '{"token": "abc"}')
    assert page.post(address, {**fields, "forget_token": "on"}).status_code == 302
    connection.refresh_from_db()
    assert connection.secrets == ""


def _connect_with_token(library: Library) -> Connection:
    SYSTEMS["admin"] = Upstream()
    return create_connection(
        library.as_owner,
        source=library.source,
        connector="upstream",
        config=UpstreamConfig(system="admin", token="abc"),  # type: ignore[arg-type]
    )


def test_what_pydantic_refuses_is_shown_at_its_field(
    page: Client, library: Library, settings: Any
) -> None:
    settings.KAIZEN_FOLDER_ROOTS = ()
    response = page.post(
        f"{base(library)}add/?connector=folder",
        {
            "source": str(library.source.pk),
            "config_place": "folder",
            "config_folder": "/etc",
            **TIMING,
        },
    )
    assert response.status_code == 200
    errors = response.context["adminform"].form.errors
    assert errors == {
        "config_folder": [
            "This folder isn't below one that the operator allows (KAIZEN_FOLDER_ROOTS)."
        ]
    }
    assert not Connection.objects.exists()


def test_a_source_is_connected_once(page: Client, connected: Connected) -> None:
    response = page.post(
        f"{base(connected.library)}add/?connector=upstream",
        {"source": str(connected.library.source.pk), "config_system": "x", **TIMING},
    )
    assert response.status_code == 200
    assert "source" in response.context["adminform"].form.errors
    with pytest.raises(Conflict):
        create_connection(
            connected.library.as_owner,
            source=connected.library.source,
            connector="upstream",
            config=UpstreamConfig(system="x"),
        )


def test_checking_says_what_happened(page: Client, connected: Connected) -> None:
    assert "It can be read." in act(page, connected, "try_out")
    connected.system.list_errors = [ConnectorError("The door is locked.")]
    assert "The door is locked." in act(page, connected, "try_out")
    events = AuditEvent.objects.filter(action="retrieval.connection_checked").order_by("at")
    assert [event.data for event in events] == [{"works": True}, {"works": False}]


def test_the_page_of_a_connection_shows_its_syncs_and_troubles(
    page: Client, connected: Connected
) -> None:
    connected.system.put("fine")
    connected.system.put("locked")
    connected.system.fetch_errors["locked"] = ConnectorError("It is locked by its owner.")
    connected.sync()
    shown = text_of(page.get(f"{base(connected.library)}{connected.connection.pk}/change/"))
    assert "It is locked by its owner." in shown
    assert "1 item couldn't be taken over" in shown
    assert "succeeded" in shown


def test_the_page_says_that_a_source_is_hidden(page: Client, mirrored: Connected) -> None:
    mirrored.system.list_errors = [AclUnknown("The directory doesn't answer.")]
    mirrored.sync()
    shown = text_of(page.get(f"{base(mirrored.library)}{mirrored.connection.pk}/change/"))
    assert "The directory doesn't answer." in shown
    assert "nobody sees anything of this source" in shown


def test_pausing_and_resuming(page: Client, connected: Connected) -> None:
    act(page, connected, "pause")
    connected.connection.refresh_from_db()
    assert connected.connection.state == Connection.State.PAUSED
    shown = act(page, connected, "resume", **{"from": "page"})
    assert "It goes on." in shown
    connected.connection.refresh_from_db()
    assert connected.connection.state == Connection.State.ACTIVE


def test_deleting_documents_with_the_connection_is_asked_once_more(
    page: Client, connected: Connected
) -> None:
    shown = act(page, connected, "delete_with_documents")
    assert "every document that they brought in is deleted" in shown
    connected.connection.refresh_from_db()
    assert connected.connection.state == Connection.State.ACTIVE
    act(page, connected, "delete_with_documents", confirmed="yes")
    connected.connection.refresh_from_db()
    assert connected.connection.state == Connection.State.ENDING


def test_deleting_a_connection_disconnects(page: Client, connected: Connected) -> None:
    connected.system.put("a")
    connected.sync()
    address = f"{base(connected.library)}{connected.connection.pk}/delete/"
    assert page.get(address).status_code == 200
    assert page.post(address, {"post": "yes"}).status_code == 302
    assert not Connection.objects.exists()
    assert connected.names() == ["a"]
    assert AuditEvent.objects.filter(action="retrieval.connection_removed").count() == 1


def test_a_connection_whose_connector_is_gone_can_still_be_looked_at(
    page: Client, connected: Connected
) -> None:
    Connection.objects.update(connector="gone")
    shown = text_of(page.get(f"{base(connected.library)}{connected.connection.pk}/change/"))
    assert "The connector “gone” isn't installed." in shown


def test_a_member_may_not_touch_connections(connected: Connected) -> None:
    member = connected.library.as_member
    with pytest.raises(Denied):
        pause(member, connection=connected.connection)
    with pytest.raises(Denied):
        update_connection(member, connection=connected.connection, interval_minutes=5)
    connected.connection.refresh_from_db()
    assert connected.connection.state == Connection.State.ACTIVE


def test_another_organisations_connection_is_not_there(connected: Connected) -> None:
    stranger = factories.make_member(factories.make_organization(), role="owner")  # type: ignore[arg-type]
    with pytest.raises(Missing):
        pause(factories.authority_of(stranger), connection=connected.connection)
