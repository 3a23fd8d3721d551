"""The catalog: what is found, what is broken and why; configurations as plain fields."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import ClassVar, Literal

import pytest
from pydantic import BaseModel, Field, HttpUrl, SecretStr

from retrieval.connectors import catalog
from retrieval.connectors.catalog import find_entry, get_connector, list_entries
from retrieval.connectors.contract import ConnectorError
from retrieval.connectors.fields import Kind, dump, find_unsupported, list_fields, load
from tests.retrieval.connectors.upstream import UpstreamConfig, UpstreamConnector


def install(folder: Path, *, name: str, entries: dict[str, str], code: str) -> None:
    """A package as an installer leaves it."""
    (folder / f"{name}.py").write_text(code)
    information = folder / f"{name}-0.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    lines = "".join(f"{slug} = {place}\n" for slug, place in entries.items())
    (information / "entry_points.txt").write_text(f"[kaizen.connectors]\n{lines}")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose packages are installed."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_the_bundled_folder_connector_is_there() -> None:
    entry = find_entry("folder")
    assert entry is not None
    assert (entry.problem, entry.origin, entry.mirrors_acl) == ("", "Kaizen", False)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("raise RuntimeError('not today')", "RuntimeError: not today"),
        ("import nowhere_to_be_found", "ModuleNotFoundError: No module named"),
        ("Thing = 7", "It isn't a class."),
        ("class Thing: pass", "Its slug must be lower case"),
        ("class Thing:\n    slug = 'x'\n    title = 'X'", "It has no description."),
        (
            "class Thing:\n    slug = 'x'\n    title = description = 'X'\n    mirrors_acl = False",
            "It lacks check, list_changes, fetch, close.",
        ),
    ],
)
def test_a_broken_package_is_listed_with_its_reason(site: Path, code: str, problem: str) -> None:
    install(site, name="broken_thing", entries={"thing": "broken_thing:Thing"}, code=code)
    try:
        entry = find_entry("thing")
        assert entry is not None
        assert entry.problem.startswith(problem)
        assert entry.origin == "broken_thing 0.1"
        assert find_entry("folder") is not None
        with pytest.raises(ConnectorError, match="can't be used"):
            get_connector("thing")
    finally:
        sys.modules.pop("broken_thing", None)


def test_a_slug_of_ours_cannot_be_taken(site: Path) -> None:
    code = "from retrieval.connectors.folder import FolderConnector as Thing\n"
    install(site, name="usurper", entries={"folder": "usurper:Thing"}, code=code)
    try:
        entries = [entry for entry in list_entries() if entry.slug == "folder"]
        assert [(entry.origin, entry.problem) for entry in entries] == [
            ("Kaizen", ""),
            ("usurper 0.1", "The name “folder” is taken by Kaizen."),
        ]
    finally:
        sys.modules.pop("usurper", None)


def test_a_configuration_that_no_form_exists_for_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nested(BaseModel):
        inner: dict[str, int]

    monkeypatch.setattr(UpstreamConnector, "Config", Nested)
    monkeypatch.setattr(catalog, "BUNDLED", (f"{UpstreamConnector.__module__}:UpstreamConnector",))
    assert [entry.problem for entry in list_entries()] == ["No form can be made for inner."]


def test_an_unknown_connector_is_not_installed() -> None:
    with pytest.raises(ConnectorError, match="isn't installed"):
        get_connector("nope")


class Colour(Enum):
    RED = "r"
    DARK_BLUE = "b"


class Everything(BaseModel):
    """One of each."""

    name: str
    count: int = 3
    share: float | None = None
    on: bool = True
    mode: Literal["fast", "slow"] = "fast"
    colour: Colour = Colour.DARK_BLUE
    lines: list[str] = Field(default=["a", "b"])
    address: HttpUrl | None = None
    key: SecretStr
    spare: SecretStr | None = None

    model_config: ClassVar = {"title": "Everything"}


def test_each_type_has_its_input() -> None:
    described = {field.name: field for field in list_fields(Everything)}
    assert {name: field.kind for name, field in described.items()} == {
        "name": Kind.TEXT,
        "count": Kind.INTEGER,
        "share": Kind.NUMBER,
        "on": Kind.TICK,
        "mode": Kind.CHOICE,
        "colour": Kind.CHOICE,
        "lines": Kind.LINES,
        "address": Kind.TEXT,
        "key": Kind.SECRET,
        "spare": Kind.SECRET,
    }
    assert described["colour"].choices == (("r", "red"), ("b", "dark blue"))
    assert (described["colour"].default, described["lines"].default) == ("b", "a\nb")
    assert [name for name, field in described.items() if field.required] == ["name", "key"]


def test_secrets_are_kept_apart_and_come_back() -> None:
    config = Everything(name="n", key=SecretStr("k"), address=HttpUrl("https://example.org/"))
    opened, hidden = dump(config)
    assert hidden == {"key": "k"}
    assert "k" not in opened.values()
    assert load(Everything, opened, '{"key": "k"}') == config


def test_what_has_no_input_is_named() -> None:
    class Odd(BaseModel):
        fine: str
        nested: UpstreamConfig
        either: int | str

    assert find_unsupported(Odd) == ["nested", "either"]
