"""What a tool is: a declaration that each app offers in its own `tools.py` as `TOOLS`.

The declaration carries everything the guard needs to decide; the handler is the same service
function that the pages and the API call. The registry that collects them is
`agents.guard.registry`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

if TYPE_CHECKING:
    from accounts.authority import Authority


class Effect(StrEnum):
    """What calling a tool does: nothing, a change in our own database, or something outside."""

    READ = "read"
    WRITE = "write"
    EXTERNAL = "external"


class Danger(StrEnum):
    """How much harm a wrong call can do; policy and approvals read it."""

    SAFE = "safe"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """What a handler returns.

    Attributes:
        record: what the journal keeps: ids, versions and digests, never source text.
        empty: nothing was found or done; the loop uses it to notice that it goes round in circles.
        label: a short sentence for the living line ("3 passages").
    """

    record: dict[str, Any]
    empty: bool
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A declared tool.

    Attributes:
        name: unique over all apps, snake_case.
        description: for the model: what it does and when to use it.
        arguments: pydantic model; unknown members are refused.
        effect, danger: see the enums.
        handler: (authority, arguments) -> ToolOutcome. Raises KaizenError for what the model may
        know. project: (authority, record) -> text for the model, re-read under the caller's live
        permission. activity: (arguments) -> "searching ..." for the living line.
        max_projection: bound of the projected text, in characters.
        outside: the handler waits for somebody else's server. It only reads, is run without a
        transaction and opens its own scopes; a call that was broken off may run again.
    """

    name: str
    description: str
    arguments: type[BaseModel]
    effect: Effect
    danger: Danger
    handler: Callable[[Authority, Any], ToolOutcome]
    project: Callable[[Authority, dict[str, Any]], str]
    activity: Callable[[Any], str]
    max_projection: int = 24_000
    outside: bool = False
