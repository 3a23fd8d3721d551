"""What the guard needs of a run. `conversations` implements it and hands it in.

A gate stands for one attempt of one run under one lease. Every method re-checks the lease, so a
late frame of an earlier attempt changes nothing. All of them use the database and are called in
`scope`-less threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from accounts.authority import Authority
from agents.providers.contract import Message


class LeaseLost(Exception):
    """The attempt may no longer act for the run: its lease lapsed, or another attempt took over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What is fixed about a run."""

    run_id: UUID
    organization_id: UUID
    conversation_id: UUID
    attempt: int
    agent_id: UUID
    user_id: int
    language_model_id: UUID
    definition: dict[str, Any]


class RunGate(Protocol):
    """One attempt's way to its run."""

    @property
    def facts(self) -> RunFacts:
        """What is fixed about the run."""
        ...

    def hold(self) -> AbstractContextManager[Authority]:
        """A transaction in which the lease is proven and locked, with the caller's authority of
        this moment.

        Raises LeaseLost; raises Missing when the member lost their place in the organisation.
        """
        ...

    def messages(self, authority: Authority, refs: Sequence[str]) -> tuple[Message, ...]:
        """The references as messages, each re-read under `authority`. Called inside `hold`."""
        ...

    def append(self, kind: str, data: dict[str, Any]) -> int:
        """Write a journal event; returns its number. Called inside `hold`."""
        ...


class TextSink(Protocol):
    """Where the text of an answer goes while it is being written."""

    def add(self, piece: str) -> None:
        """Take the next piece."""
        ...

    async def flush(self) -> None:
        """Journal and show all that was taken."""
        ...
