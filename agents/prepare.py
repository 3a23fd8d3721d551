"""From a claimed run to the runtime's start frame: which tools, which bounds, how much context
fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.guard.gateway import tool_schemas
from agents.guard.registry import tools
from agents.models import LanguageModel
from agents.runtime.protocol import ContextItem, Limits, Start, ToolOffer

CHARACTERS_PER_TOKEN = 4
RULES_TOKENS = 400
MAX_PARALLEL_TOOLS = 4
TOOL_CALLS_PER_STEP = 4


def estimate_tokens(characters: int) -> int:
    """About how many tokens a text is, without a tokenizer."""
    return characters // CHARACTERS_PER_TOKEN + 1


def start_frame(
    *,
    run: str,
    attempt: int,
    lease: str,
    lease_seconds: float,
    definition: dict[str, Any],
    model: LanguageModel,
    context: Sequence[ContextItem],
) -> Start:
    """The start frame of one attempt. It names and sizes content, and holds none."""
    schemas = tool_schemas(definition["tools"])
    known = tools()
    offers = tuple(
        ToolOffer(
            name=schema.name,
            description=schema.description,
            parameters=dict(schema.parameters),
            effect=known[schema.name].effect.value,
        )
        for schema in schemas
    )
    standing = len(definition["persona"]) + sum(len(str(offer)) for offer in offers)
    steps = definition["limits"]["steps"]
    return Start(
        run=run,
        attempt=attempt,
        lease=lease,
        lease_seconds=lease_seconds,
        context=tuple(context),
        tools=offers,
        limits=Limits(
            max_steps=steps,
            max_tool_calls=steps * TOOL_CALLS_PER_STEP,
            context_tokens=max(1_000, model.context_tokens - model.max_output_tokens),
            wall_seconds=float(definition["limits"]["seconds"]),
            max_parallel_tools=MAX_PARALLEL_TOOLS,
            # The cap on steps alone ends a run that goes in circles.
            max_repeats=0,
        ),
        persona_tokens=estimate_tokens(standing) + RULES_TOKENS,
    )
