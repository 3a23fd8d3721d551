"""The narrow index tables: the only writer of `retrieval_vector` and `retrieval_lexeme`.

Every function runs in the caller's transaction, with the document's row locked, so that the index
and the document change together. Rows hold integer keys and whether the document is as its source;
grants are never copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import F

from retrieval.embedders.contract import Embedder, Vectors
from retrieval.embedders.reuse import embedding_digest
from retrieval.ingest.chunk import Passage, embedding_text
from retrieval.ingest.lexical import config_of, lexical_text
from retrieval.ingest.parse import Parsed
from retrieval.models import Chunk, Document, Source
from retrieval.spaces.active import hold_active_space
from retrieval.vectors import vector_literal

_BATCH = 500
_SPACES = "SELECT key FROM retrieval_embeddingspace WHERE organization_id = %(organization)s"
_ROW = """%(organization_key)s, s.key, d.key, c.key, d.acl_state = 'inherit'"""
_FROM = """FROM retrieval_chunk c JOIN retrieval_document d ON d.id = c.document_id
    JOIN retrieval_source s ON s.id = d.source_id"""
INSERT_VECTORS = f"""
INSERT INTO retrieval_vector
    (organization_key, source_key, document_key, chunk_key, inherits, space_key, embedding)
SELECT {_ROW}, %(space)s, n.value::halfvec
{_FROM} JOIN unnest(%(chunks)s::uuid[], %(values)s::text[]) AS n (id, value) ON n.id = c.id
"""
# New passages lie in the tail of their organisation until `retrieval.postings` folds them.
INSERT_LEXEMES = f"""
INSERT INTO retrieval_lexeme
    (organization_key, source_key, document_key, chunk_key, inherits, words, lexemes)
SELECT {_ROW}, retrieval_word_count(x.lexemes), x.lexemes
{_FROM} JOIN unnest(%(chunks)s::uuid[], %(headings)s::text[], %(values)s::text[])
    AS n (id, headings, value) ON n.id = c.id
    CROSS JOIN LATERAL retrieval_lexemes(%(config)s::regconfig, %(title)s, n.headings, n.value)
    AS x (lexemes)
"""
INSERT_CONFIG = """
INSERT INTO retrieval_text_config (organization_key, config)
VALUES (%(organization_key)s, %(config)s) ON CONFLICT DO NOTHING
"""
DELETE_VECTORS = f"""
DELETE FROM retrieval_vector
WHERE organization_key = %(organization_key)s AND space_key IN ({_SPACES})
    AND document_key = %(document)s
"""  # noqa: S608
DELETE_LEXEMES = """
DELETE FROM retrieval_lexeme WHERE organization_key = %(organization_key)s
    AND document_key = %(document)s
"""
INHERIT_VECTORS = f"""
UPDATE retrieval_vector SET inherits = %(inherits)s
WHERE organization_key = %(organization_key)s
    AND space_key IN ({_SPACES}) AND document_key = %(document)s
"""  # noqa: S608
# Postings hold which source they are of and whether they follow it: back into the tail with these.
INHERIT_LEXEMES = """
UPDATE retrieval_lexeme SET inherits = %(inherits)s, segment = NULL
WHERE organization_key = %(organization_key)s
    AND document_key = %(document)s
"""
MOVE_VECTORS = f"""
UPDATE retrieval_vector SET source_key = %(source)s
WHERE organization_key = %(organization_key)s
    AND space_key IN ({_SPACES}) AND document_key = %(document)s
"""  # noqa: S608
MOVE_LEXEMES = """
UPDATE retrieval_lexeme SET source_key = %(source)s, segment = NULL
WHERE organization_key = %(organization_key)s
    AND document_key = %(document)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A version that was read and embedded and can be put into the index."""

    version_id: UUID
    title: str
    parsed: Parsed
    passages: Sequence[Passage]
    vectors: Vectors
    embedder: Embedder


def replace_passages(document: Document, ready: Ready) -> None:
    """Take the document's rows out of the index and put those of `ready` in; the old passages stay
    readable.

    Raises SpaceChanged when the organisation is embedded by another model meanwhile.
    """
    remove_passages(document)
    chunks = Chunk.objects.bulk_create(
        [
            Chunk(
                organization_id=document.organization_id,
                version_id=ready.version_id,
                document=document,
                ordinal=passage.ordinal,
                text=passage.text,
                heading_path=list(passage.heading_path),
                page=passage.page,
                kind=passage.kind,
                token_count=passage.token_count,
                digest=embedding_digest(embedding_text(ready.title, passage)),
            )
            for passage in ready.passages
        ],
        batch_size=_BATCH,
    )
    parameters = _parameters(document)
    parameters["space"] = hold_active_space(document.organization_id, ready.embedder)
    parameters["title"] = lexical_text(ready.title)
    parameters["config"] = config_of(ready.parsed.language)
    with connection.cursor() as cursor:
        cursor.execute(INSERT_CONFIG, parameters)
        for at in range(0, len(chunks), _BATCH):
            batch = chunks[at : at + _BATCH]
            parameters["chunks"] = [row.id for row in batch]
            vectors = ready.vectors[at : at + _BATCH]
            parameters["values"] = [vector_literal(vector) for vector in vectors]
            cursor.execute(INSERT_VECTORS, parameters)
            headings = [" ".join(own_headings(ready.title, row.heading_path)) for row in batch]
            parameters["headings"] = [lexical_text(heading) for heading in headings]
            parameters["values"] = [lexical_text(row.text) for row in batch]
            cursor.execute(INSERT_LEXEMES, parameters)
    _count(document, len(chunks))


def remove_passages(document: Document) -> None:
    """Take the document's rows out of the index; they are gone for the next statement after the
    commit."""
    with connection.cursor() as cursor:
        for statement in (DELETE_VECTORS, DELETE_LEXEMES):
            cursor.execute(statement, _parameters(document))
    _count(document, -document.passage_count)


def set_inheritance(document: Document) -> None:
    """Make the document's rows say whether it is as its source."""
    parameters = _parameters(document)
    parameters["inherits"] = document.acl_state == Document.AclState.INHERIT
    with connection.cursor() as cursor:
        for statement in (INHERIT_VECTORS, INHERIT_LEXEMES):
            cursor.execute(statement, parameters)


def move_passages(document: Document, *, source: Source) -> None:
    """Make the document's rows say that it lies in `source` now; nothing is embedded again.

    Locks both sources' rows until the transaction ends.
    """
    parameters = _parameters(document)
    parameters["source"] = source.key
    with connection.cursor() as cursor:
        for statement in (MOVE_VECTORS, MOVE_LEXEMES):
            cursor.execute(statement, parameters)
    moved = sorted([(document.source_id, -1), (source.pk, 1)])
    for source_id, sign in moved:
        Source.objects.filter(pk=source_id).update(
            passage_count=F("passage_count") + sign * document.passage_count
        )


def own_headings(title: str, heading_path: Sequence[str]) -> list[str]:
    """The headings without the first one where it only repeats the title."""
    return list(heading_path[1:] if heading_path and heading_path[0] == title else heading_path)


def _parameters(document: Document) -> dict[str, Any]:
    return {
        "organization": document.organization_id,
        "organization_key": document.organization.key,
        "document": document.key,
    }


def _count(document: Document, change: int) -> None:
    """Locks the source's row until the transaction ends."""
    if change:
        Source.objects.filter(pk=document.source_id).update(
            passage_count=F("passage_count") + change
        )
