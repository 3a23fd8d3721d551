"""Asks the relation's functions one by one, below everything that guards their answers again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

from accounts import relation
from accounts.authority import Authority
from accounts.models import Membership, Organization, Project
from accounts.permissions import Verb
from retrieval import acl
from retrieval.models import Document, EmbeddingSpace, Source
from retrieval.vectors import vector_literal
from tests import factories
from tests.retrieval.worlds import WORD, RememberingEmbedder, index_document

MATCHING = "retrieval_matching_documents"
MEANING = "retrieval_vector_search"
# The ways it takes: exact distances, a graph that walks on, and the first that a graph brings.
EXACT, NEAREST, PROBED = "exact", "nearest", "probed"
MEANING_WAYS = (EXACT, NEAREST, PROBED)
_PADDING = "Padding"
WORDS, SIMILAR = "retrieval_lexical_search", "retrieval_similar_terms"
_WHO = "%s, %s, %s, %s::integer[], %s::integer[], %s::integer[], %s::bigint[], %s::jsonb"


@contextmanager
def unkept() -> Iterator[None]:
    """A savepoint that is rolled back: rows that no transaction could commit can stand in it."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def source_names(authority: Authority, verb: Verb = Verb.VIEW) -> set[str]:
    """What `retrieval_visible_sources` answers."""
    keys = _column(*acl.source_keys(authority, verb))
    return set(Source.objects.filter(key__in=keys).values_list("name", flat=True))


def document_titles(authority: Authority, verb: Verb = Verb.VIEW) -> set[str]:
    """What `retrieval_granted_documents` answers."""
    keys = _column(*acl.document_keys(authority, verb))
    return set(Document.objects.filter(key__in=keys).values_list("title", flat=True))


def project_names(authority: Authority, verb: Verb = Verb.VIEW) -> set[str]:
    """What the grants of `accounts.relation` answer."""
    keys = _column(*relation.granted(authority, Project, verb))
    return set(Project.objects.filter(key__in=keys).values_list("name", flat=True))


def teams(authority: Authority) -> set[int]:
    """What `accounts_principals` answers."""
    return set(
        _column(
            "SELECT accounts_principals(%s, %s)", (authority.organization_id, authority.user_id)
        )
    )


def matching(authority: Authority, filters: dict[str, Any] | None = None) -> list[str]:
    """The titles that `retrieval_matching_documents` answers."""
    sql = f"SELECT key FROM {MATCHING}({_WHO})"
    keys = _column(sql, _who(authority, filters or {}))
    titles = dict(Document.objects.filter(key__in=keys).values_list("key", "title"))
    return sorted(titles[key] for key in keys)


def by_meaning(
    authority: Authority,
    way: str,
    *,
    filters: dict[str, Any] | None = None,
    without: Sequence[str] = (),
) -> list[str]:
    """The titles of the passages that search by meaning brings in one way, as often as it does."""
    space = EmbeddingSpace.objects.get(organization_id=authority.organization_id)
    query = vector_literal(RememberingEmbedder().embed_query(WORD))
    sql = (
        f"SELECT chunk_key, trace FROM {MEANING}({_WHO}, {_MUST}, %s, %s::halfvec, 50, "
        f"{1_000_000 if way == EXACT else -1})"
    )
    if way == PROBED:
        _pad(authority, query)
    must = _must(authority, without)
    with connection.cursor() as cursor:
        if way != EXACT:
            # A graph is told by its name; without one the same statement sorts what it finds.
            graph = f"retrieval_vector_{authority.organization_key}_graph"
            cursor.execute(f"CREATE TEMPORARY TABLE IF NOT EXISTS {graph} () ON COMMIT DROP")
        cursor.execute(sql, (*_who(authority, filters), *must, space.key, query))
        rows = cursor.fetchall()
    titles = _titles([key for key, _ in rows if key is not None])
    trace = json.loads(rows[-1][1])
    # Where a graph finds less than is counted, exact distances have the last word.
    is_short = len(titles) < trace["visible"]
    assert trace["plan"] == (EXACT if way == EXACT else NEAREST) or is_short
    return [title for title in titles if title != _PADDING]


def _pad(authority: Authority, query: str) -> None:
    """Let the caller see more than the first that the graph brings must hold, all far away."""
    organization = Organization.objects.get(pk=authority.organization_id)
    if Document.objects.filter(organization=organization, title=_PADDING).exists():
        return
    source = factories.make_source(organization)
    document = index_document(source, title=_PADDING, passages=60, of="nowhere", word="far")
    Document.objects.filter(pk=document.pk).update(author="Ada")
    membership = Membership.objects.get(pk=authority.membership_id)
    factories.grant(membership, Verb.VIEW, source)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE retrieval_vector SET embedding = (%s::halfvec::vector * "
            "array_fill(-1::real, ARRAY[vector_dims(%s::vector)])::vector)::halfvec "
            "WHERE document_key = %s",
            [query, query, document.key],
        )


def by_words(
    authority: Authority,
    *,
    filters: dict[str, Any] | None = None,
    without: Sequence[str] = (),
) -> list[str]:
    """The titles of the passages that the lexical function brings, as often as it does."""
    return _titles(list(scores(authority, filters=filters, without=without)))


def scores(
    authority: Authority,
    *,
    filters: dict[str, Any] | None = None,
    without: Sequence[str] = (),
) -> dict[int, float]:
    """The scores that the lexical function gives, by passage."""
    sql = (
        f"SELECT chunk_key, score FROM {WORDS}({_WHO}, "
        "ARRAY(SELECT t.term FROM retrieval_query_terms(%s, ARRAY[%s]) t), "
        f"'{{}}'::text[], {_MUST}, 50) WHERE chunk_key IS NOT NULL"
    )
    must = _must(authority, without)
    with connection.cursor() as cursor:
        cursor.execute(sql, (*_who(authority, filters), authority.organization_key, WORD, *must))
        return dict(cursor.fetchall())


def similar(authority: Authority, word: str) -> list[str]:
    """The terms like `word` that the caller is offered."""
    sql = f"SELECT term FROM {SIMILAR}({_WHO}, %s, 5)"
    return _column(sql, (*_who(authority, None), word))


_MUST = "retrieval_must(%s, '{}', %s::text[])"


def _must(authority: Authority, without: Sequence[str]) -> tuple[Any, ...]:
    return (authority.organization_key, list(without))


def _who(authority: Authority, filters: dict[str, Any] | None) -> tuple[Any, ...]:
    return (*acl.caller(authority), None if filters is None else json.dumps(filters))


def _column(sql: str, parameters: Sequence[Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return [row[0] for row in cursor.fetchall()]


def _titles(chunk_keys: list[int]) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT d.title FROM unnest(%s::bigint[]) AS c (key) JOIN retrieval_chunk x "
            "ON x.key = c.key JOIN retrieval_document d ON d.id = x.document_id ORDER BY 1",
            [chunk_keys],
        )
        return [row[0] for row in cursor.fetchall()]
