"""The runtime imports the standard library, pydantic, websockets and itself: nothing else."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import agents.runtime

ROOM = Path(agents.runtime.__file__).parent
ALLOWED = {"pydantic", "websockets"}


def imports(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def is_allowed(name: str) -> bool:
    top = name.partition(".")[0]
    ours = name == "agents.runtime" or name.startswith("agents.runtime.")
    return ours or top in ALLOWED or top in sys.stdlib_module_names


def test_every_import_of_the_runtime_is_allowed() -> None:
    found = {
        (path.name, name)
        for path in sorted(ROOM.rglob("*.py"))
        for name in imports(path.read_text(encoding="utf-8"))
    }
    assert ("loop.py", "agents.runtime") in found
    assert {(path, name) for path, name in found if not is_allowed(name)} == set()


def test_what_is_not_allowed_would_be_found() -> None:
    source = "import django.db\nfrom agents import models\nfrom . import x\nimport agents.runtimes"
    assert [name for name in imports(source) if not is_allowed(name)] == [
        "django.db",
        "agents",
        ".",
        "agents.runtimes",
    ]


def test_nothing_is_imported_by_name_at_run_time() -> None:
    for path in ROOM.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        assert "importlib" not in source, path.name
        assert "__import__" not in source, path.name


def test_the_package_above_is_empty() -> None:
    assert (ROOM.parent / "__init__.py").read_text(encoding="utf-8") == ""


def test_the_loop_stays_small() -> None:
    assert len((ROOM / "loop.py").read_text(encoding="utf-8").splitlines()) < 200
