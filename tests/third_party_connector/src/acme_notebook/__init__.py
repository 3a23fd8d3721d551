"""A connector as a package of its own: the notes of an Acme notebook, with their readers.

A notebook is a file of JSON lines, one change each, oldest first:

    {"note": "7", "revision": 3, "title": "...", "text": "...", "readers": ["ada@example.org"]}
    {"note": "7", "torn_out": true}

The checkpoint is the number of lines read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, Field, SecretStr

from retrieval.connectors.contract import (
    Acl,
    AclUnknown,
    ConnectorError,
    Fetched,
    Gone,
    Item,
    Page,
    Principal,
    PrincipalKind,
)

LINES_A_PAGE = 3


class Shelf(Enum):
    """Which notes."""

    ALL = "all"
    PINNED = "pinned"


class NotebookConfig(BaseModel):
    """Where the notebook lies."""

    path: Path = Field(title="Notebook", description="The notebook's file.")
    key: SecretStr = Field(title="Key", description="What the notebook is locked with.")
    shelf: Shelf = Field(default=Shelf.ALL, title="Which notes", description="Or only the pinned.")
    longest: int = Field(default=10_000, ge=1, title="Longest note", description="In characters.")
    labels: list[str] = Field(default=[], title="Labels", description="One a line.")


class NotebookConnector:
    """Reads one notebook."""

    slug: ClassVar[str] = "acme-notebook"
    title: ClassVar[str] = "Acme notebook"
    description: ClassVar[str] = "The notes of a notebook, with their readers."
    Config: ClassVar[type[BaseModel]] = NotebookConfig
    mirrors_acl: ClassVar[bool] = True

    def __init__(self, config: NotebookConfig) -> None:
        self._config = config

    def check(self) -> None:
        """Open the notebook."""
        self._lines()

    def list_changes(self, checkpoint: str | None) -> Iterator[Page]:
        """Lines after the checkpoint."""
        lines = self._lines()
        for start in range(int(checkpoint or 0), len(lines), LINES_A_PAGE):
            some = lines[start : start + LINES_A_PAGE]
            yield Page(
                changes=[self._change(line) for line in some], checkpoint=str(start + len(some))
            )

    def fetch(self, item: Item) -> Fetched | None:
        """The note's newest text."""
        text: str | None = None
        for line in self._lines():
            if line["note"] == item.external_id:
                text = None if line.get("torn_out") else line["text"]
        if text is None:
            return None
        return Fetched(text[: self._config.longest].encode(), "text/markdown")

    def close(self) -> None:
        """Nothing is open."""

    def _change(self, line: dict[str, Any]) -> Item | Gone:
        if line.get("torn_out"):
            return Gone(line["note"])
        if "readers" not in line:
            raise AclUnknown("The notebook doesn't say who may read it.")
        return Item(
            external_id=line["note"],
            revision=str(line["revision"]),
            file_name=f"{line['note']}.md",
            title=line["title"],
            path=f"notes/{line['note']}",
            tags=tuple(self._config.labels),
            acl=Acl(tuple(Principal(PrincipalKind.EMAIL, address) for address in line["readers"])),
        )

    def _lines(self) -> list[dict[str, Any]]:
        try:
            text = self._config.path.read_text(encoding="utf-8")
        except OSError as error:
            raise ConnectorError("The notebook can't be opened.") from error
        return [json.loads(line) for line in text.splitlines()]
