"""Our own source files, parsed, for the tests that read them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APPS = ("tasks", "conversations", "agents", "retrieval", "accounts", "audit")
PACKAGES = ("kaizen", *APPS)


@cache
def product_files() -> tuple[Path, ...]:
    """Every Python file of the product, relative to the root."""
    return tuple(
        path.relative_to(ROOT)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    )


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file named relative to the root."""
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), filename=str(path))


def calls_of(name: str) -> Iterator[tuple[Path, ast.Call]]:
    """Every call of something called `name`, as a name or an attribute."""
    for path in product_files():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and name_of(node.func) == name:
                yield path, node


def name_of(node: ast.expr) -> str:
    """The last part of a name: `b` of `a.b`."""
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(attr=name):
            return name
        case _:
            return ""


def strings_in(node: ast.AST) -> Iterator[str]:
    """Every text constant below `node`."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


def imports_of(path: Path) -> Iterator[str]:
    """The modules that a file imports; `from a import b` counts as a.b too."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
