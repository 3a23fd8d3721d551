"""Reading fails closed: the view of the source, an allowed tool, one's own account; each time."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import uuid4

import pytest

from accounts.authority import Authority, Channel, Narrowing, from_user_id
from accounts.models import Membership
from accounts.permissions import Verb, delete_grant
from audit.models import AuditEvent
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Denied, KaizenError, Missing
from retrieval.live import reads
from retrieval.live.accounts import connect_account, disconnect_account
from retrieval.live.reads import Read, find_result, forget_results, read_live_source
from retrieval.live.sources import allow_tools, ask_for_tools
from retrieval.models import LiveResult, LiveSource, MemberCredential
from retrieval.sources import archive_source
from tests import factories
from tests.retrieval.live.conftest import ADA, BOB, Scene
from tests.retrieval.live.server import CLOSE_TICKET, SEARCH_TICKETS, endless
from tests.websites import Asked, Served


def text_of(authority: Authority, read: Read) -> str:
    """What a read brought, as its reader may see it now; "" when nothing may be seen."""
    assert read.result_id is not None, read.failure
    found = find_result(authority, source_id=read.source_id, result_id=read.result_id)
    return found.text if found else ""


def refused(scene: Scene, authority: Authority, **arguments: Any) -> KaizenError:
    """Reading is refused before the server hears of it."""
    heard = len(scene.server.site.asked)
    with pytest.raises((Missing, Denied)) as raised:
        scene.read(authority, **arguments)
    assert len(scene.server.site.asked) == heard
    return raised.value


# --- under one's own account


def test_each_member_reads_with_their_own_token_and_sees_their_own_rows(connected: Scene) -> None:
    ada = connected.read(connected.as_ada, query="asks")
    assert connected.server.tokens() == {f"Bearer {ADA}"}
    connected.server.site.asked.clear()
    bob = connected.read(connected.as_bob, query="asks")
    assert connected.server.tokens() == {f"Bearer {BOB}"}
    assert text_of(connected.as_ada, ada) == '{"error":false,"text":"Ada asks for a chair"}'
    assert text_of(connected.as_bob, bob) == '{"error":false,"text":"Bob asks for a desk"}'


def test_nobody_sees_what_another_read(connected: Scene) -> None:
    ada = connected.read(connected.as_ada, query="asks")
    assert text_of(connected.as_bob, ada) == ""
    assert text_of(connected.as_admin, ada) == ""
    elsewhere = factories.authority_of(factories.make_member(factories.make_organization()))
    assert text_of(elsewhere, ada) == ""
    assert "Ada asks" in text_of(connected.as_ada, ada)  # the positive control


def test_without_an_account_reading_is_denied_and_says_where_to_connect(scene: Scene) -> None:
    """Although the admin is connected, and Bob too: nobody else's account stands in."""
    connect_account(scene.as_bob, source_id=scene.source.pk, token=BOB)
    error = refused(scene, scene.as_ada)
    assert error.code == "not_connected"
    assert error.message == (
        "You haven't connected an account at “Tickets” yet. Connect one under Sources, Connected "
        "accounts; nobody else's is ever used."
    )


def test_a_token_that_no_key_opens_any_more_is_as_none(connected: Scene, settings: Any) -> None:
    settings.KAIZEN_FIELD_KEYS = ["cHJvYmUtcHJvYmUtcHJvYmUtcHJvYmUtcHJvYmUtMTI="]
    assert refused(connected, connected.as_ada).code == "not_connected"
    disconnect_account(connected.as_ada, source_id=connected.source.pk)


def test_a_person_in_two_organisations_has_two_accounts(connected: Scene) -> None:
    other = factories.make_organization()
    there = factories.make_member(other, user=connected.ada.user)
    source = factories.make_source(other, name="Tickets")
    factories.grant(there, Verb.VIEW, source)
    live = LiveSource.objects.create(organization=other, source=source, url=connected.server.url)
    live.tools.create(
        organization=other, name="search_tickets", allowed=True, schema={}, digest="d"
    )
    assert refused(connected, factories.authority_of(there)).code == "not_connected"


# --- the view of the source, now


def test_without_a_grant_there_is_no_such_source(connected: Scene) -> None:
    stranger = factories.make_member(connected.organization)
    error = refused(connected, factories.authority_of(stranger))
    unknown = pytest.raises(Missing, match="There is no live source of that name or id")
    with unknown as raised:
        read_live_source(connected.as_ada, source="No such", tool="search_tickets", arguments={})
    assert error.message == raised.value.message
    assert isinstance(error, Missing)


