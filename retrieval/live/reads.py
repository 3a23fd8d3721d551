"""Reading a live source, as the one who asks: the only way to a server's tools.

Promises: needs the view of the source now, a tool an admin allowed and the server still declares
the same, and the caller's own account; nobody else's stands in. Every read that went out is
audited, however it ended. No transaction of ours is open while the server answers. Not for: what
changes anything outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from accounts.authority import Authority
from audit.record import record
from kaizen.kernel.clock import now
from kaizen.kernel.egress import Refused
from kaizen.kernel.errors import Denied, KaizenError, Missing, Unavailable
from kaizen.kernel.models import exact_json
from kaizen.kernel.tenancy import scope
from retrieval.live.accounts import (
    NOT_CONNECTED,
    get_credential,
    get_live_source,
    visible_live_sources,
)
from retrieval.live.answers import Answer, bounded, read_answer
from retrieval.live.client import Session, session
from retrieval.live.offers import Offer
from retrieval.live.wire import RemoteFault
from retrieval.models import LiveResult, LiveSource, LiveTool, MemberCredential

READING_SECONDS = 15.0
KEPT = timedelta(hours=2)
NO_SOURCE = "There is no live source of that name or id that this member may read."


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A read that went out. `result_id` is None when nothing came back; `failure` then says why."""

    source_id: UUID
    tool: str
    result_id: UUID | None = None
    digest: str = ""
    characters: int = 0
    is_empty: bool = True
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    live: LiveSource
    tool: LiveTool
    credential: MemberCredential
    asked: dict[str, Any]  # What the audit says of it, outcome aside.


def read_live_source(
    authority: Authority, *, source: str, tool: str, arguments: Mapping[str, Any]
) -> Read:
    """Call one allowed tool of a live source under the caller's own account.

    Raises, before anything is sent: Missing for a source the caller may not see, Denied for a tool
    that isn't allowed or without an account. What goes wrong from there on is in `failure`.
    """
    with scope(authority):
        prepared = _prepare(authority, source=source, tool=tool, arguments=arguments)
    live = prepared.live
    protocol = live.protocol
    try:
        with session(
            live.url,
            token=prepared.credential.token,
            seconds=READING_SECONDS,
            protocol=live.protocol,
        ) as server:
            answer = _ask(server, prepared.tool, arguments)
            protocol = server.protocol
    except KaizenError as error:
        with scope(authority):
            return _note_failure(authority, prepared, error)
    with scope(authority):
        if protocol != live.protocol:
            LiveSource.objects.filter(pk=live.pk).update(protocol=protocol)
        return _keep(authority, prepared, answer)


def find_result(authority: Authority, *, source_id: UUID, result_id: UUID) -> LiveResult | None:
    """What a read of the caller's brought, while it is kept, the source is visible to them and
    their account is connected.
    """
    found: LiveResult | None = (
        LiveResult.objects.filter(
            organization_id=authority.organization_id,
            pk=result_id,
            kept_until__gt=now(),
            credential__membership_id=authority.membership_id,
            credential__live_source__in=visible_live_sources(authority).order_by(),
            credential__live_source__source_id=source_id,
        )
        .select_related("credential__live_source__source")
        .defer("credential__token")
        .first()
    )
    return found


def forget_results() -> int:
    """Remove what is kept no longer, of all organisations. Returns how many."""
    return LiveResult.objects.filter(kept_until__lte=now()).delete()[0]


def _prepare(
    authority: Authority, *, source: str, tool: str, arguments: Mapping[str, Any]
) -> _Prepared:
    """Everything that must hold before anything is sent."""
    live = _find_source(authority, source)
    allowed = LiveTool.objects.filter(live_source=live, name=tool, allowed=True).first()
    if allowed is None:
        raise Denied(
            f"“{live.source.name}” may not be read with a tool of that name. `live_sources` names "
            "those it may be read with.",
            code="tool_not_allowed",
        )
    return _Prepared(
        live=live,
        tool=allowed,
        credential=get_credential(authority, live),
        asked={"tool": allowed.name, "arguments": _digest(exact_json(dict(arguments)))},
    )


