"""Who sees what at one instant, for many members at once, and the difference between two instants.

Promises: the relation's own functions are asked, once for all members together; a document counts
once however many ways lead to it. Not for: one caller's documents (`retrieval.acl`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from django.db import connection
from django.db.models import Count, F, Window
from django.db.models.functions import RowNumber

from accounts.authority import Authority
from retrieval.acl import caller
from retrieval.models import Document

MOST_EXAMPLES = 5
# Read per source, so that five remain where some of them were visible in another way already.
_TITLES_READ = 25

_SOURCES = """
SELECT u.id, s.key FROM unnest(%s::bigint[]) AS u (id)
CROSS JOIN LATERAL retrieval_visible_sources(%s, u.id, %s::integer[], %s::integer[], NULL) s
WHERE %s::bigint[] IS NULL OR s.key = ANY (%s::bigint[])
"""
_DOCUMENTS = """
SELECT u.id, d.key, d.source_key, d.inherits FROM unnest(%s::bigint[]) AS u (id)
CROSS JOIN LATERAL retrieval_granted_documents(%s, u.id, %s::integer[], NULL) d
WHERE %s::bigint[] IS NULL OR d.source_key = ANY (%s::bigint[])
"""


@dataclass(frozen=True, slots=True)
class Granted:
    """Where a document that is visible by grants of its own lies."""

    source: int
    inherits: bool


@dataclass(frozen=True, slots=True)
class Sight:
    """What one person sees: whole sources, and documents by grants of their own."""

    sources: frozenset[int] = frozenset()
    documents: Mapping[int, Granted] = field(default_factory=dict)

    def sees(self, document: int, *, source: int, inherits: bool) -> bool:
        """Whether one living document is visible."""
        return document in self.documents or (inherits and source in self.sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How many documents one person sees in the one state and not in the other, a few by title."""

    count: int = 0
    titles: tuple[str, ...] = ()


NOTHING = Sight()
Snapshot = Mapping[int, Sight]


def take_snapshot(
    authority: Authority, *, user_ids: Sequence[int], sources: Collection[int] | None
) -> Snapshot:
    """What each of these people may view now, within `sources` where given. Two queries."""
    who = caller(authority)
    only = None if sources is None else sorted(sources)
    whole: dict[int, set[int]] = defaultdict(set)
    single: dict[int, dict[int, Granted]] = defaultdict(dict)
    with connection.cursor() as cursor:
        cursor.execute(
            _SOURCES,
            [
                list(user_ids),
                who.organization,
                who.source_permissions,
                who.project_permissions,
                only,
                only,
            ],
        )
        for user, source in cursor:
            whole[user].add(source)
        cursor.execute(
            _DOCUMENTS, [list(user_ids), who.organization, who.document_permissions, only, only]
        )
        for user, document, source, inherits in cursor:
            single[user][document] = Granted(source, inherits)
    return {user: Sight(frozenset(whole[user]), single[user]) for user in {*whole, *single}}


def only_in(authority: Authority, one: Snapshot, other: Snapshot) -> dict[int, Difference]:
    """By person, what is visible in `one` and not in `other`, while no document itself changed.

    At most three queries, whatever the number of people.
    """
    more = {user: _more(sight, other.get(user, NOTHING)) for user, sight in one.items()}
    more = {user: found for user, found in more.items() if found.sources or found.documents}
    counts, titles = _read_sources(
        authority, {key for found in more.values() for key in found.sources}
    )
    single = _read_titles(authority, {key for found in more.values() for key in found.shown})
    result = {}
    for user, found in more.items():
        known = other.get(user, NOTHING).documents
        before = [place.source for place in known.values() if place.inherits]
        count = len(found.documents) + sum(counts.get(key, 0) for key in found.sources)
        count -= sum(1 for source in before if source in found.sources)
        if count > 0:
            examples = [single[key] for key in found.shown if key in single]
            for source in sorted(found.sources):
                examples += [title for key, title in titles[source] if key not in known]
            result[user] = Difference(count=count, titles=tuple(sorted(examples)[:MOST_EXAMPLES]))
    return result


@dataclass(frozen=True, slots=True)
class _More:
    sources: frozenset[int]
    documents: frozenset[int]

    @property
    def shown(self) -> list[int]:
        """A few of the documents, to be named."""
        return sorted(self.documents)[:MOST_EXAMPLES]


def _more(sight: Sight, other: Sight) -> _More:
    """Whole sources, and documents of their own that neither lie in one of those nor were seen."""
    sources = sight.sources - other.sources
    documents = {
        key
        for key, place in sight.documents.items()
        if not other.sees(key, source=place.source, inherits=place.inherits)
        and not (place.inherits and place.source in sources)
    }
    return _More(sources, frozenset(documents))


def _read_sources(
    authority: Authority, keys: Iterable[int]
) -> tuple[dict[int, int], dict[int, list[tuple[int, str]]]]:
    """How many documents follow each source, and the first of them by title."""
    wanted = list(keys)
    titles: dict[int, list[tuple[int, str]]] = defaultdict(list)
    if not wanted:
        return {}, titles
    following = Document.objects.filter(
        organization_id=authority.organization_id,
        source__key__in=wanted,
        deleted_at=None,
        acl_state=Document.AclState.INHERIT,
    )
    counts = dict(following.values_list("source__key").annotate(n=Count("key")).order_by())
    first = following.annotate(
        place=Window(
            RowNumber(), partition_by=F("source_id"), order_by=[F("title").asc(), F("key").asc()]
        )
    ).filter(place__lte=_TITLES_READ)
    for source, key, title in first.order_by("title", "key").values_list(
        "source__key", "key", "title"
    ):
        titles[source].append((key, title))
    return counts, titles


def _read_titles(authority: Authority, keys: Iterable[int]) -> dict[int, str]:
    wanted = list(keys)
    if not wanted:
        return {}
    rows = Document.objects.filter(organization_id=authority.organization_id, key__in=wanted)
    return dict(rows.values_list("key", "title"))
