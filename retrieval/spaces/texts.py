"""The texts of passages as they are embedded, for a space that lacks them.

What is in the index is what has words in it, whoever embedded it; older versions' passages aren't.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection

from retrieval.embedders.reuse import embedding_digest
from retrieval.ingest.chunk import Passage, embedding_text
from retrieval.ingest.contract import BlockKind

_LACKING = """
SELECT c.key, c.digest, c.token_count, d.key, d.title, c.ordinal, c.text, c.heading_path, c.page,
    c.kind
FROM (
    SELECT l.chunk_key FROM retrieval_lexeme l
    WHERE l.organization_key = %(organization)s AND l.chunk_key > %(after)s
      AND NOT EXISTS (
        SELECT 1 FROM retrieval_vector v WHERE v.organization_key = l.organization_key
          AND v.space_key = %(space)s AND v.chunk_key = l.chunk_key)
    ORDER BY l.chunk_key LIMIT %(most)s
) x
JOIN retrieval_chunk c ON c.key = x.chunk_key JOIN retrieval_document d ON d.id = c.document_id
ORDER BY c.key
"""
_LACKS_ANY = """
SELECT EXISTS (
    SELECT 1 FROM retrieval_lexeme l WHERE l.organization_key = %(organization)s
      AND NOT EXISTS (
        SELECT 1 FROM retrieval_vector v WHERE v.organization_key = l.organization_key
          AND v.space_key = %(space)s AND v.chunk_key = l.chunk_key))
"""


@dataclass(frozen=True, slots=True)
class Text:
    """A passage's text as it is embedded. `stored_digest` may be of an earlier title."""

    chunk_key: int
    document_key: int
    text: str
    tokens: int
    digest: str
    stored_digest: str


def list_texts(
    *, organization_key: int, space_key: int | None, after: int, most: int
) -> list[Text]:
    """At most `most` passages beyond the key `after` that have no vector in the space, by key.

    Without a space: of all passages.
    """
    parameters = {
        "organization": organization_key,
        "space": space_key,
        "after": after,
        "most": most,
    }
    with connection.cursor() as cursor:
        cursor.execute(_LACKING, parameters)
        rows = cursor.fetchall()
    return [_text(*row) for row in rows]


def lacks_any(*, organization_key: int, space_key: int) -> bool:
    """Whether a passage in the index has no vector in the space."""
    with connection.cursor() as cursor:
        cursor.execute(_LACKS_ANY, {"organization": organization_key, "space": space_key})
        return bool(cursor.fetchone()[0])


def _text(
    key: int,
    stored: str,
    tokens: int,
    document_key: int,
    title: str,
    ordinal: int,
    body: str,
    headings: list[str],
    page: int | None,
    kind: BlockKind,
) -> Text:
    passage = Passage(
        ordinal=ordinal,
        text=body,
        heading_path=tuple(headings),
        page=page,
        kind=kind,
        token_count=tokens,
    )
    text = embedding_text(title, passage)
    return Text(key, document_key, text, tokens, embedding_digest(text), stored)
