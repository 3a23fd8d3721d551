"""`python -m tests.bench [stage ...]`: measure, each stage in a process of its own.

Without a stage: all of them. BENCH_SIZE says how many passages (100000; also 1m).
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time

from tests.bench import world
from tests.bench.server import ROOT, say

# Measured in the world of the asked size, then in fresh databases.
WORLD_STAGES = ("vector", "lexical", "hybrid", "forbidden", "peers", "growth", "grants")
FRESH_STAGES = ("ingest", "quality")
STAGES = ("world", *WORLD_STAGES, *FRESH_STAGES)
# Threads of numpy go on spinning after a product, on the processor that is to be measured.
QUIET = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def size_of(text: str) -> int:
    """100000, 100_000, 100k or 1m."""
    text = text.lower().replace("_", "").replace(",", "")
    for ending, times in (("k", 1_000), ("m", 1_000_000)):
        if text.endswith(ending):
            return round(float(text[:-1]) * times)
    return int(text)


def run_stage(name: str, size: int) -> None:
    """One stage, in this process. What needs Django is imported once the database is known."""
    if name == "world":
        world.build(size)
    elif name == "weigh":
        world.prepare_worker()
        importlib.import_module("tests.bench.stages.ingest").weigh()
    elif name == "page":
        importlib.import_module("tests.bench.page").write()
    elif name in FRESH_STAGES:
        with world.fresh(name):
            importlib.import_module(f"tests.bench.stages.{name}").run()
    elif name in (*WORLD_STAGES, "functions"):
        with world.opened(size) as opened:
            if name == "functions":
                importlib.import_module("tests.bench.functions").renew(opened)
                return
            importlib.import_module("tests.bench.scene").make_ready(opened)
            importlib.import_module(f"tests.bench.stages.{name}").run(opened)
    else:
        raise SystemExit(f"no such stage: {name} (there are {', '.join(STAGES)}, page, functions)")


def main(arguments: list[str]) -> int:
    """Run the stages that are named, or all; a stage that fails does not end the others."""
    size = size_of(os.environ.get("BENCH_SIZE", "100000"))
    if len(arguments) == 1:
        run_stage(arguments[0], size)
        return 0
    failed = []
    began = time.monotonic()
    for name in arguments or STAGES:
        say(f"== {name}, {size:,} passages")
        command = [sys.executable, "-m", "tests.bench", name]
        quiet = QUIET if name in WORLD_STAGES else {}
        env = {**os.environ, **quiet, "BENCH_SIZE": str(size)}
        code = subprocess.call(command, cwd=ROOT, env=env)
        if code:
            failed.append(name)
            if name == "world":
                break
    run_stage("page", size)
    spent = time.monotonic() - began
    say(f"{spent / 60:.1f} minutes in all; written to docs/performance.md")
    if failed:
        say(f"failed: {', '.join(failed)}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
