"""Whether a tool call may happen: pure, so that it can be read and tested on its own. Unknown
means deny.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kaizen.kernel.tools import Effect, Tool


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may run."""

    tool: Tool


@dataclass(frozen=True, slots=True)
class Deny:
    """The call is refused; `reason` is told to the model and stands in the audit."""

    code: str
    reason: str


Decision = Allow | Deny


def decide(tool: Tool | None, *, name: str, granted: Collection[str]) -> Decision:
    """Decide on a call of `name` by an agent that was given the tools `granted`.

    Tools that change something outside are refused until they can be held for a person.
    """
    if tool is None:
        return Deny("unknown_tool", f"There is no tool called {name[:64]!r}.")
    if name not in granted:
        return Deny("tool_not_granted", f"This agent may not use the tool {name!r}.")
    if tool.effect is Effect.EXTERNAL:
        return Deny(
            "needs_approval",
            f"The tool {name!r} needs a person's approval, which can't be asked for here.",
        )
    return Allow(tool)