def test_a_revoked_grant_holds_in_the_very_next_call_and_for_what_was_read(
    connected: Scene,
) -> None:
    read = connected.read(connected.as_ada, query="asks")
    delete_grant(connected.ada.user, Verb.VIEW, connected.source)
    assert isinstance(refused(connected, connected.as_ada), Missing)
    assert text_of(connected.as_ada, read) == ""
    factories.grant(connected.ada, Verb.VIEW, connected.source)
    assert "chair" in text_of(connected.as_ada, read)


def test_a_member_who_lost_their_place_reads_nothing(connected: Scene) -> None:
    """Before: no authority is made. With one made earlier: the relation knows."""
    before = connected.as_ada
    Membership.objects.filter(pk=connected.ada.pk).update(state=Membership.State.SUSPENDED)
    with pytest.raises(Missing):
        from_user_id(
            connected.ada.user_id,
            organization_id=connected.organization.pk,
            channel=Channel.RUN,
        )
    assert isinstance(refused(connected, before), Missing)


def test_an_archived_source_is_nobodys(connected: Scene) -> None:
    archive_source(connected.as_admin, source=connected.source)
    assert isinstance(refused(connected, connected.as_ada), Missing)


def test_an_agent_reads_only_within_its_sources(connected: Scene) -> None:
    """Attaching narrows: the run's sources hold for live ones too."""
    other = factories.make_source(connected.organization)
    outside = connected.as_ada.narrowed(Narrowing(source_keys=frozenset({other.key})))
    assert isinstance(refused(connected, outside), Missing)
    inside = connected.as_ada.narrowed(Narrowing(source_keys=frozenset({connected.source.key})))
    assert "chair" in text_of(inside, connected.read(inside, query="chair"))


def test_ids_of_another_organisation_are_unknown_ones(connected: Scene) -> None:
    other = factories.make_organization()
    them = factories.authority_of(factories.make_member(other))
    sentences = set()
    for source in (str(connected.source.pk), str(uuid4()), "Tickets"):
        with pytest.raises(Missing) as raised:
            read_live_source(them, source=source, tool="search_tickets", arguments={})
        sentences.add(raised.value.message)
    assert len(sentences) == 1
    with pytest.raises(Missing):
        connect_account(them, source_id=connected.source.pk, token=ADA)
    with pytest.raises(Missing):
        ask_for_tools(
            factories.authority_of(factories.make_member(other, role="admin")), live=connected.live
        )


def test_a_plain_source_is_no_live_source(connected: Scene) -> None:
    plain = factories.make_source(connected.organization, name="Plain")
    factories.grant(connected.ada, Verb.VIEW, plain)
    for name in ("Plain", str(plain.pk)):
        with pytest.raises(Missing):
            read_live_source(connected.as_ada, source=name, tool="x", arguments={})


# --- the allowed tool, unchanged


def test_a_tool_nobody_allowed_is_refused(connected: Scene) -> None:
    assert refused(connected, connected.as_ada, tool="close_ticket").code == "tool_not_allowed"
    assert refused(connected, connected.as_ada, tool="unknown").code == "tool_not_allowed"
    allow_tools(connected.as_admin, live=connected.live, names=["close_ticket"])
    assert refused(connected, connected.as_ada).code == "tool_not_allowed"
    assert connected.read(connected.as_ada, tool="close_ticket", id="7").failure == ""


@pytest.mark.parametrize(
    ("now_offered", "sentence"),
    [
        (
            {**SEARCH_TICKETS, "annotations": {"readOnlyHint": False}},
            "declares this tool otherwise",
        ),
        ({**SEARCH_TICKETS, "inputSchema": {"type": "object"}}, "declares this tool otherwise"),
        (CLOSE_TICKET, "doesn't offer this tool"),
    ],
    ids=["no longer read-only", "other arguments", "gone"],
)
def test_a_tool_that_changed_since_it_was_allowed_is_not_called(
    connected: Scene, now_offered: dict[str, Any], sentence: str
) -> None:
    connected.server.tools = [now_offered]
    read = connected.read(connected.as_ada)
    assert sentence in read.failure
    assert read.result_id is None
    assert connected.server.calls == []


