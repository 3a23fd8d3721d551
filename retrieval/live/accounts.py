"""Members' own accounts at live sources: connecting, trying out, disconnecting, listing.

Promises: a token is found by the asking membership and never by anything else, so nobody reads
under another person's account; it is never shown again; disconnecting removes it and all that was
read with it. Not for: reading (`retrieval.live.reads`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from cryptography.fernet import InvalidToken
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from accounts.authority import Authority
from accounts.relation import parse_id
from audit.record import record
from kaizen.kernel.addresses import Refused
from kaizen.kernel.egress import read_url
from kaizen.kernel.errors import Conflict, Denied, Invalid, KaizenError, Missing
from retrieval.acl import get_source, visible_sources
from retrieval.live.client import session
from retrieval.live.wire import RemoteFault
from retrieval.models import LiveSource, LiveTool, MemberCredential, Source

LONGEST_TOKEN = 4_096
TRYING_SECONDS = 8.0

_TOKEN = re.compile(r"[\x21-\x7e]+")
NOT_CONNECTED = (
    "You haven't connected an account at “{name}” yet. Connect one under Sources, Connected "
    "accounts; nobody else's is ever used."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A live source as a member sees it, with how their own account there stands.

    `name` and `tools` are empty when they may no longer see the source and only their token is
    left.
    """

    source_id: UUID
    name: str
    description: str
    host: str
    tools: tuple[LiveTool, ...]
    connected_at: datetime | None
    last_used_at: datetime | None
    last_error: str

    @property
    def is_visible(self) -> bool:
        return bool(self.name)


def visible_live_sources(authority: Authority) -> QuerySet[LiveSource]:
    """The live sources whose source the caller may view, with it, by name."""
    rows: QuerySet[LiveSource] = LiveSource.objects.filter(
        organization_id=authority.organization_id, source__in=visible_sources(authority)
    )
    return rows.select_related("source").order_by("source__name", "id")


def get_live_source(authority: Authority, source_id: UUID | str) -> LiveSource:
    """The live source of a source. Raises Missing when it is none, or not visible."""
    source = get_source(authority, source_id)
    live: LiveSource | None = (
        LiveSource.objects.for_authority(authority)
        .filter(source=source)
        .select_related("source")
        .first()
    )
    if live is None:
        raise Missing
    return live


def is_live(source: Source) -> bool:
    """Whether a source is asked live and holds no documents."""
    rows = LiveSource.objects.filter(organization_id=source.organization_id, source=source)
    return rows.exists()


def find_credential(authority: Authority, live: LiveSource) -> MemberCredential | None:
    """The caller's own credential, or None."""
    found: MemberCredential | None = _own_credentials(authority).filter(live_source=live).first()
    return found


def get_credential(authority: Authority, live: LiveSource) -> MemberCredential:
    """The caller's own credential. Raises Denied, saying where to connect one, without one or when
    no key opens it any more.
    """
    try:
        credential = find_credential(authority, live)
    except InvalidToken:
        credential = None
    if credential is None:
        raise Denied(NOT_CONNECTED.format(name=live.source.name), code="not_connected")
    return credential


@transaction.atomic
def connect_account(authority: Authority, *, source_id: UUID | str, token: str) -> MemberCredential:
    """Keep the caller's token, in place of an earlier one and what was read with that, and try it.

    What the trial found stands in `last_error`; the token is kept whatever it is. Raises Missing,
    Denied inside a run, Invalid for what can't be a token, Conflict.
    """
    _check_present(authority)
    live = get_live_source(authority, source_id)
    text = _read_token(token)
    trouble = _try(live, text)
    _remove(_own_credentials(authority).filter(live_source=live))
    try:
        with transaction.atomic():
            credential = MemberCredential.objects.create(
                organization_id=authority.organization_id,
                membership_id=authority.membership_id,
                live_source=live,
                token=text,
                last_error=trouble,
            )
    except IntegrityError:
        raise Conflict("This account was connected twice at once. Look, and try again.") from None
    record(authority, "retrieval.account_connected", subject=live.source)
    return credential