def _find_source(authority: Authority, source: str) -> LiveSource:
    """The live source by its id or its exact name. Raises Missing with one sentence for all."""
    wanted = source.strip()
    try:
        return get_live_source(authority, wanted)
    except Missing:
        named = visible_live_sources(authority).filter(source__name=wanted).first()
    if named is None:
        raise Missing(NO_SOURCE)
    return named


def _ask(server: Session, tool: LiveTool, arguments: Mapping[str, Any]) -> Answer:
    """Make sure that the tool is what was allowed, then call it. Raises KaizenError."""
    try:
        offers = server.list_offers(until=tool.name)
    except RemoteFault:
        raise Unavailable(f"{server.host} doesn't list its tools.", code="no_tools") from None
    _check_unchanged(tool, {offer.name: offer for offer in offers})
    offer = next(offer for offer in offers if offer.name == tool.name)
    try:
        return read_answer(server.call(offer, arguments), host=server.host)
    except RemoteFault as fault:
        text = fault.message or "The server refused the call without saying why."
        return Answer(text=bounded(text, most=2_000), is_error=True)


def _check_unchanged(tool: LiveTool, offers: Mapping[str, Offer]) -> None:
    offer = offers.get(tool.name)
    if offer is None:
        raise Denied("The server doesn't offer this tool to your account.", code="tool_gone")
    if offer.digest != tool.digest:
        raise Denied(
            "The server declares this tool otherwise than when it was allowed. Ask an "
            "administrator to look at it again.",
            code="tool_changed",
        )


def _note_failure(authority: Authority, prepared: _Prepared, error: KaizenError) -> Read:
    """Write a failed read down; the member sees it with their account."""
    sentence = error.message
    if isinstance(error, Refused):
        sentence = "Kaizen may not connect to this source's address. Ask an administrator."
    MemberCredential.objects.filter(pk=prepared.credential.pk).update(
        last_used_at=now(), last_error=sentence[:300]
    )
    _record(authority, prepared, outcome=error.code)
    return Read(source_id=prepared.live.source_id, tool=prepared.tool.name, failure=sentence)


def _keep(authority: Authority, prepared: _Prepared, answer: Answer) -> Read:
    """Keep what came back and write the read down. Locks the account."""
    credential = (
        MemberCredential.objects.select_for_update(no_key=True)
        .defer("token")
        .filter(pk=prepared.credential.pk)
        .first()
    )
    if credential is None:
        # Disconnected while the server answered: what came back is nobody's any more.
        _record(authority, prepared, outcome="disconnected")
        return Read(
            source_id=prepared.live.source_id,
            tool=prepared.tool.name,
            failure=NOT_CONNECTED.format(name=prepared.live.source.name),
        )
    credential.last_used_at, credential.last_error = now(), ""
    credential.save(update_fields=["last_used_at", "last_error"])
    text = exact_json({"error": answer.is_error, "text": answer.text})
    digest = _digest(text)
    LiveResult.objects.filter(credential=credential, kept_until__lte=now()).delete()
    row, _ = LiveResult.objects.update_or_create(
        organization_id=authority.organization_id,
        credential=credential,
        digest=digest,
        defaults={"text": text, "read_at": now(), "kept_until": now() + KEPT},
    )
    _record(
        authority,
        prepared,
        outcome="tool_error" if answer.is_error else "ok",
        characters=len(answer.text),
    )
    return Read(
        source_id=prepared.live.source_id,
        tool=prepared.tool.name,
        result_id=row.pk,
        digest=digest,
        characters=len(answer.text),
        is_empty=answer.is_empty,
    )


def _record(
    authority: Authority, prepared: _Prepared, *, outcome: str, characters: int = 0
) -> None:
    record(
        authority,
        "retrieval.live_read",
        subject=prepared.live.source,
        data={**prepared.asked, "outcome": outcome, "characters": characters},
    )


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
