"""Setting up live sources: making one, asking its server for tools, deciding which may be read
with.

A live source belongs to a `Source`, so that grants, projects, narrowing of agents and archiving are
the ones every source has. Its address never changes: members trusted that one with their tokens.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.db import transaction

from accounts.authority import Authority, Capability
from accounts.models import Project
from audit.record import record
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Invalid, Missing, Unavailable
from retrieval.live.accounts import find_credential
from retrieval.live.address import check_live_address
from retrieval.live.client import session
from retrieval.live.offers import Offer
from retrieval.live.wire import RemoteFault
from retrieval.models import LiveSource, LiveTool
from retrieval.sources import create_source

ASKING_SECONDS = 10.0
MOST_TOOLS = 200


@transaction.atomic
def create_live_source(
    authority: Authority,
    *,
    name: str,
    url: str,
    description: str = "",
    project: Project | None = None,
) -> LiveSource:
    """A live source with its source, which its maker manages; no tool of it may be used yet.

    Raises Denied without the capability to configure; Invalid, Refused and Unavailable for the
    address; Conflict for a taken name.
    """
    authority.check(Capability.CONFIGURE)
    address = check_live_address(url).url
    source = create_source(authority, name=name, description=description, project=project)
    live = LiveSource.objects.create(
        organization_id=authority.organization_id, source=source, url=address
    )
    record(authority, "retrieval.live_source_created", subject=live)
    return live


@transaction.atomic
def ask_for_tools(authority: Authority, *, live: LiveSource) -> list[LiveTool]:
    """Ask the server what it offers, as the caller: under their own account, or none.

    A tool that is declared otherwise than before may not be used until it is allowed again.
    Raises Denied, Missing, Unavailable, TooLarge.
    """
    live = _own_live_source(authority, live)
    credential = find_credential(authority, live)
    token = credential.token if credential else ""
    with session(live.url, token=token, seconds=ASKING_SECONDS) as server:
        try:
            offers = server.list_offers()[:MOST_TOOLS]
        except RemoteFault:
            raise Unavailable(f"{server.host} doesn't list its tools.", code="no_tools") from None
        live.protocol = server.protocol
    live.asked_at = now()
    live.save(update_fields=["protocol", "asked_at"])
    changed = _store_offers(live, offers)
    record(
        authority,
        "retrieval.live_source_asked",
        subject=live,
        data={"tools": len(offers), "withdrawn": changed},
    )
    return list(live.tools.order_by("name"))


@transaction.atomic
def allow_tools(authority: Authority, *, live: LiveSource, names: Collection[str]) -> None:
    """Make `names` the tools that may be read with; the caller answers for it that they only read.

    Raises Denied, Missing, and Invalid for a tool the server wasn't seen to offer.
    """
    live = _own_live_source(authority, live)
    wanted = set(names)
    tools = {tool.name: tool for tool in live.tools.all()}
    if wanted - set(tools):
        raise Invalid("The server doesn't offer one of these tools. Ask it again.", code="no_tool")
    changed = [tool for tool in tools.values() if tool.allowed != (tool.name in wanted)]
    for tool in changed:
        tool.allowed = tool.name in wanted
        tool.save(update_fields=["allowed"])
    if changed:
        record(
            authority,
            "retrieval.live_source_changed",
            subject=live,
            data={
                "allowed": sorted(wanted),
                # What the server itself doesn't call reading, and a person vouched for.
                "vouched": sorted(name for name in wanted if not tools[name].read_only),
            },
        )


def _own_live_source(authority: Authority, live: LiveSource) -> LiveSource:
    """The live source, locked. Raises Denied without the capability, Missing for a foreign one."""
    authority.check(Capability.CONFIGURE)
    found: LiveSource | None = (
        LiveSource.objects.for_authority(authority)
        .select_for_update(no_key=True, of=("self",))
        .select_related("source")
        .filter(pk=live.pk)
        .first()
    )
    if found is None:
        raise Missing
    return found


def _store_offers(live: LiveSource, offers: list[Offer]) -> list[str]:
    """Write down what is offered now. Returns the allowed tools that aren't any more."""
    known: dict[str, LiveTool] = {tool.name: tool for tool in live.tools.all()}
    withdrawn: list[str] = []
    for offer in offers:
        tool = known.pop(offer.name, None)
        allowed = tool is not None and tool.allowed and tool.digest == offer.digest
        if tool is not None and tool.allowed and not allowed:
            withdrawn.append(offer.name)
        _write(live, offer, tool_id=tool.pk if tool else None, allowed=allowed)
    withdrawn += [tool.name for tool in known.values() if tool.allowed]
    LiveTool.objects.filter(pk__in=[tool.pk for tool in known.values()]).delete()
    return sorted(withdrawn)


def _write(live: LiveSource, offer: Offer, *, tool_id: UUID | None, allowed: bool) -> None:
    values = {
        "title": offer.title,
        "description": offer.description,
        "schema": offer.schema,
        "read_only": offer.read_only,
        "digest": offer.digest,
        "allowed": allowed,
    }
    if tool_id is not None:
        LiveTool.objects.filter(pk=tool_id).update(**values)
        return
    LiveTool.objects.create(
        organization_id=live.organization_id, live_source=live, name=offer.name, **values
    )
