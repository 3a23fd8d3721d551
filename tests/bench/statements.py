"""All SQL of the measurements: the product's own functions, called alone, and what stands beside
them.

What stands beside them: the organisation's graph without rights, a fetch to be filtered
afterwards, one graph over everything with the rights as a filter, and the product's own statement
without its rights. These live in the world's database and in no migration.
"""

from __future__ import annotations

import re
from typing import Any
from unittest import mock

import numpy as np
import psycopg

from accounts.authority import Authority
from kaizen.embedded.environment import APP_ROLE, OWNER_ROLE
from retrieval import search as searching
from retrieval.acl import caller
from retrieval.search import Mode, search
from retrieval.statement import EXACT_UP_TO
from retrieval.vectors import vector_literal
from tests.bench.clients import Statement
from tests.bench.material import Floats
from tests.bench.server import BenchServer, say
from tests.bench.shape import DIMENSION, SPACE_DIGEST, SPACE_MODEL

_WHO = (
    "%(organization)s::uuid, %(organization_key)s::bigint, %(user)s::bigint, "
    "%(source_permissions)s::integer[], %(project_permissions)s::integer[], "
    "%(document_permissions)s::integer[], NULL::bigint[], NULL::jsonb"
)
_NEAR = "%(space)s::bigint, %(vector)s::halfvec, %(limit)s"
_FOUND = "WHERE f.chunk_key IS NOT NULL"
ROUTER = (
    f"SELECT f.chunk_key, f.distance FROM retrieval_vector_search({_WHO}, NULL::tsquery, {_NEAR}, "
    f"%(exact_up_to)s::bigint) f {_FOUND} ORDER BY 2, 1"
)
EXACT = ROUTER.replace("%(exact_up_to)s", str(2**40))
LEXICAL = (
    f"SELECT f.chunk_key FROM retrieval_lexical_search({_WHO}, %(terms)s::text[], '{{}}'::text[], "
    f"NULL::tsquery, %(limit)s) f {_FOUND}"
)
LEXICAL_BARE = LEXICAL.replace("retrieval_lexical_search", "bare_lexical_search")
GRAPH = f"SELECT chunk_key FROM bench_graph(%(organization_key)s::bigint, {_NEAR})"
FETCH = f"SELECT chunk_key FROM bench_fetch(%(organization_key)s::bigint, {_NEAR})"
GLOBAL = f"SELECT chunk_key FROM bench_global({_WHO}, {_NEAR})"

_NEAREST = """
CREATE OR REPLACE FUNCTION {name}(p_organization_key bigint, p_space bigint, p_query halfvec, p_limit integer)
RETURNS TABLE (chunk_key bigint) LANGUAGE plpgsql STABLE ROWS 200
SET search_path = public SET hnsw.ef_search = {beam} SET enable_seqscan = off SET enable_sort = off
SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN RETURN QUERY
    SELECT v.chunk_key FROM retrieval_vector v
    WHERE v.organization_key = p_organization_key AND v.space_key = p_space
    ORDER BY v.embedding <#> p_query LIMIT p_limit;
END $$
"""  # noqa: E501
# The usual way: one graph for all tenants, and the rights as a condition.
_GLOBAL = """
CREATE OR REPLACE FUNCTION bench_global(
    p_organization uuid, p_organization_key bigint, p_user bigint, p_source_permissions integer[],
    p_project_permissions integer[], p_document_permissions integer[], p_only bigint[], p_filter jsonb,
    p_space bigint, p_query halfvec, p_limit integer)
RETURNS TABLE (chunk_key bigint) LANGUAGE plpgsql STABLE ROWS 60
SET search_path = public SET hnsw.iterative_scan = 'strict_order' SET hnsw.ef_search = 100
SET enable_seqscan = off SET enable_sort = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN RETURN QUERY
    WITH sources AS MATERIALIZED (
        SELECT s.key FROM retrieval_visible_sources(p_organization, p_user, p_source_permissions,
                                                    p_project_permissions, p_only) s),
    documents AS MATERIALIZED (
        SELECT d.key FROM retrieval_granted_documents(p_organization, p_user, p_document_permissions, p_only) d)
    SELECT v.chunk_key FROM bench_vector v
    WHERE v.organization_key = p_organization_key
      AND ((v.inherits AND v.source_key IN (SELECT sources.key FROM sources))
           OR v.document_key IN (SELECT documents.key FROM documents))
    ORDER BY v.embedding <#> p_query LIMIT p_limit;
END $$
"""  # noqa: E501
_FUNCTIONS = (
    "visible_sources",
    "granted_documents",
    "matching_documents",
    "vector_search",
    "lexical_search",
)
_NAME = re.compile(rf"\bretrieval_({'|'.join(_FUNCTIONS)})\b")
_BODIES = {
    "visible_sources": "SELECT s.key, s.passage_count FROM retrieval_source s "
    "WHERE s.organization_id = p_organization",
    "granted_documents": "SELECT d.key, d.key, true, 0 FROM retrieval_document d WHERE false",
}


