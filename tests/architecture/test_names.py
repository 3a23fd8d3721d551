"""What imports can't show: names in strings, one writer a table, sizes, paths in the documents."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from celery import current_app

from audit.events import EVENTS
from kaizen.celery import app
from tests.architecture.sources import (
    APPS,
    PACKAGES,
    ROOT,
    calls_of,
    name_of,
    product_files,
    strings_in,
    tree_of,
)

LONGEST_FILE = 400


# --- jobs


def _enqueued() -> Iterator[tuple[str, str]]:
    """Where a job is started, and its name, be it a text or a constant of a module."""
    for path, call in calls_of("enqueue"):
        if path == Path("kaizen/kernel/jobs.py"):
            continue
        module = import_module(".".join(path.with_suffix("").parts))
        match call.args[0]:
            case ast.Constant(str(name)):
                yield str(path), name
            case ast.Name(name):
                yield str(path), str(getattr(module, name))
            case _:
                raise AssertionError(f"{path}:{call.lineno} enqueues a name that can't be read")


def test_every_job_that_is_started_is_registered() -> None:
    app.loader.import_default_modules()
    started = dict(_enqueued()) | {
        f"beat: {name}": entry["task"] for name, entry in app.conf.beat_schedule.items()
    }
    assert len(started) >= 5
    assert {place: name for place, name in started.items() if name not in app.tasks} == {}


def test_every_registered_job_of_ours_is_started_somewhere() -> None:
    app.loader.import_default_modules()
    ours = {name for name in app.tasks if name.partition(".")[0] in PACKAGES}
    used = {name for _, name in _enqueued()}
    used |= {entry["task"] for entry in app.conf.beat_schedule.values()}
    assert ours == used


def test_one_celery_application_serves_web_and_worker() -> None:
    assert current_app.main == app.main == "kaizen"


# --- the audit's catalogue

RECORDERS = ("record", "record_system", "record_platform")


def _audited() -> Iterator[tuple[str, str]]:
    """Every action that is named in a call of a recorder, or kept in a constant for one."""
    names = re.compile(rf"(?:{'|'.join((*APPS, 'admin'))})\.[a-z_]+")
    for recorder in RECORDERS:
        for path, call in calls_of(recorder):
            for argument in call.args[:3]:
                for text in strings_in(argument):
                    if names.fullmatch(text):
                        yield f"{path}:{call.lineno}", text


def test_every_audited_action_is_in_the_catalogue() -> None:
    found = dict(_audited())
    assert len(found) > 30
    assert {place: name for place, name in found.items() if name not in EVENTS} == {}


def test_every_action_of_the_catalogue_is_used() -> None:
    catalogue = Path("audit/events.py")
    said = {
        text for path in product_files() if path != catalogue for text in strings_in(tree_of(path))
    }
    assert [name for name in EVENTS if name not in said] == []


# --- one writer a table

WRITERS = {
    "JournalEvent": {"conversations/journal.py"},
    "AuditEvent": {"audit/record.py"},
    "AuditPersonal": {"audit/record.py"},
    "AuditPending": {"audit/record.py"},
    "AuditLink": {"audit/chain.py"},
    "ModelCall": {"agents/calls.py"},
    "ToolCall": {"agents/calls.py"},
    "LedgerEntry": {"agents/calls.py"},
    "AgentVersion": {"agents/services.py"},
    "PromptVersion": {"agents/services.py"},
}
# Where the name is a frame's between runtime and backend.
SAME_NAME = {"ToolCall": {"conversations/bridge.py", "agents/runtime/testing.py"}}
WRITING = {"create", "bulk_create", "get_or_create", "update_or_create", "update", "bulk_update"}


def _writers(model: str) -> set[str]:
    """The files that make or change rows of `model`: `Model(...)`, `Model.objects...create()`."""
    found = set()
    for path in product_files():
        if "migrations" in path.parts or path.name == "models.py":
            continue
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.Call):
                continue
            makes = isinstance(node.func, ast.Name) and node.func.id == model
            changes = (
                isinstance(node.func, ast.Attribute)
                and node.func.attr in WRITING
                and _root(node.func) == model
            )
            if makes or changes:
                found.add(str(path))
    return found


def _root(node: ast.expr) -> str:
    """The name at the beginning of a chain of attributes and calls."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return name_of(node)


