"""The way in: an old Python gets a sentence, and the locks pin everything by hash."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
GATE = ROOT / "scripts" / "bootstrap.py"
LOCKS = (
    "requirements.lock",
    "requirements-dev.lock",
    "requirements-nodeps.txt",
    "agents/runtime/requirements.lock",
    "scripts/installer.lock",
)


def test_gate_parses_on_an_old_python() -> None:
    ast.parse(GATE.read_text(), feature_version=(3, 6))


def test_old_python_gets_a_sentence() -> None:
    code = (
        "import runpy, sys; sys.version_info = (3, 9, 2); "
        f"runpy.run_path({str(GATE)!r}, run_name='__main__')"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 1
    assert answer.stderr.startswith("Kaizen needs Python 3.11 or newer, and this is Python 3.9.2")
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("name", LOCKS)
def test_every_pin_has_a_hash(name: str) -> None:
    text = (ROOT / name).read_text()
    pins = re.findall(r"^[A-Za-z0-9_.\-\[\],]+==\S+", text, re.MULTILINE)
    hashed = re.findall(r"^[A-Za-z0-9_.\-\[\],]+==[^\n]*\\\n    --hash=sha256:", text, re.MULTILINE)
    assert pins
    assert len(pins) == len(hashed)


@pytest.mark.parametrize("name", LOCKS)
def test_no_lock_names_a_place_to_download_from(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text


def test_runtime_has_the_same_versions_as_the_backend() -> None:
    backend = set(re.findall(r"^(\S+==\S+)", (ROOT / LOCKS[0]).read_text(), re.MULTILINE))
    runtime = set(re.findall(r"^(\S+==\S+)", (ROOT / LOCKS[3]).read_text(), re.MULTILINE))
    assert runtime <= backend


def test_runtime_needs_no_django() -> None:
    text = (ROOT / "agents" / "runtime" / "requirements.lock").read_text().lower()
    assert "django" not in text
