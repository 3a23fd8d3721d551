"""Tables of the agents app, by purpose: what is configured, what is spent, what was called."""

from __future__ import annotations

from agents.models.calls import ModelCall, ToolCall
from agents.models.catalogue import (
    Agent,
    AgentSource,
    AgentTeamGrant,
    AgentUserGrant,
    AgentVersion,
    LanguageModel,
    LanguageModelTeamGrant,
    LanguageModelUserGrant,
    ModelProvider,
    Prompt,
    PromptTeamGrant,
    PromptUserGrant,
    PromptVersion,
)
from agents.models.limits import LedgerEntry

__all__ = [
    "Agent",
    "AgentSource",
    "AgentTeamGrant",
    "AgentUserGrant",
    "AgentVersion",
    "LanguageModel",
    "LanguageModelTeamGrant",
    "LanguageModelUserGrant",
    "LedgerEntry",
    "ModelCall",
    "ModelProvider",
    "Prompt",
    "PromptTeamGrant",
    "PromptUserGrant",
    "PromptVersion",
    "ToolCall",
]