class GivenVector:
    """An embedder of the world's own space: says whatever vector it was given."""

    model, digest, dimension = SPACE_MODEL, SPACE_DIGEST, DIMENSION

    def __init__(self) -> None:
        self.vector: Floats = np.zeros(DIMENSION, dtype=np.float32)

    def embed_query(self, text: str) -> Floats:
        """The vector that stands in for the text's."""
        return self.vector

    def embed_documents(self, texts: list[str]) -> Floats:
        """The same for each text."""
        return np.stack([self.vector] * len(texts))

    def count_tokens(self, text: str) -> int:
        """About as many as words."""
        return len(text.split())


class _Captured(Exception):
    """What the search was about to run."""


def without_rights(statement: str) -> str:
    """The same statement over everything that the organisation has."""
    return _NAME.sub(r"bare_\1", statement)


def who(authority: Authority) -> dict[str, Any]:
    """The parameters that say who asks."""
    return dict(caller(authority)._asdict())


def near(authority: Authority, *, space: int, vector: Floats, limit: int = 10) -> dict[str, Any]:
    """The parameters of the statements above for a caller and a question."""
    return {
        **who(authority),
        "space": space,
        "vector": vector_literal(vector),
        "limit": limit,
        "exact_up_to": EXACT_UP_TO,
    }


def capture(
    authority: Authority, *, words: str, vector: Floats, mode: Mode = Mode.HYBRID
) -> Statement:
    """The one statement that the product runs for a search, with its parameters."""
    embedder = GivenVector()
    embedder.vector = vector
    caught: list[Statement] = []

    def catch(statement: str, parameters: dict[str, Any]) -> None:
        caught.append((statement, parameters))
        raise _Captured

    with mock.patch.object(searching, "_run", catch):
        try:
            search(authority, query=words, mode=mode, embedder=embedder)
        except _Captured:
            return caught[0]
    raise RuntimeError("the search ran no statement")


def prepare(server: BenchServer, database: str) -> None:
    """Make or renew the functions that the product is measured beside."""
    with server.connect(database, role=OWNER_ROLE) as owner:
        owner.execute("SELECT '[1]'::vector")
        owner.execute(_NEAREST.format(name="bench_graph", beam=100))
        owner.execute(_NEAREST.format(name="bench_fetch", beam=200))
        for name in _FUNCTIONS:
            for definition in _definitions(owner, f"retrieval_{name}"):
                owner.execute(_bare(name, definition).encode())
        owner.execute(f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO {APP_ROLE}")


def _definitions(owner: psycopg.Connection, name: str) -> list[str]:
    rows = owner.execute(
        "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = %s", [name]
    ).fetchall()
    return [row[0] for row in rows]


def _bare(name: str, definition: str) -> str:
    if name in _BODIES:
        head = definition[: definition.index("$function$")]
        definition = f"{head}$function$ {_BODIES[name]} $function$"
    return _NAME.sub(r"bare_\1", definition)


def has_global(server: BenchServer, database: str) -> bool:
    """Whether the one graph over everything is there."""
    with server.connect(database, role=OWNER_ROLE) as owner:
        found = owner.execute("SELECT to_regclass('bench_vector_graph')").fetchone()
    return found is not None and found[0] is not None


def build_global(server: BenchServer, database: str) -> None:
    """The table and the graph of the usual way."""
    if has_global(server, database):
        return
    say("building one graph over all organisations, to measure beside ...")
    with server.connect(database, role=OWNER_ROLE) as owner:
        owner.execute("SELECT '[1]'::vector")
        owner.execute("DROP TABLE IF EXISTS bench_vector")
        owner.execute("CREATE TABLE bench_vector AS SELECT * FROM retrieval_vector")
        owner.execute("ALTER TABLE bench_vector ALTER COLUMN embedding SET STORAGE PLAIN")
        owner.execute("SET max_parallel_maintenance_workers = 2")
        owner.execute(
            "CREATE INDEX bench_vector_graph ON bench_vector USING hnsw (embedding halfvec_ip_ops)"
        )
        owner.execute(_GLOBAL.encode())
        owner.execute(f"GRANT SELECT ON bench_vector TO {APP_ROLE}")
        owner.execute("VACUUM ANALYZE bench_vector")
