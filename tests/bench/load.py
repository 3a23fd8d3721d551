"""Fills the tables of a world by COPY, several sources at a time, each in a process.

Foreign keys and triggers are off while it loads: the keys are ours. Columns that are not named
here take the defaults of their models, so that a new column needs no change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
from django.db import models

from retrieval.models import Chunk, Document, DocumentVersion
from tests.bench.material import Floats, Passages, make_source
from tests.bench.shape import DIMENSION, PER_DOCUMENT, RESTRICTED

DOCUMENT, VERSION, CHUNK = 1, 2, 3
# A row of retrieval_vector in PostgreSQL's binary COPY format: each value after its length.
_KEY = [("l", ">i4"), ("v", ">i8")]
VECTOR_KEYS = ("organization_key", "space_key", "source_key", "document_key", "chunk_key")
VECTOR_COLUMNS = ", ".join((*VECTOR_KEYS, "inherits", "embedding"))
VECTOR_ROW = np.dtype(
    [
        ("n", ">i2"),
        *((name, _KEY) for name in VECTOR_KEYS),
        ("inherits", [("l", ">i4"), ("v", "u1")]),
        ("embedding", [("l", ">i4"), ("d", ">i2"), ("z", ">i2"), ("v", ">f2", DIMENSION)]),
    ]
)
BINARY_START = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
BINARY_END = b"\xff\xff"


def made_id(kind: int, key: int) -> UUID:
    """The public id of a row: its kind and its key, so that nobody has to remember it."""
    return UUID(int=(kind << 96) | (0x7000 << 64) | (0x8000 << 48) | key)


@dataclass(frozen=True, kw_only=True)
class SourceTask:
    """One source to load, with the keys that its rows take."""

    url: str
    world_size: int
    number: int
    organization_id: UUID
    organization_key: int
    space_key: int
    blob_id: UUID
    source_id: UUID
    source_key: int
    passages: int
    first_document: int
    first_chunk: int

    @property
    def documents(self) -> int:
        """How many documents it has."""
        return self.passages // PER_DOCUMENT

    def is_restricted(self) -> list[bool]:
        """Which of its documents are restricted."""
        dice = np.random.default_rng((self.number, 17))
        return (dice.random(self.documents) < RESTRICTED).tolist()


def load_source(task: SourceTask) -> int:
    """Write everything of one source in one transaction. Returns how many passages."""
    made = make_source(
        task.world_size, task.number, documents=task.documents, per_document=PER_DOCUMENT
    )
    with psycopg.connect(task.url) as connection:
        connection.execute("SET session_replication_role = replica")
        _copy_documents(connection, task, made)
        _copy_chunks(connection, task, made)
        _copy_vectors(connection, task, made.vectors)
        _copy_lexemes(connection, task, made)
    return task.passages


def _copy_documents(connection: psycopg.Connection, task: SourceTask, made: Passages) -> None:
    keys = range(task.first_document, task.first_document + task.documents)
    common = {"organization_id": task.organization_id}
    restricted = task.is_restricted()
    states = (Document.AclState.INHERIT, Document.AclState.RESTRICTED)
    copy_models(
        connection,
        Document,
        common
        | {
            "source_id": task.source_id,
            "state": Document.State.INDEXED,
            "passage_count": PER_DOCUMENT,
            "file_name": "page.md",
            "media_type": "text/markdown",
        },
        ("id", "key", "title", "external_id", "current_version_id", "acl_state"),
        (
            (made_id(DOCUMENT, key), key, title, key, made_id(VERSION, key), states[closed].value)
            for key, title, closed in zip(keys, made.titles, restricted, strict=True)
        ),
    )
    copy_models(
        connection,
        DocumentVersion,
        common | {"number": 1, "blob_id": task.blob_id, "file_name": "page.md"},
        ("id", "document_id"),
        ((made_id(VERSION, key), made_id(DOCUMENT, key)) for key in keys),
    )


def _copy_chunks(connection: psycopg.Connection, task: SourceTask, made: Passages) -> None:
    copy_models(
        connection,
        Chunk,
        {"organization_id": task.organization_id, "kind": "paragraph", "token_count": 110},
        ("id", "key", "version_id", "document_id", "ordinal", "text"),
        (
            (
                made_id(CHUNK, task.first_chunk + at),
                task.first_chunk + at,
                made_id(VERSION, task.first_document + at // PER_DOCUMENT),
                made_id(DOCUMENT, task.first_document + at // PER_DOCUMENT),
                at % PER_DOCUMENT,
                text,
            )
            for at, text in enumerate(made.texts)
        ),
    )


def _copy_vectors(connection: psycopg.Connection, task: SourceTask, vectors: Floats) -> None:
    at = np.arange(len(vectors))
    copy_vectors(
        connection,
        (
            task.organization_key,
            task.space_key,
            task.source_key,
            task.first_document + at // PER_DOCUMENT,
            task.first_chunk + at,
        ),
        inherits=~np.repeat(np.array(task.is_restricted(), dtype=bool), PER_DOCUMENT),
        vectors=vectors,
    )


def copy_vectors(
    connection: psycopg.Connection, keys: Sequence[Any], *, inherits: Any, vectors: Floats
) -> None:
    """COPY rows of retrieval_vector, made as one array; `keys` by VECTOR_KEYS, each a number for
    all or one a row.
    """
    row = np.zeros(len(vectors), dtype=VECTOR_ROW)
    row["n"] = len(VECTOR_KEYS) + 2
    for name, values in zip(VECTOR_KEYS, keys, strict=True):
        row[name]["l"] = 8
        row[name]["v"] = values
    row["inherits"]["l"] = 1
    row["inherits"]["v"] = inherits
    row["embedding"]["l"] = 4 + 2 * DIMENSION
    row["embedding"]["d"] = DIMENSION
    row["embedding"]["v"] = vectors
    statement = f"COPY retrieval_vector ({VECTOR_COLUMNS}) FROM STDIN (FORMAT binary)"
    with connection.cursor().copy(statement) as copy:
        copy.write(BINARY_START + row.tobytes() + BINARY_END)


def _copy_lexemes(connection: psycopg.Connection, task: SourceTask, made: Passages) -> None:
    restricted = task.is_restricted()
    lines = (
        (
            task.organization_key,
            task.source_key,
            task.first_document + at // PER_DOCUMENT,
            task.first_chunk + at,
            not restricted[at // PER_DOCUMENT],
            made.words[at],
            lexemes,
        )
        for at, lexemes in enumerate(made.lexemes)
    )
    _copy_lines(
        connection,
        "COPY retrieval_lexeme (organization_key, source_key, document_key, chunk_key, inherits, "
        "words, lexemes) FROM STDIN",
        ("\t".join(map(_text, line)) for line in lines),
    )


def copy_models(
    connection: psycopg.Connection,
    model: type[models.Model],
    same: dict[str, Any],
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
) -> None:
    """COPY rows of a model: `same` for every row, `columns` per row, defaults for the rest."""
    rest = {
        field.column: same.get(field.column, field.get_default())
        for field in model._meta.concrete_fields
        if field.column not in columns and not isinstance(field, models.AutoField)
    }
    tail = "".join("\t" + _text(value) for value in rest.values())
    names = ", ".join([*columns, *rest])
    _copy_lines(
        connection,
        f"COPY {model._meta.db_table} ({names}) FROM STDIN",
        ("\t".join(map(_text, row)) + tail for row in rows),
    )


def _copy_lines(connection: psycopg.Connection, statement: str, lines: Iterable[str]) -> None:
    with connection.cursor().copy(statement) as copy:
        copy.write("\n".join(lines) + "\n")


def _text(value: Any) -> str:
    """In COPY's text format; none of our texts holds a character that has to be escaped."""
    if value is None:
        return "\\N"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, list | tuple):
        return "{" + ",".join(map(_text, value)) + "}"
    if isinstance(value, dict):
        return "{}"
    return value.isoformat() if isinstance(value, datetime) else str(value)
