"""`python -m tests.bench [stage ...]`: measure, each stage in a process of its own.

Without a stage: all of them. BENCH_SIZE says how many passages (100000; also 1m).
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time

from tests.bench.server import ROOT, say

# In the order of what they need; each module has `run(size)`.
STAGES = (
    "world",
    "vector",
    "lexical",
    "hybrid",
    "forbidden",
    "peers",
    "growth",
    "grants",
    "ingest",
    "quality",
)


def size_of(text: str) -> int:
    """100000, 100_000, 100k or 1m."""
    text = text.lower().replace("_", "").replace(",", "")
    for ending, times in (("k", 1_000), ("m", 1_000_000)):
        if text.endswith(ending):
            return round(float(text[:-1]) * times)
    return int(text)


def run_stage(name: str, size: int) -> None:
    """One stage, in this process."""
    if name == "world":
        from tests.bench import world

        world.build(size)
    elif name in ("page", "functions"):
        importlib.import_module(f"tests.bench.{name}").run(size)
    else:
        importlib.import_module(f"tests.bench.stages.{name}").run(size)


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
        code = subprocess.call(command, cwd=ROOT, env={**os.environ, "BENCH_SIZE": str(size)})
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
