"""The search page: a query, its filters in the address, results, and counts to narrow by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.dateparse import parse_date
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from accounts.authority import Authority
from accounts.relation import parse_id
from kaizen.kernel.errors import Invalid, Missing
from retrieval.queries import count_unfinished, list_sources
from retrieval.query import Filters
from retrieval.search import FacetValue, SearchResult, search

KIND_LABELS: dict[str, Promise] = {
    "pdf": gettext_lazy("PDF"),
    "document": gettext_lazy("Text documents"),
    "slides": gettext_lazy("Slides"),
    "sheet": gettext_lazy("Tables"),
    "web": gettext_lazy("Web pages"),
    "note": gettext_lazy("Notes"),
    "mail": gettext_lazy("Mail"),
}
_GROUPS: dict[str, Promise] = {
    "source": gettext_lazy("Source"),
    "type": gettext_lazy("Kind"),
    "author": gettext_lazy("Author"),
    "tag": gettext_lazy("Tag"),
}
_MOST_CHIPS = 8


@dataclass(frozen=True, slots=True)
class Chip:
    """One value to narrow by. `address` switches it on or off; `count` is None when unknown."""

    label: str
    address: str
    active: bool
    count: int | None


@dataclass(frozen=True, slots=True)
class Group:
    """Values of one kind to narrow by."""

    name: str
    label: str
    chips: tuple[Chip, ...]


@never_cache
@require_GET
def search_page(request: HttpRequest) -> HttpResponse:
    """`retrieval/search.html`: query, result (SearchResult or None), error, indexing (documents
    still being read), groups ([Group] to narrow by), kept ([(name, value)] of the filters), after,
    before, newest, all_address (the search without filters).
    """
    authority: Authority = request.authority  # type: ignore[attr-defined]
    asked = request.GET
    query = asked.get("q", "")
    context: dict[str, Any] = {
        "query": query,
        "result": None,
        "indexing": count_unfinished(authority),
        "after": asked.get("after", ""),
        "before": asked.get("before", ""),
        "newest": asked.get("newest") == "1",
        "kept": [(name, value) for name in _GROUPS for value in asked.getlist(name) if value],
    }
    all_asked = QueryDict(mutable=True)
    all_asked["q"] = query
    context["all_address"] = f"?{all_asked.urlencode()}"
    context["narrowed"] = bool(context["kept"] or context["after"] or context["before"])
    status = 200
    if "q" in asked:
        try:
            context["result"] = search(
                authority,
                query=query,
                filters=_filters(asked),
                recency=context["newest"],
                facets=True,
            )
        except Invalid as error:
            context["error"] = error.message
            status = error.status
    context["groups"] = list(_groups(authority, asked, context["result"]))
    return render(request, "retrieval/search.html", context, status=status)


def _filters(asked: QueryDict) -> Filters:
    """Raises Invalid for a kind or a day that isn't one."""
    sources = [value for value in asked.getlist("source") if value]
    return Filters(
        source_ids=tuple(_source_ids(sources)) if sources else None,
        types=tuple(value for value in asked.getlist("type") if value),
        authors=tuple(value for value in asked.getlist("author") if value),
        tags=tuple(value for value in asked.getlist("tag") if value),
        after=_day(asked.get("after", "")),
        before=_day(asked.get("before", "")),
    )


def _source_ids(values: list[str]) -> Iterator[Any]:
    """What isn't an id is the id of nothing."""
    for value in values:
        try:
            yield parse_id(value)
        except Missing:
            continue


def _day(text: str) -> datetime | None:
    if not text:
        return None
    try:
        day = parse_date(text)
    except ValueError:
        day = None
    if day is None:
        raise Invalid(_("“%(text)s” is not a day. Write it as 2026-03-31.") % {"text": text})
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _groups(authority: Authority, asked: QueryDict, result: SearchResult | None) -> Iterator[Group]:
    """The values of what was found, and the ones that are switched on. Before the first search the
    sources alone.
    """
    if result is None or result.facets is None:
        found: dict[str, tuple[FacetValue, ...]] = {
            "source": tuple(
                FacetValue(value=str(row.id), label=row.name, count=-1)
                for row in list_sources(authority)
            )
        }
    else:
        found = result.facets
    names = {str(row.id): row.name for row in list_sources(authority)} if "source" in asked else {}
    for name, label in _GROUPS.items():
        active = [value for value in asked.getlist(name) if value]
        values = [value for value in found.get(name, ()) if value.value != "other"]
        known = {value.value for value in values}
        chips = [_chip(asked, name, value, active=value.value in active) for value in values]
        for value in active:
            shown = names.get(value) if name == "source" else value
            if value not in known and shown:
                empty = FacetValue(value=value, label=shown, count=0)
                chips.insert(0, _chip(asked, name, empty, active=True))
        if chips and (len(chips) > 1 or active or result is None):
            yield Group(name, str(label), tuple(chips[:_MOST_CHIPS]))


def _chip(asked: QueryDict, name: str, value: FacetValue, *, active: bool) -> Chip:
    switched = asked.copy()
    others = [other for other in asked.getlist(name) if other and other != value.value]
    switched.setlist(name, others if active else [*others, value.value])
    label = str(KIND_LABELS.get(value.value, value.label)) if name == "type" else value.label
    return Chip(
        label, f"?{switched.urlencode()}", active, value.count if value.count >= 0 else None
    )
