"""The page that the measurements are written to."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime

from tests.bench.retrieval import Ingest, Search
from tests.servers import ROOT

PAGE = ROOT / "docs" / "performance.md"


def write_report(*, size: int, search: list[Search], ingest: Ingest) -> None:
    """Write docs/performance.md anew."""
    rows = [
        f"| {case.share} | {case.visible:,} | {case.mine[0]:.1f} / {case.mine[1]:.1f} "
        f"| {case.bare[0]:.1f} / {case.bare[1]:.1f} | {case.mine[0] / case.bare[0]:.2f} |"
        for case in search
    ]
    today = datetime.now(tz=UTC).date().isoformat()
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    page = f"""# Performance

Written by `make bench`. Believe the ratios: both sides of each were measured in turn, in one run on
one machine ({today}; {machine}; load {os.getloadavg()[0]:.1f} at the end).

## What rights cost a search

{size:,} passages of one organisation in 20 sources, made-up text and clustered vectors, questions
of three words. *With rights* is the product's own statement for a member who sees that share;
*without* is the same ranking and fusion over all passages. Milliseconds of the one SQL statement,
p50 / p95.

| the caller sees | passages | with rights | without | ratio of p50 |
|---|---|---|---|---|
{chr(10).join(rows)}

No index of one organisation's own is used on either side: distances are exact.

## What ingestion costs beyond embedding

| | passages a second |
|---|---|
| embedding alone | {ingest.bare:.1f} |
| the whole way from upload to index | {ingest.whole:.1f} |

{ingest.passages} passages; the whole way takes {ingest.bare / ingest.whole:.2f} times as long as
the embedding in it.
"""
    PAGE.write_text(page)
