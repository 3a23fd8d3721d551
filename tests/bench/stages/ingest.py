"""Ingestion: the whole way from upload to index beside the embedding model alone, in turn on the
same documents; parsing alone by format; the memory of one worker.
"""

from __future__ import annotations

import os
import re
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from django.db import connection

from accounts.models import Role
from accounts.permissions import Verb
from retrieval.documents import upload
from retrieval.embedders.local import local_embedder
from retrieval.ingest.chunk import chunk, embedding_text
from retrieval.ingest.parse import parse
from retrieval.ingest.store import Ended, ingest_document
from tests import factories
from tests.bench import files, results
from tests.bench.server import ROOT, say
from tests.bench.timing import timed

_DOCUMENTS = int(os.environ.get("BENCH_DOCUMENTS", "40"))
_PARSE_SECONDS = 2.0


def run() -> None:
    """Measure and keep."""
    data: dict[str, Any] = {"whole": measure_whole()}
    say(f"whole way {data['whole']['share']} of embedding alone")
    data["parse"] = {name: measure_parse(name, content) for name, content in files.make().items()}
    data["memory"] = measure_memory()
    results.write("ingest", 0, data)


def measure_whole() -> dict[str, Any]:
    """Passages a second, embedding alone and the whole way, and the ratio of each document's two
    times.
    """
    organization = factories.make_organization()
    owner = factories.make_member(organization, role=Role.OWNER)
    source = factories.make_source(organization)
    factories.grant(owner, Verb.MANAGE, source)
    authority = factories.authority_of(owner)
    embedder = local_embedder(arena=True)
    embedder.embed_query("warm")
    alone = whole = 0.0
    count, shares = 0, []
    for number, data in enumerate(files.pages(_DOCUMENTS + 2)):
        parsed = parse(data, name="a.md")
        passages = chunk(parsed, count_tokens=embedder.count_tokens)
        texts = [embedding_text(parsed.title, passage) for passage in passages]

        def bring(number: int = number, data: bytes = data) -> None:
            document = upload(
                authority, source=source, file_name=f"{number}.md", data=data, start=False
            )
            ended = ingest_document(document.pk, embedder=embedder)
            if ended.ended is not Ended.INDEXED:
                raise RuntimeError(f"not indexed: {ended}")

        acts = [lambda texts=texts: embedder.embed_documents(texts), bring]  # type: ignore[misc]
        spent = {0: 0.0, 1: 0.0}
        for at in (0, 1) if number % 2 else (1, 0):
            spent[at] = timed(acts[at])[0]
        if number < 2:
            continue
        alone, whole, count = alone + spent[0], whole + spent[1], count + len(texts)
        shares.append(spent[0] / spent[1])
    return {
        "passages": count,
        "alone": round(1000 * count / alone, 1),
        "whole": round(1000 * count / whole, 1),
        "share": round(alone / whole, 3),
        "share_median": round(statistics.median(shares), 3),
    }


def measure_parse(name: str, content: bytes) -> dict[str, Any]:
    """Megabytes a second of reading one file again and again."""
    parse(content, name=name)
    rounds, began = 0, time.perf_counter()
    while time.perf_counter() - began < _PARSE_SECONDS or rounds < 2:
        parsed = parse(content, name=name)
        rounds += 1
    seconds = (time.perf_counter() - began) / rounds
    letters = sum(len(block.text) for block in parsed.blocks)
    return {
        "bytes": len(content),
        "megabytes_a_second": round(len(content) / 1e6 / seconds, 2),
        "letters_a_second": round(letters / seconds),
    }


def measure_memory() -> dict[str, Any]:
    """Peak resident memory of a process that ingests as a worker does, and of its parser."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "weigh"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the worker to weigh failed: {done.stderr[-600:]}")
    before, after, parser = map(int, done.stdout.split()[-3:])
    return {
        "before_megabytes": before,
        "peak_megabytes": after,
        "parser_megabytes": parser,
    }


def _peak(process: int | str) -> int:
    """The most memory that a process ever held, in megabytes."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+)", status)
    return int(found[1]) // 1024 if found else 0


def weigh() -> None:
    """What `measure_memory` runs: some documents of every format, then the peaks."""
    connection.ensure_connection()
    before = _peak("self")
    organization = factories.make_organization("weighed")
    person = factories.make_user("weighed@example.org")
    owner = factories.make_member(organization, role=Role.OWNER, user=person)
    source = factories.make_source(organization)
    factories.grant(owner, Verb.MANAGE, source)
    authority = factories.authority_of(owner)
    named = {f"{number}.md": data for number, data in enumerate(files.pages(10))}
    for name, data in (named | files.make(scale=0.2)).items():
        document = upload(authority, source=source, file_name=name, data=data, start=False)
        ingest_document(document.pk)
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    ended = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    parser = max([ended, *map(_peak, children)])
    sys.stdout.write(f"{before} {_peak('self')} {parser}\n")