# --- what went wrong outside


def test_a_server_that_is_down_is_said_plainly_and_kept_with_the_account(
    connected: Scene, settings: Any
) -> None:
    settings.EGRESS_ALLOW = ("127.0.0.1:9",)
    LiveSource.objects.update(url="http://127.0.0.1:9/mcp")
    read = connected.read(connected.as_ada)
    assert read.failure == "127.0.0.1 can't be reached just now."
    mine = MemberCredential.objects.get(membership=connected.ada)
    assert mine.last_error == read.failure
    assert mine.last_used_at is not None
    assert MemberCredential.objects.get(membership=connected.bob).last_error == ""


def test_an_address_that_turned_inwards_is_refused_without_a_reason(
    connected: Scene, settings: Any
) -> None:
    settings.EGRESS_ALLOW = ()
    LiveSource.objects.update(url="https://127.0.0.1:1/mcp")
    read = connected.read(connected.as_ada)
    assert read.failure == (
        "Kaizen may not connect to this source's address. Ask an administrator."
    )


def test_a_refused_token_asks_for_a_new_one(connected: Scene) -> None:
    del connected.server.rows[ADA]
    assert connected.read(connected.as_ada).failure == (
        "127.0.0.1 refuses your account. Connect it again, with a token that may read there."
    )
    assert connected.read(connected.as_bob, query="desk").failure == ""


def test_a_server_that_never_ends_costs_no_more_than_the_deadline(
    connected: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "READING_SECONDS", 1.0)

    def never(asked: Asked, message: dict[str, Any]) -> Served:
        return endless(b": wait\n\n", "text/event-stream", lambda: time.sleep(0.05))

    connected.server.instead["tools/call"] = never
    began = time.monotonic()
    assert "takes too long to answer" in connected.read(connected.as_ada).failure
    assert time.monotonic() - began < 5
    assert LiveResult.objects.count() == 0


def test_an_answer_for_an_account_that_was_disconnected_meanwhile_is_dropped(
    connected: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = reads._prepare

    def prepare_then_lose(authority: Authority, **asked: Any) -> Any:
        found = prepare(authority, **asked)
        disconnect_account(authority, source_id=connected.source.pk)
        return found

    monkeypatch.setattr(reads, "_prepare", prepare_then_lose)
    read = connected.read(connected.as_ada)
    assert read.result_id is None
    assert "haven't connected" in read.failure
    assert LiveResult.objects.count() == 0


# --- what is kept and written down


def test_every_read_that_went_out_is_audited_with_a_digest_of_its_arguments(
    connected: Scene,
) -> None:
    connected.read(connected.as_ada, query="secret words")
    del connected.server.rows[BOB]
    connected.read(connected.as_bob, query="secret words")
    first, second = AuditEvent.objects.filter(action="retrieval.live_read").order_by("at", "id")
    asked = {
        "tool": "search_tickets",
        "arguments": sha256(b'{"query":"secret words"}').hexdigest(),
        "characters": 0,
    }
    assert first.data == {**asked, "outcome": "ok"}
    assert second.data == {**asked, "outcome": "token_refused"}
    assert first.actor_id == connected.ada.user.public_id
    assert (first.object_type, first.object_id) == ("source", str(connected.source.pk))
    assert "secret words" not in str(first.data) + str(second.data)


def test_what_was_read_is_encrypted_and_goes_with_its_time_or_its_account(
    connected: Scene,
) -> None:
    read = connected.read(connected.as_ada, query="chair")
    raw = LiveResult.objects.raw("SELECT id, text AS stored FROM retrieval_liveresult")
    assert all("chair" not in row.stored for row in raw)
    again = connected.read(connected.as_ada, query="chair")
    assert again.result_id == read.result_id  # Equal text is the same row.
    LiveResult.objects.update(kept_until=now() - timedelta(seconds=1))
    assert text_of(connected.as_ada, read) == ""
    assert forget_results() == 1
    connected.read(connected.as_ada, query="chair")
    connected.read(connected.as_bob, query="desk")
    disconnect_account(connected.as_ada, source_id=connected.source.pk)
    assert LiveResult.objects.get().credential.membership == connected.bob


def test_no_token_is_ever_logged(connected: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    connected.read(connected.as_ada)
    del connected.server.rows[ADA]
    connected.read(connected.as_ada)
    assert ADA not in caplog.text
