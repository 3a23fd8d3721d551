"""Search with and without rights, and ingestion against bare embedding, on made-up text from a
fixed seed.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from django.db import connection, transaction

from accounts.authority import Authority
from accounts.models import Role
from accounts.permissions import Verb
from retrieval.acl import caller
from retrieval.documents import upload
from retrieval.ingest.chunk import chunk, embedding_text
from retrieval.ingest.embed import local_embedder
from retrieval.ingest.index import INSERT_LEXEMES, INSERT_VECTORS, ensure_space
from retrieval.ingest.parse import parse
from retrieval.ingest.store import ingest_document
from retrieval.models import Blob, Chunk, Document, DocumentVersion, Source
from retrieval.search import DEPTH, EXACT_UP_TO, FUSION, PER_DOCUMENT, STATEMENT
from retrieval.vectors import vector_literal
from tests import factories

SEED = 4_711
SHARES = {"1 %": 0.01, "10 %": 0.1, "50 %": 0.5, "all": 1.0}
ROUNDS = 60
SOURCES = 20
PER_SOURCE_DOCUMENT = 10
TOPICS = 50

WITHOUT_RIGHTS = """
WITH semantic AS MATERIALIZED (
    SELECT chunk_key, row_number() OVER (ORDER BY distance, chunk_key) AS rank FROM (
        SELECT v.chunk_key, v.embedding <#> %(vector)s::halfvec AS distance FROM retrieval_vector v
        WHERE v.organization_key = %(organization_key)s AND v.space_key = %(space)s
        ORDER BY 2, 1 LIMIT %(depth)s) n
), lexical AS MATERIALIZED (
    SELECT chunk_key, row_number() OVER (ORDER BY score DESC, chunk_key) AS rank FROM (
        SELECT l.chunk_key, ts_rank('{0.3, 0.3, 0.4, 0.5}', l.lexemes, q.words, 1) AS score
        FROM retrieval_lexeme l, retrieval_query(%(words)s) AS q (words)
        WHERE l.organization_key = %(organization_key)s AND l.lexemes @@ q.words
        ORDER BY 2 DESC, 1 LIMIT %(depth)s) n
), fused AS (
    SELECT coalesce(semantic.chunk_key, lexical.chunk_key) AS chunk_key,
        coalesce(1.0 / (60 + semantic.rank), 0) + coalesce(1.0 / (60 + lexical.rank), 0) AS score
    FROM semantic FULL JOIN lexical ON lexical.chunk_key = semantic.chunk_key
)
SELECT c.id, d.title, s.name, c.text FROM fused f JOIN retrieval_chunk c ON c.key = f.chunk_key
JOIN retrieval_document d ON d.id = c.document_id JOIN retrieval_source s ON s.id = d.source_id
ORDER BY f.score DESC LIMIT 10
"""


@dataclass(frozen=True)
class Search:
    """One share of the passages: p50 and p95 in milliseconds, with rights and without."""

    share: str
    visible: int
    mine: tuple[float, float]
    bare: tuple[float, float]


@dataclass(frozen=True)
class Ingest:
    """Passages a second, embedding alone and the whole way."""

    passages: int
    bare: float
    whole: float


class Words:
    """Text whose words are as unevenly frequent as in real text."""

    def __init__(self, dice: np.random.Generator) -> None:
        self.dice = dice
        letters = np.array(list("abcdefghiklmnoprstuvw"))
        self.words = ["".join(dice.choice(letters, dice.integers(4, 10))) for _ in range(20_000)]
        weights = 1 / np.arange(2, 20_002)
        self.weights = weights / weights.sum()

    def text(self, length: int) -> str:
        """This many words."""
        return " ".join(self.words[at] for at in self.dice.choice(20_000, length, p=self.weights))


def measure_search(*, size: int) -> list[Search]:
    """Build the passages and measure every share."""
    dice = np.random.default_rng(SEED)
    words = Words(dice)
    organization = factories.make_organization()
    sources = [factories.make_source(organization) for _ in range(SOURCES)]
    centres = dice.normal(size=(TOPICS, 384))
    for source in sources:
        _fill(source, words, centres, dice, passages=size // SOURCES)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE retrieval_chunk, retrieval_document, retrieval_source")
    space = ensure_space(organization.pk, local_embedder()).key
    results = []
    for share, part in SHARES.items():
        member = factories.make_member(organization)
        _give(member, sources, part)
        results.append(
            _compare(share, part, size, factories.authority_of(member), space, words, centres, dice)
        )
    return results


def _fill(
    source: Source, words: Words, centres: np.ndarray, dice: np.random.Generator, *, passages: int
) -> None:
    organization = source.organization
    blob = Blob.objects.create(
        organization=organization, digest=uuid.uuid4().hex, size=1, storage_name="none"
    )
    count = passages // PER_SOURCE_DOCUMENT
    common = {"organization": organization}
    documents = Document.objects.bulk_create(
        Document(
            **common,
            source=source,
            title=words.text(4),
            file_name="x",
            external_id=str(n),
            state="indexed",
        )
        for n in range(count)
    )
    versions = DocumentVersion.objects.bulk_create(
        DocumentVersion(**common, document=document, number=1, blob=blob, file_name="x")
        for document in documents
    )
    chunks = Chunk.objects.bulk_create(
        (
            Chunk(
                **common,
                version=version,
                document=version.document,
                ordinal=n,
                text=words.text(120),
                kind="paragraph",
                token_count=160,
            )
            for version in versions
            for n in range(PER_SOURCE_DOCUMENT)
        ),
        batch_size=500,
    )
    vectors = centres[dice.integers(0, TOPICS, len(chunks))] + 0.8 * dice.normal(
        size=(len(chunks), 384)
    )
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    parameters = {
        "organization_key": organization.key,
        "space": ensure_space(organization.pk, local_embedder()).key,
        "chunks": [row.pk for row in chunks],
        "title": "",
        "headings": [""] * len(chunks),
    }
    with transaction.atomic(), connection.cursor() as cursor:
        parameters["values"] = [vector_literal(vector) for vector in vectors]
        cursor.execute(INSERT_VECTORS, parameters)
        parameters["values"] = [row.text for row in chunks]
        cursor.execute(INSERT_LEXEMES, parameters)
    source.passage_count = len(chunks)
    source.save(update_fields=["passage_count"])


def _give(member: object, sources: list[Source], part: float) -> None:
    """Whole sources, and single documents of one more for what is left."""
    whole = int(part * SOURCES)
    for source in sources[:whole]:
        factories.grant(member, Verb.VIEW, source)  # type: ignore[arg-type]
    left = part * SOURCES - whole
    if left > 0:
        documents = list(sources[whole].documents.all())
        for document in documents[: round(left * len(documents))]:
            factories.grant(member, Verb.VIEW, document)  # type: ignore[arg-type]


def _compare(
    share: str,
    part: float,
    size: int,
    authority: Authority,
    space: int,
    words: Words,
    centres: np.ndarray,
    dice: np.random.Generator,
) -> Search:
    fixed = {
        **caller(authority)._asdict(),
        "sources": None,
        "space_digest": local_embedder().digest,
        "semantic_depth": DEPTH,
        "lexical_depth": DEPTH,
        "exact_up_to": EXACT_UP_TO,
        "fusion": FUSION,
        "per_document": PER_DOCUMENT,
        "limit": 10,
        "space": space,
        "depth": DEPTH,
    }
    mine, bare = [], []
    for number in range(ROUNDS + 5):
        vector = centres[dice.integers(0, TOPICS)] + 0.8 * dice.normal(size=384)
        question = {
            **fixed,
            "vector": vector_literal(vector / np.linalg.norm(vector)),
            "words": " ".join(words.words[at] for at in dice.integers(20, 2_000, 3)),
        }
        with_rights = _time(lambda question=question: _run(STATEMENT, question))
        without = _time(lambda question=question: _run(WITHOUT_RIGHTS, question))
        if number >= 5:
            mine.append(with_rights)
            bare.append(without)
    return Search(share, round(part * size), _percentiles(mine), _percentiles(bare))


def measure_ingest() -> Ingest:
    """The same documents embedded alone and brought the whole way."""
    words = Words(np.random.default_rng(SEED))
    organization = factories.make_organization()
    owner = factories.make_member(organization, role=Role.OWNER)
    source = factories.make_source(organization)
    factories.grant(owner, Verb.MANAGE, source)
    authority = factories.authority_of(owner)
    embedder = local_embedder(arena=True)
    embedder.embed_query("warm")
    files = [
        "\n\n".join(f"# {words.text(3)}\n\n{words.text(90)}." for _ in range(10)).encode()
        for _ in range(20)
    ]
    texts: list[list[str]] = []
    for data in files:
        parsed = parse(data, name="a.md")
        passages = chunk(parsed, count_tokens=embedder.count_tokens)
        texts.append([embedding_text(parsed.title, passage) for passage in passages])
    bare = whole = 0.0
    for number, data in enumerate(files):
        bare += _time(lambda number=number: embedder.embed_documents(texts[number]))

        def bring(number: int = number, data: bytes = data) -> None:
            document = upload(
                authority, source=source, file_name=f"{number}.md", data=data, start=False
            )
            ingest_document(document.pk, embedder=embedder)

        whole += _time(bring)
    count = sum(map(len, texts))
    return Ingest(count, 1000 * count / bare, 1000 * count / whole)


def _run(statement: str, parameters: dict[str, object]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)  # type: ignore[arg-type]
        cursor.fetchall()


def _time(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return 1000 * (time.perf_counter() - start)


def _percentiles(values: list[float]) -> tuple[float, float]:
    return statistics.median(values), statistics.quantiles(values, n=20)[-1]
