"""How good the answers are: Cranfield through the product's own search beside bm25s, and fifty
questions over the handbook.

Every judged pair of Cranfield counts as relevant with gain 1. A document ranks where its first
passage does.
"""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import UUID

from accounts.authority import Authority
from accounts.models import Role
from accounts.permissions import Verb
from retrieval import search as searching
from retrieval.documents import upload
from retrieval.embedders.local import local_embedder
from retrieval.ingest.store import ingest_document
from retrieval.models import Document
from retrieval.postings import fold_organization
from retrieval.search import MOST_HITS, Mode, search
from retrieval.statement import FACET_DEPTH
from tests import factories
from tests.bench import results, venv
from tests.bench.handbook_questions import FIFTY
from tests.bench.server import ROOT, say

SHARED = Path(os.environ.get("KAIZEN_SHARED") or ROOT.parent / "shared")
_ALL = 200


def run() -> None:
    """Measure what data there is, and keep."""
    data = {}
    for name, folder, measure in (
        ("cranfield", SHARED / "data" / "cranfield", measure_cranfield),
        ("handbook", SHARED / "data" / "handbook", measure_handbook),
    ):
        if folder.is_dir():
            data[name] = measure(folder)
            say(f"{name}: {data[name]}")
        else:
            say(f"no {folder}: {name} is not measured")
    results.write("quality", 0, data)


@dataclass(frozen=True)
class Collection:
    """Documents (title, text), questions, and the numbers of the documents that fit each."""

    documents: list[tuple[str, str]]
    questions: list[str]
    relevant: list[set[int]]


def read_cranfield(folder: Path) -> Collection:
    """The collection; questions are numbered by their place in the file."""
    documents = [
        (_flat(fields.get("T", "")), _flat(fields.get("W", "")))
        for fields in _records(folder / "cran.all.1400")
    ]
    questions = [_flat(fields.get("W", "")) for fields in _records(folder / "cran.qry")]
    relevant: list[set[int]] = [set() for _ in questions]
    for line in (folder / "cranqrel").read_text().splitlines():
        numbers = line.split()
        if len(numbers) >= 2:
            relevant[int(numbers[0]) - 1].add(int(numbers[1]) - 1)
    return Collection(documents, questions, relevant)


def _records(path: Path) -> Iterator[dict[str, str]]:
    for record in re.split(r"^\.I \d+\s*$", path.read_text(), flags=re.MULTILINE)[1:]:
        parts = re.split(r"^\.([TABW])\s*$", record, flags=re.MULTILINE)
        yield dict(zip(parts[1::2], parts[2::2], strict=True))


def _flat(text: str) -> str:
    return " ".join(text.split())


def measure_cranfield(folder: Path) -> dict[str, Any]:
    """The product's three modes, and bm25s over the same texts."""
    collection = read_cranfield(folder)
    library = _Library("Cranfield")
    places = {}
    for number, (title, text) in enumerate(collection.documents):
        # The abstract repeats its title; an empty one has nothing to index.
        document = library.add(f"{number}.txt", text or title, title=title)
        places[document] = number
        if number % 200 == 199:
            say(f"  {number + 1:,} abstracts")
    library.settle()

    def rank(question: str, mode: Mode, limit: int) -> list[int]:
        hits = search(library.reader, query=question, mode=mode, limit=limit).hits
        return list(dict.fromkeys(places[hit.document_id] for hit in hits))

    measured: dict[str, Any] = {}
    for mode in Mode:
        shown = [rank(question, mode, MOST_HITS) for question in collection.questions]
        with _deep():
            deep = [rank(question, mode, _ALL) for question in collection.questions]
        # As people get it, and for recall with branches as deep as for facets.
        measured[mode.value] = _judge(shown, collection.relevant)
        measured[f"{mode.value}, deep"] = _judge(deep, collection.relevant)
    if venv.ensure():
        measured["bm25s"] = _judge(_ask_bm25s(collection), collection.relevant)
    return measured


def _ask_bm25s(collection: Collection) -> list[list[int]]:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        texts = [f"{title} {text}" for title, text in collection.documents]
        json.dump({"texts": texts, "questions": collection.questions, "depth": _ALL}, file)
        file.flush()
        rankings: list[list[int]] = json.loads(venv.run("bm25", file.name))
    return rankings


def _judge(rankings: Sequence[Sequence[int]], relevant: Sequence[set[int]]) -> dict[str, float]:
    """nDCG@10 and recall@100, over the questions that have an answer."""
    pairs = [
        (ranking, wanted) for ranking, wanted in zip(rankings, relevant, strict=True) if wanted
    ]
    gains, found = 0.0, 0.0
    for ranking, wanted in pairs:
        gain = _discounted(at for at, number in enumerate(ranking[:10]) if number in wanted)
        gains += gain / _discounted(range(min(10, len(wanted))))
        found += len(wanted & set(ranking[:100])) / len(wanted)
    return {
        "ndcg_10": round(gains / len(pairs), 4),
        "recall_100": round(found / len(pairs), 4),
        "questions": len(pairs),
    }


def _discounted(places: Iterable[int]) -> float:
    return sum(1 / math.log2(at + 2) for at in places)


def measure_handbook(folder: Path) -> dict[str, Any]:
    """In how many of fifty questions the right page is among the first three and the first ten."""
    library = _Library("Handbook")
    paths = {}
    for file in sorted(folder.rglob("*.md")):
        path = str(file.relative_to(folder))
        document = library.add(file.name, file.read_text(), external_id=path)
        paths[document] = path
    library.settle()
    found: dict[str, Any] = {"pages": len(paths), "questions": len(FIFTY)}
    for mode in Mode:
        ranks = []
        for question, page in FIFTY:
            hits = search(library.reader, query=question, mode=mode, limit=30).hits
            pages = list(dict.fromkeys(paths[hit.document_id] for hit in hits))
            ranks.append(pages.index(page) + 1 if page in pages else 0)
        found[mode.value] = {
            "top_3": sum(0 < rank <= 3 for rank in ranks),
            "top_10": sum(0 < rank <= 10 for rank in ranks),
            "missed": [FIFTY[at][1] for at, rank in enumerate(ranks) if not 0 < rank <= 10],
        }
    return found


class _Library:
    """A source filled by the product's own upload and reading, and a member who may see it."""

    def __init__(self, name: str) -> None:
        self.organization = factories.make_organization()
        owner = factories.make_member(self.organization, role=Role.OWNER)
        self.source = factories.make_source(self.organization, name=name)
        factories.grant(owner, Verb.MANAGE, self.source)
        member = factories.make_member(self.organization)
        factories.grant(member, Verb.VIEW, self.source)
        self.owner: Authority = factories.authority_of(owner)
        self.reader: Authority = factories.authority_of(member)
        self._embedder = local_embedder(arena=True)

    def add(self, name: str, text: str, **more: str) -> UUID:
        """Upload and read; what can't be read stays out."""
        data = (text or "-").encode()
        document: Document = upload(
            self.owner, source=self.source, file_name=name, data=data, start=False, **more
        )
        ingest_document(document.pk, embedder=self._embedder)
        return document.pk

    def settle(self) -> None:
        """Fold the tail, as the worker does in the background."""
        self.organization.refresh_from_db()
        fold_organization(self.organization.key)


@contextmanager
def _deep() -> Iterator[None]:
    """Rankings of a hundred documents and more, for recall: branches as deep as for facets."""
    with (
        mock.patch.object(searching, "MOST_HITS", _ALL),
        mock.patch.object(searching, "DEPTH", FACET_DEPTH),
    ):
        yield
