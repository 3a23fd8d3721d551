"""The decisions on tool calls and the bound of what the model sees: pure tables."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pydantic import BaseModel

from agents.guard.policy import Allow, Deny, decide
from agents.guard.projection import bounded
from agents.guard.registry import tool_names, tools
from kaizen.kernel.tools import Danger, Effect, Tool


def tool(effect: Effect) -> Tool:
    return Tool(
        name="t",
        description="",
        arguments=BaseModel,
        effect=effect,
        danger=Danger.SAFE,
        handler=cast(Any, None),
        project=cast(Any, None),
        activity=cast(Any, None),
    )


@pytest.mark.parametrize(
    ("effect", "granted", "code"),
    [
        (Effect.READ, ["t"], None),
        (Effect.WRITE, ["t"], None),
        (Effect.EXTERNAL, ["t"], "needs_approval"),
        (Effect.READ, [], "tool_not_granted"),
        (Effect.READ, ["tt", "T"], "tool_not_granted"),
        (Effect.EXTERNAL, [], "tool_not_granted"),
        (None, ["t"], "unknown_tool"),
        (None, [], "unknown_tool"),
    ],
)
def test_the_table_of_decisions(
    effect: Effect | None, granted: list[str], code: str | None
) -> None:
    asked = None if effect is None else tool(effect)
    decision = decide(asked, name="t", granted=granted)
    if code is None:
        assert decision == Allow(cast(Tool, asked))
    else:
        assert isinstance(decision, Deny)
        assert decision.code == code
        assert "'t'" in decision.reason


def test_a_reason_quotes_at_most_64_characters_of_a_made_up_name() -> None:
    decision = decide(None, name="x" * 1000, granted=[])
    assert isinstance(decision, Deny)
    assert decision.reason == f"There is no tool called '{'x' * 64}'."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("abcd", "abcd"),
        ("abcde", "abcd\n[cut: 4 of 5 characters are shown]"),
        ("🌍🌍🌍🌍🌍🌍", "🌍🌍🌍🌍\n[cut: 4 of 6 characters are shown]"),
    ],
)
def test_a_projection_is_bounded_and_says_so(text: str, shown: str) -> None:
    assert bounded(text, limit=4) == shown


def test_the_tools_of_this_product() -> None:
    assert tool_names() == ["live_sources", "read_document", "read_live_source", "search"]
    assert {name: (tool.effect, tool.danger) for name, tool in tools().items()} == {
        "search": (Effect.READ, Danger.SAFE),
        "read_document": (Effect.READ, Danger.SAFE),
        "live_sources": (Effect.READ, Danger.SAFE),
        "read_live_source": (Effect.READ, Danger.LOW),
    }


def test_every_tool_refuses_unknown_arguments() -> None:
    for declared in tools().values():
        assert declared.arguments.model_config.get("extra") == "forbid", declared.name
