"""The tools there are: collected from every installed app's `tools.py`, as Django finds
`admin.py`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec

from django.apps import apps

from kaizen.kernel.tools import Tool


@cache
def tools() -> dict[str, Tool]:
    """Every declared tool by name. Raises ValueError when two apps declare the same name."""
    found: dict[str, Tool] = {}
    for config in apps.get_app_configs():
        name = f"{config.name}.tools"
        if find_spec(name) is None:
            continue
        for tool in getattr(import_module(name), "TOOLS", ()):
            if tool.name in found:
                raise ValueError(f"two tools are called {tool.name!r}")
            found[tool.name] = tool
    return found


def find_tool(name: str) -> Tool | None:
    """The tool called `name`, or None."""
    return tools().get(name)


def tool_names() -> list[str]:
    """The names an admin may tick, in order."""
    return sorted(tools())
