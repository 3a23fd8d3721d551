"""The runtime's process: an interpreter without Django, an environment without secrets."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kaizen.embedded.supervisor import StackConfig, process_specs
from tests.architecture.sources import ROOT, imports_of, product_files

PYTHON = ROOT / ".kaizen" / "runtime-venv" / "bin" / "python"
OURS = ("kaizen", "tasks", "conversations", "retrieval", "accounts", "audit", "agents")


def run(code: str) -> subprocess.CompletedProcess[str]:
    if not PYTHON.exists():
        pytest.skip("the runtime's environment isn't made: make up, or make test")
    return subprocess.run(
        [PYTHON, "-c", code],
        cwd=ROOT,
        env={},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "package", ["django", "channels", "celery", "psycopg", "redis", "openai", "anthropic"]
)
def test_the_runtimes_interpreter_cannot_import(package: str) -> None:
    done = run(f"import {package}")
    assert done.returncode == 1
    assert f"No module named '{package}'" in done.stderr


def test_the_runtimes_interpreter_runs_the_runtime() -> None:
    done = run("import agents.runtime.__main__, agents.runtime.link, agents.runtime.loop")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_runtime_imports_nothing_of_ours_but_itself() -> None:
    found = {
        (str(path), name)
        for path in product_files()
        if path.parts[:2] == ("agents", "runtime")
        for name in imports_of(path)
        if name.partition(".")[0] in (*OURS, "django")
        and not (name == "agents.runtime" or name.startswith("agents.runtime."))
    }
    assert found == set()


def test_no_secret_reaches_the_runtimes_environment_or_arguments() -> None:
    """As the supervisor starts it: the token comes on standard input, and that is all it gets."""
    secrets = {
        "KAIZEN_SECRET_KEY": "canary-secret-key",
        "KAIZEN_FIELD_KEYS": "canary-field-keys",
        "DATABASE_URL": "postgresql://canary-database",
        "DATABASE_OWNER_URL": "postgresql://canary-owner",
        "VALKEY_URL": "redis://canary-valkey",
        "STORAGE_URL": "s3://canary-storage",
    }
    specs = process_specs(
        StackConfig(
            root=ROOT,
            home=Path("/nowhere"),
            python=Path("python"),
            runtime_python=PYTHON,
            environment=secrets,
            runtime_token="canary-token",
            port=1,
            listener=0,
        )
    )
    (runtime,) = (spec for spec in specs if spec.name == "runtime")
    assert set(runtime.environment) == {"PATH", "LANG"}
    assert "canary" not in f"{runtime.environment} {runtime.command}"
    assert runtime.standard_input == "canary-token"
    for spec in specs:
        assert "canary-owner" not in str(spec.environment), spec.name
        if spec.name not in ("web", "runtime"):
            assert "canary-token" not in str(spec.environment), spec.name
