"""Further tools, as an app that is installed would offer them."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict

from accounts.authority import Authority
from kaizen.kernel.tools import Danger, Effect, Tool, ToolOutcome

ALL = ["create_note", "list_notes", "search", "send_letter"]


class NoteArguments(BaseModel):
    """What a note needs."""

    model_config = ConfigDict(extra="forbid")
    title: str


class NoArguments(BaseModel):
    """Nothing."""

    model_config = ConfigDict(extra="forbid")


class Notes:
    """Two tools that count what they do, and one that reaches outside."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.refuse: Exception | None = None

    def create(self, authority: Authority, arguments: NoteArguments) -> ToolOutcome:
        if self.refuse is not None:
            raise self.refuse
        self.made.append(arguments.title)
        return ToolOutcome(record={"title": arguments.title}, empty=False, label="1 note")

    def list(self, authority: Authority, arguments: NoArguments) -> ToolOutcome:
        return ToolOutcome(record={"count": len(self.made)}, empty=not self.made, label="notes")

    @property
    def tools(self) -> dict[str, Tool]:
        common: dict[str, Any] = {
            "description": "For tests.",
            "danger": Danger.LOW,
            "project": lambda authority, record: json.dumps(record),
            "activity": lambda arguments: "noting",
        }
        return {
            "create_note": Tool(
                name="create_note",
                arguments=NoteArguments,
                effect=Effect.WRITE,
                handler=self.create,
                **common,
            ),
            "list_notes": Tool(
                name="list_notes",
                arguments=NoArguments,
                effect=Effect.READ,
                handler=self.list,
                **common,
            ),
            "send_letter": Tool(
                name="send_letter",
                arguments=NoArguments,
                effect=Effect.EXTERNAL,
                handler=self.list,
                **common,
            ),
        }