@pytest.mark.parametrize("model", WRITERS)
def test_only_its_writer_writes(model: str) -> None:
    assert _writers(model) - SAME_NAME.get(model, set()) == WRITERS[model]


def test_a_tool_call_elsewhere_is_a_frame() -> None:
    frame = import_module("agents.runtime.protocol").ToolCall
    for path in SAME_NAME["ToolCall"]:
        module = import_module(path.removesuffix(".py").replace("/", "."))
        assert module.ToolCall is frame, path


# --- sizes


def _our_files() -> Iterator[Path]:
    for folder in (*PACKAGES, "tests", "scripts"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path


def test_no_file_is_longer_than_400_lines() -> None:
    sizes = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in _our_files()
    }
    assert {path: size for path, size in sizes.items() if size > LONGEST_FILE} == {}


def test_there_are_no_rooms_for_odds_and_ends() -> None:
    names = {"utils.py", "helpers.py", "misc.py", "common.py"}
    assert [str(path) for path in _our_files() if path.name in names] == []


# --- documents


def _documents() -> list[Path]:
    pages = [ROOT / name for name in ("ARCHITECTURE.md", "README.md")]
    return [page for page in (*pages, *sorted((ROOT / "docs").rglob("*.md"))) if page.exists()]


_QUOTED = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(
    rf"(?:{'|'.join((*PACKAGES, 'tests', 'docs', 'templates', 'scripts'))})(?:/[\w.<>*-]+)+/?"
)
_FUNCTION = re.compile(rf"(?:{'|'.join(PACKAGES)})(?:\.[a-z_0-9]+)+(?:\.[A-Za-z_]\w*)?(?:\(\))?")
# Made when something runs, or patterns that stand for many.
_NOT_FILES = re.compile(r"[<>*]")


def _quoted(page: Path) -> Iterator[str]:
    yield from _QUOTED.findall(page.read_text(encoding="utf-8"))


def test_the_documents_name_real_paths() -> None:
    if not (ROOT / "ARCHITECTURE.md").exists():
        pytest.skip("there is no ARCHITECTURE.md yet")
    missing = [
        f"{page.relative_to(ROOT)}: {text}"
        for page in _documents()
        for text in _quoted(page)
        if _PATH.fullmatch(text) and not _NOT_FILES.search(text) and not (ROOT / text).exists()
    ]
    assert missing == []


def test_the_documents_name_real_modules_and_functions() -> None:
    missing = [
        f"{page.relative_to(ROOT)}: {text}"
        for page in _documents()
        for text in _quoted(page)
        if _FUNCTION.fullmatch(text) and not _exists(text.removesuffix("()"))
    ]
    assert missing == []


def _exists(dotted: str) -> bool:
    """Whether `dotted` is a module, or something in one, or a catalogued name of ours."""
    if dotted in EVENTS or dotted in app.tasks:
        return True
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:length])
        if not (place.is_dir() or place.with_suffix(".py").is_file()):
            continue
        found: object = import_module(".".join(parts[:length]))
        for name in parts[length:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


# --- the three traces: ARCHITECTURE.md says `path.py` name(...) or `module.name`

_CALL = re.compile(r"`(?P<path>[\w/]+\.py)`\s+`?(?P<name>[a-z_]\w+)\(")


def test_functions_named_after_their_file_exist() -> None:
    page = ROOT / "ARCHITECTURE.md"
    if not page.exists():
        pytest.skip("there is no ARCHITECTURE.md yet")
    for found in _CALL.finditer(page.read_text(encoding="utf-8")):
        path = Path(found["path"])
        names = {
            node.name
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        }
        assert found["name"] in names, found[0]
