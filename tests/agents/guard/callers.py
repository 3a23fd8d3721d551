"""A run that is ready to call its model, and what came of it."""

from __future__ import annotations

from typing import Any

from agents.guard import gateway
from agents.guard.gateway import ModelReply
from agents.models import LedgerEntry, ModelCall
from conversations.gate import Gate
from conversations.models import Run
from kaizen.kernel.threads import in_database
from tests.conversations.worlds import (
    World,
    ask,
    journal_of,
    make_world,
    open_gate,
)
from tests.providers.server import ModelServer

KEY = "sk-test-canary-0123456789"
PRICES = {"input_price": 3_000_000, "output_price": 15_000_000, "cached_input_price": 300_000}


class Heard:
    """A sink that remembers; `flushed` is how much had come at the last flush."""

    def __init__(self) -> None:
        self.text = ""
        self.flushed: int | None = None

    def add(self, piece: str) -> None:
        self.text += piece

    async def flush(self) -> None:
        self.flushed = len(self.text)


class Caller:
    """A run that is ready to call its model."""

    def __init__(self, world: World, gate: Gate) -> None:
        self.world, self.gate, self.heard = world, gate, Heard()

    async def complete(self, *refs: str, step: int = 1, **how: Any) -> ModelReply:
        return await gateway.complete(
            self.gate,
            step=step,
            refs=refs or (f"u.{self.gate._question_id}",),
            allow_tools=how.get("allow_tools", True),
            note=how.get("note"),
            sink=self.heard,
        )

    async def call(self) -> ModelCall:
        return await in_database(ModelCall.objects.get)

    async def ledger(self) -> list[tuple[int, int, bool, int]]:
        rows = LedgerEntry.objects.values_list("input_tokens", "output_tokens", "estimated", "cost")
        return await in_database(list, rows)  # type: ignore[arg-type]

    async def journal(self) -> list[str]:
        def kinds() -> list[str]:
            run = Run.objects.select_related("conversation").get(pk=self.gate.facts.run_id)
            return [kind for _, kind, _ in journal_of(run.conversation)]

        return await in_database(kinds)


async def build_caller(server: ModelServer) -> Caller:
    """A member's run whose model is the model server's `m`."""

    def build() -> tuple[World, Gate]:
        model = {
            "kind": "openai_compatible",
            "name": "m",
            "base_url": server.openai_url,
            "api_key": KEY,
            **PRICES,
        }
        world = make_world(model=model)
        ask(world, "How many days?")
        return world, open_gate()

    return Caller(*await in_database(build))
