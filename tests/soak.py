"""`python -m tests.soak`: the reliability scripts at full rounds, with one fresh printed seed.

Adds a line to docs/reliability.md: date, commit, seed, what pytest said. Exits as pytest does.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "docs" / "reliability.md"


def main() -> int:
    """Run, report, and return pytest's exit code."""
    seed = os.environ.get("KAIZEN_SEED") or str(secrets.randbelow(1_000_000))
    sys.stdout.write(f"seed {seed}: repeat with KAIZEN_SEED={seed} make soak\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "soak or faults"],
        cwd=ROOT,
        env={**os.environ, "KAIZEN_ROUNDS": "soak", "KAIZEN_SEED": seed},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    sys.stdout.write(done.stdout)
    said = done.stdout.strip().splitlines()[-1].strip("= ")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    with REPORT.open("a") as report:
        report.write(f"| {datetime.now(tz=UTC):%Y-%m-%d} | {commit} | {seed} | {said} |\n")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
