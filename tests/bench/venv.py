"""The environment of what Kaizen is measured beside: made once, from `requirements.txt` here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.bench.server import ROOT, say

FOLDER = ROOT / ".kaizen" / "bench-venv"
PYTHON = FOLDER / "bin" / "python"
PROGRAMS = Path(__file__).parent / "peers"
_WANTED = Path(__file__).with_name("requirements.txt")


def ensure() -> bool:
    """Make it or bring it up to date. False, with a sentence, where that can't be done."""
    stamp = FOLDER / "kaizen-requirements"
    wanted = _WANTED.read_text()
    if stamp.exists() and stamp.read_text() == wanted:
        return True
    say("installing what is measured beside ...")
    uv = ROOT / ".venv" / "bin" / "uv"
    install = (
        [str(uv), "pip", "install", "--quiet", "--python", str(PYTHON)]
        if uv.exists()
        else [str(PYTHON), "-m", "pip", "install", "--quiet"]
    )
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(FOLDER)],
        [*install, "-r", str(_WANTED)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            say(f"not installed, so not measured: {done.stderr.strip()[-400:]}")
            return False
    stamp.write_text(wanted)
    return True


def run(program: str, *arguments: str) -> str:
    """What a program of the peers writes. Raises RuntimeError with its last words."""
    done = subprocess.run(
        [str(PYTHON), str(PROGRAMS / f"{program}.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{program}: {done.stderr.strip()[-800:]}")
    return done.stdout


class Peer:
    """A running program that answers questions. `settings` are the ways it can search."""

    def __init__(self, program: str, folder: Path) -> None:
        self.name = program
        self._errors = (folder / f"{program}.log").open("w")
        self._process = subprocess.Popen(
            [str(PYTHON), str(PROGRAMS / f"{program}.py"), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=folder,
        )
        self.settings: list[str] = self._read()["settings"]

    def ask(
        self, *, question: int, tenant: int, principals: Sequence[int], setting: str, limit: int
    ) -> tuple[float, list[int]]:
        """Milliseconds inside the peer, and the keys that it found."""
        task = {
            "question": question,
            "tenant": tenant,
            "principals": list(principals),
            "setting": setting,
            "limit": limit,
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        answer = self._read()
        return float(answer["ms"]), list(answer["keys"])

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise RuntimeError(f"{self.name} ended: see {self._errors.name}")

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._errors.close()