@transaction.atomic
def disconnect_account(authority: Authority, *, source_id: UUID | str) -> None:
    """Remove the caller's token and what was read with it; also where the source is no longer
    visible. Raises Missing without one, Denied inside a run.
    """
    _check_present(authority)
    mine = _own_credentials(authority).filter(live_source__source_id=parse_id(source_id))
    removed = _remove(mine)
    if removed is None:
        raise Missing
    record(authority, "retrieval.account_disconnected", subject=removed.live_source.source)


def list_accounts(authority: Authority) -> list[Account]:
    """Every live source the caller may see, then those where only their token is left. Three
    queries.
    """
    visible = list(visible_live_sources(authority))
    mine = {
        row.live_source_id: row
        for row in _own_credentials(authority).defer("token").select_related("live_source")
    }
    tools: dict[UUID, list[LiveTool]] = {}
    for tool in list_allowed_tools(visible):
        tools.setdefault(tool.live_source_id, []).append(tool)
    found = [
        _account(live, mine.pop(live.pk, None), tuple(tools.get(live.pk, ()))) for live in visible
    ]
    left = sorted(mine.values(), key=lambda row: row.created_at)
    return found + [_account(row.live_source, row, (), is_visible=False) for row in left]


def list_allowed_tools(sources: list[LiveSource]) -> QuerySet[LiveTool]:
    """The tools of these that may be read with, by name."""
    rows: QuerySet[LiveTool] = LiveTool.objects.filter(live_source__in=sources, allowed=True)
    return rows.order_by("name")


def _account(
    live: LiveSource,
    credential: MemberCredential | None,
    tools: tuple[LiveTool, ...],
    *,
    is_visible: bool = True,
) -> Account:
    return Account(
        source_id=live.source_id,
        name=live.source.name if is_visible else "",
        description=live.source.description if is_visible else "",
        host=host_of(live),
        tools=tools,
        connected_at=credential.created_at if credential else None,
        last_used_at=credential.last_used_at if credential else None,
        last_error=credential.last_error if credential else "",
    )


def host_of(live: LiveSource) -> str:
    """Where tokens are sent, as a person reads it."""
    return read_url(live.url).authority


def _own_credentials(authority: Authority) -> QuerySet[MemberCredential]:
    rows: QuerySet[MemberCredential] = MemberCredential.objects.filter(
        organization_id=authority.organization_id, membership_id=authority.membership_id
    )
    return rows


def _remove(credentials: QuerySet[MemberCredential]) -> MemberCredential | None:
    """Remove the one credential among `credentials`, locked first, with what was read with it."""
    found: MemberCredential | None = (
        credentials.select_for_update(of=("self",))
        .select_related("live_source__source")
        .defer("token")
        .first()
    )
    if found is not None:
        credentials.filter(pk=found.pk).defer("token").delete()
    return found


def _check_present(authority: Authority) -> None:
    """Raise Denied inside a run: what an agent was told is no member's wish."""
    if authority.narrowing is not None:
        raise Denied("Only a person can connect or disconnect their own account.")


def _read_token(token: str) -> str:
    text = token.strip()
    if text.lower().startswith("bearer "):
        text = text[7:].strip()
    if not text:
        raise Invalid("Paste the token that the other system gave you.", code="no_token")
    if len(text) > LONGEST_TOKEN or not _TOKEN.fullmatch(text):
        raise Invalid(
            "That isn't a token: it holds spaces or characters that none has, or is too long.",
            code="bad_token",
        )
    return text


def _try(live: LiveSource, token: str) -> str:
    """Ask for the server's tools under the token. Returns what went wrong, "" if nothing did."""
    try:
        with session(
            live.url, token=token, seconds=TRYING_SECONDS, protocol=live.protocol
        ) as server:
            server.list_offers()
    except Refused:
        return "Kaizen may not connect to this address. Ask an administrator."
    except RemoteFault:
        return "The server doesn't list its tools to this account."
    except KaizenError as error:
        return error.message[:300]
    return ""
