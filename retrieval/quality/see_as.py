"""The test bench: search as a member would, to see what they find and how it came about.

Promises: the search runs under the member's own live rights, in a part of the transaction where the
database refuses to write; it is audited under the name of who looks, never as the member's own. Who
looks reads no text by this: passages show theirs only where they hold a grant of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from accounts.authority import Authority, Capability, Channel, from_user_id
from accounts.models import Membership
from accounts.relation import parse_id
from audit.record import record
from kaizen.kernel.errors import Missing
from retrieval.embedders.contract import Embedder
from retrieval.passages import read_passages
from retrieval.query import parse_query
from retrieval.search import Hit, Mode, SearchResult, query_digest, search_unrecorded


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenHit:
    """A passage that the member finds.

    `place` is its fused rank. `text`, `page` and `heading_path` are None or empty where who looks
    may not view the document themselves; `is_shown` says so.
    """

    place: int
    document_id: UUID
    title: str
    path: str
    source_name: str
    lexical_rank: int | None
    vector_rank: int | None
    is_shown: bool
    text: str
    heading_path: tuple[str, ...]
    page: int | None
    marks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a member finds. `result` is None, and nothing was searched, when they aren't active."""

    membership_id: UUID
    person: str
    query: str
    result: SearchResult | None
    hits: tuple[SeenHit, ...] = ()

    @property
    def withheld(self) -> int:
        """How many passages stand without their text."""
        return sum(not hit.is_shown for hit in self.hits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """One search as a member: their rights and what they found, or None twice."""

    persona: Authority | None
    result: SearchResult | None


@transaction.atomic
def see_as(
    authority: Authority,
    *,
    membership_id: UUID | str,
    query: str,
    mode: Mode = Mode.HYBRID,
    limit: int = 10,
) -> Sight:
    """What the member finds for `query` at this moment. They needn't be signed in; audited.

    Raises Denied unless the caller configures, Missing for a member of no or another organisation,
    Invalid for a query that can't be searched.
    """
    membership = get_member(authority, membership_id)
    looked = look_as(authority, membership=membership, query=query, mode=mode, limit=limit)
    found = looked.result.hits if looked.result is not None else ()
    readable = read_passages(authority, [hit.chunk_id for hit in found])
    return Sight(
        membership_id=membership.pk,
        person=str(membership.user),
        query=query,
        result=looked.result,
        hits=tuple(
            _seen(hit, place, is_shown=hit.chunk_id in readable)
            for place, hit in enumerate(found, start=1)
        ),
    )


def get_member(authority: Authority, membership_id: UUID | str) -> Membership:
    """A member of the caller's organisation, of any state. Raises Denied and Missing."""
    authority.check(Capability.CONFIGURE)
    found = (
        Membership.objects.filter(
            organization_id=authority.organization_id, pk=parse_id(membership_id)
        )
        .select_related("user")
        .first()
    )
    if found is None:
        raise Missing
    return found


def look_as(
    authority: Authority,
    *,
    membership: Membership,
    query: str,
    limit: int,
    mode: Mode = Mode.HYBRID,
    embedder: Embedder | None = None,
    data: Mapping[str, Any] | None = None,
) -> Looked:
    """Search as `membership`, within the caller's transaction; one event under the caller's name,
    with `data` in it.

    Raises Denied unless the caller configures, Invalid for a query that can't be searched.
    """
    authority.check(Capability.CONFIGURE)
    text = parse_query(query).text
    persona = find_persona(authority, membership)
    result = None
    if persona is not None:
        with reading_only():
            result = search_unrecorded(
                persona, query=query, limit=limit, mode=mode, embedder=embedder
            )
    seen = {} if result is None else {"hits": len(result.hits), "mode": result.mode}
    record(
        authority,
        "retrieval.seen_as",
        subject=membership,
        data={
            **(data or {}),
            "member_is_active": persona is not None,
            "query_digest": query_digest(text),
            **seen,
        },
        personal={"query": text},
    )
    return Looked(persona=persona, result=result)


def find_persona(authority: Authority, membership: Membership) -> Authority | None:
    """The member's own authority as it is now; None when they aren't active."""
    try:
        return from_user_id(
            membership.user_id,
            organization_id=authority.organization_id,
            channel=Channel.COMMAND,
        )
    except Missing:
        return None


@contextmanager
def reading_only() -> Iterator[None]:
    """A savepoint in which the database refuses to write; what comes after it may again."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL transaction_read_only = on")
        yield


def _seen(hit: Hit, place: int, *, is_shown: bool) -> SeenHit:
    return SeenHit(
        place=place,
        document_id=hit.document_id,
        title=hit.title,
        path=hit.path,
        source_name=hit.source_name,
        lexical_rank=hit.lexical_rank,
        vector_rank=hit.vector_rank,
        is_shown=is_shown,
        text=hit.text if is_shown else "",
        heading_path=hit.heading_path if is_shown else (),
        page=hit.page if is_shown else None,
        marks=hit.marks if is_shown else (),
    )
