"""Who may import whom: `.importlinter` is run, and what it can't say is read from the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.architecture.sources import APPS, PACKAGES, ROOT, imports_of, product_files, tree_of

DOORS = ("api", "api_urls", "urls", "pages", "admin", "consumers", "jobs", "tools", "management")


def test_the_import_contracts_are_kept() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    if not linter.exists():
        pytest.skip("import-linter isn't installed: requirements-dev.txt")
    done = subprocess.run(
        [linter, "--no-logo", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Contracts: 9 kept, 0 broken." in done.stdout


@pytest.mark.parametrize("app", APPS)
def test_no_app_goes_through_another_apps_door(app: str) -> None:
    """Verbs, services, queries and models are for others; doors are not."""
    foreign = {f"{other}.{door}" for other in APPS if other != app for door in DOORS}
    found = {
        (str(path), name)
        for path in product_files()
        if path.parts[0] == app
        for name in imports_of(path)
        if any(name == door or name.startswith(f"{door}.") for door in foreign)
    }
    assert found == set()


def test_nothing_is_imported_relatively_or_with_a_star() -> None:
    found = [
        str(path)
        for path in product_files()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom)
        and (node.level or any(alias.name == "*" for alias in node.names))
    ]
    assert found == []


@pytest.mark.parametrize("package", PACKAGES)
def test_our_packages_are_ours(package: str) -> None:
    """Some of these names are packages on the public index too."""
    module = import_module(package)
    assert [Path(place).resolve() for place in module.__path__] == [ROOT / package]


def test_the_package_agents_is_empty() -> None:
    """So that `python -m agents.runtime` runs where Django isn't installed."""
    assert (ROOT / "agents" / "__init__.py").read_text() == ""
