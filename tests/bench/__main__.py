"""`python -m tests.bench`: measure on a PostgreSQL of its own and write docs/performance.md."""

from __future__ import annotations

import os
import sys

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"

import django

django.setup()

from tests import servers  # noqa: E402
from tests.bench.report import write_report  # noqa: E402
from tests.bench.retrieval import measure_ingest, measure_search  # noqa: E402


def main() -> None:
    """Build the world, measure, write."""
    servers.postgres()
    servers.create_database(servers.DATABASE)
    size = int(os.environ.get("BENCH_SIZE", "20000"))
    search, ingest = measure_search(size=size), measure_ingest()
    write_report(size=size, search=search, ingest=ingest)
    sys.stdout.write("written to docs/performance.md\n")


if __name__ == "__main__":
    main()
