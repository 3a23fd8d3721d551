"""Bad files survive (G18): each ends read or refused with a reason, quickly, in bounded memory, and
the good ones between them are read.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from retrieval.archives import expand_document
from retrieval.embedders.contract import Vectors
from retrieval.ingest.contract import ArchiveFound, ParseFailure
from retrieval.ingest.parse import Entry, parse, unpack
from retrieval.ingest.parser_pool import ParserPool
from retrieval.ingest.store import Ended, ingest_document
from retrieval.models import Document
from retrieval.parts import parts_of
from tests.conftest import SHARED
from tests.faults.hostile_files import Hostile, hostile_files
from tests.retrieval.conftest import Library, make_library
from tests.retrieval.ingest import samples

SEED = int(os.environ.get("KAIZEN_SEED", "20261"))
SOAK = os.environ.get("KAIZEN_ROUNDS") == "soak"
CASES = SHARED / "cases" if SHARED.is_dir() else None
MOST_SECONDS = 33.0  # what a file is allowed, and some for killing the process
MOST_GROWTH = 150 * 1024 * 1024
HEALTHY = {
    "a.md": (b"# Good\n\nGood words to find.", "Good"),
    "a.docx": (samples.docx(), "Travel rules"),
    "a.csv": (b"a,b\n1,2", "a"),
}

pytestmark = pytest.mark.soak


@cache
def everything() -> list[Hostile]:
    """All files: made once, when the first test asks."""
    return hostile_files(SEED, CASES)


def chosen(*, every: int) -> list[Hostile]:
    """All files in a soak, else one of so many and none that takes long."""
    return everything() if SOAK else [file for file in everything()[::every] if not file.slow]


def test_there_are_at_least_150_files_besides_the_shared_ones() -> None:
    labels = [file.label for file in everything() if not file.label.startswith("shared ")]
    assert len(set(labels)) == len(labels) >= 150


def test_each_file_ends_and_the_good_ones_between_are_read() -> None:
    pool = ParserPool()
    faults: list[str] = []
    codes: set[str] = set()
    for number, file in enumerate(chosen(every=6)):
        with _watched(pool) as grown:
            started = time.monotonic()
            codes.add(_read(file, pool))
            seconds = time.monotonic() - started
        if seconds > MOST_SECONDS:
            faults.append(f"{file.label}: took {seconds:.0f} s")
        if grown[0] > MOST_GROWTH:
            faults.append(f"{file.label}: grew by {grown[0] // 2**20} MB")
        if number % 10 == 0:
            for name, (data, title) in HEALTHY.items():
                assert parse(data, name=name, pool=pool).title == title, file.label
    pool.close()
    assert faults == []
    assert {"read", "corrupt"} <= codes
    if SOAK:  # All of them, not every tenth or so.
        assert {"unsupported", "mislabelled"} <= codes


def _read(file: Hostile, pool: ParserPool) -> str:
    """How reading it ended: read, unpacked, or the code of the failure, which has a sentence."""
    try:
        parsed = parse(file.data, name=file.name, pool=pool)
    except ArchiveFound:
        return _unpack(file, pool)
    except ParseFailure as failure:
        return _said(file, failure)
    assert parsed.blocks, file.label
    for text in (parsed.title, parsed.author, *parsed.tags, *parsed.warnings):
        text.encode()
        assert "\x00" not in text, file.label
    for block in parsed.blocks:
        block.text.encode()
        assert block.text.strip(), file.label
        assert "\x00" not in block.text, file.label
    return "read"


def _said(file: Hostile, failure: ParseFailure) -> str:
    assert failure.message.endswith("."), file.label
    return failure.code


def _unpack(file: Hostile, pool: ParserPool) -> str:
    try:
        for found in unpack(file.data, name=file.name, pool=pool):
            parts = found.path.split("/")
            if isinstance(found, Entry):
                assert ".." not in parts, file.label
                assert parts[0], file.label
            else:
                assert found.reason.endswith("."), file.label
    except ParseFailure as failure:
        return _said(file, failure)
    return "unpacked"


@contextmanager
def _watched(pool: ParserPool) -> Iterator[list[int]]:
    """By how many bytes the parser process grew at most while the block ran, here or in the
    process that took its place.
    """
    grown = [0]
    done = threading.Event()
    parser = pool._all[0]
    first: dict[int, int] = {}

    def watch() -> None:
        while not done.wait(0.02):
            pid = parser.pid
            size = _resident(pid) if pid is not None else 0
            if pid is not None and size:
                # A process that has just begun is still loading its libraries.
                start = first.setdefault(pid, max(size, 60 * 2**20))
                grown[0] = max(grown[0], size - start)

    if parser.pid is not None:
        first[parser.pid] = _resident(parser.pid)
    thread = threading.Thread(target=watch)
    thread.start()
    yield grown
    done.set()
    thread.join()


def _resident(pid: int) -> int:
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class CheapEmbedder:
    """Vectors that say nothing, at once: what is tried here is everything before them."""

    model, digest, dimension = "cheap", "cheap", 384

    def embed_query(self, text: str) -> Vectors:
        """See `Embedder`."""
        return self.embed_documents([text])[0]

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`."""
        return np.full((len(texts), 384), 384**-0.5, dtype=np.float32)

    def count_tokens(self, text: str) -> int:
        """See `Embedder`."""
        return -(-len(text) // 4)


@pytest.fixture
def library(db: None) -> Library:
    """An organisation with a source to upload into."""
    return make_library()


def test_uploaded_files_end_indexed_or_failed_with_a_reason(library: Library) -> None:
    """Through the real upload, the real parser and the real index, good files in between."""
    client = Client()
    client.force_login(library.owner.user)
    base = f"/o/{library.organization.slug}/api/v1/sources/{library.source.pk}/documents/"

    def put(name: str, data: bytes, key: str) -> Document:
        body = {"file": SimpleUploadedFile(name, data), "external_id": key}
        answer = client.post(base, body)
        assert answer.status_code == 201, (key, answer.content[:300])
        document = Document.objects.get(pk=answer.json()["id"])
        _finish(document)
        return document

    for number, file in enumerate(chosen(every=30)):
        document = put(file.name, file.data, f"bad {number}")
        if document.state == Document.State.FAILED:
            assert document.state_code, file.label
            assert document.state_message.endswith("."), file.label
        else:
            assert document.state == Document.State.INDEXED, (file.label, document.state)
        if number % 5 == 0:
            for name, (data, title) in HEALTHY.items():
                good = put(name, data + b" " * (number % 2), f"good {number} {name}")
                assert (good.state, good.title) == (Document.State.INDEXED, title), file.label


def _finish(document: Document) -> None:
    """Do what the workers do."""
    if ingest_document(document.pk, embedder=CheapEmbedder()).ended is Ended.UNPACKING:
        expand_document(document.pk)
    document.refresh_from_db()
    if document.state_code == "expanded":
        for part in list(parts_of(document))[:5]:
            _finish(part)
            assert part.state in (Document.State.INDEXED, Document.State.FAILED), part.path
