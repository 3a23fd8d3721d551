"""What was measured, one JSON file a part and size under docs/performance/, so that a run of one
size leaves the others' figures standing.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kaizen.embedded.tuning import machine_megabytes
from tests.bench.server import ROOT, say
from tests.bench.shape import BUILD_SEED, JUDGE_SEED

FOLDER = Path(os.environ.get("KAIZEN_BENCH_RESULTS") or ROOT / "docs" / "performance")


def write(part: str, size: int, data: dict[str, Any]) -> None:
    """Keep what a stage measured, with when and where."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    about = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "commit": commit,
        "size": size,
        "build_seed": BUILD_SEED,
        "judge_seed": JUDGE_SEED,
        "machine": f"{os.cpu_count()} cores, {machine_megabytes() // 1024} GB, "
        f"{platform.machine()}, Python {platform.python_version()}",
        "load_before_end": round(os.getloadavg()[0], 1),
    }
    path = FOLDER / f"{part}-{size}.json"
    path.write_text(json.dumps({"about": about, **data}, indent=1) + "\n")
    say(f"kept in {path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}")


def read(part: str) -> dict[int, dict[str, Any]]:
    """What is kept of a part, by size."""
    found = {}
    for path in sorted(FOLDER.glob(f"{part}-*.json")):
        found[int(path.stem.rpartition("-")[2])] = json.loads(path.read_text())
    return dict(sorted(found.items()))
