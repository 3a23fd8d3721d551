"""How the provider tests make a call and read what came of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agents.providers.catalog import build
from agents.providers.contract import (
    CompletionRequest,
    Event,
    Finished,
    Message,
    ProviderKind,
    StreamAccount,
    Text,
    TextDelta,
    ToolResult,
    ToolSchema,
    ToolUse,
)
from tests.providers.behaviours import shared_folder
from tests.providers.dialects import render
from tests.providers.received import Dialect
from tests.providers.script import Script
from tests.providers.server import ModelServer

KEY = "sk-test-0123456789abcdef"
KINDS: tuple[ProviderKind, ...] = ("openai", "openai_compatible", "anthropic")
DIALECT_OF: dict[ProviderKind, Dialect] = {
    "openai": "responses",
    "openai_compatible": "chat",
    "anthropic": "messages",
}
SEARCH = ToolSchema(
    "search",
    "Search the documents.",
    {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
)
ASK = CompletionRequest(
    model="m",
    system="Be brief.",
    messages=(Message("user", (Text("How many?"),)),),
    tools=(SEARCH,),
    timeout=20.0,
)


@dataclass(slots=True)
class Heard:
    """All that came out of one call."""

    pieces: list[str] = field(default_factory=list)
    finished: Finished | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def end(self) -> Finished:
        assert self.finished is not None
        return self.finished

    @property
    def calls(self) -> list[ToolUse]:
        return [part for part in self.end.parts if isinstance(part, ToolUse)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One adapter, pointed at the model server."""

    kind: ProviderKind
    server: ModelServer
    key: str = KEY

    @property
    def dialect(self) -> Dialect:
        return DIALECT_OF[self.kind]

    def stream(
        self, request: CompletionRequest = ASK, *, account: StreamAccount | None = None
    ) -> AsyncGenerator[Event, None]:
        """Begin a call."""
        anthropic = self.kind == "anthropic"
        url = self.server.anthropic_url if anthropic else self.server.openai_url
        return build(self.kind, base_url=url, api_key=self.key).stream(request, account=account)

    async def hear(
        self, request: CompletionRequest = ASK, *, account: StreamAccount | None = None
    ) -> Heard:
        """Make a call and listen to its end."""
        heard = Heard()
        async for event in self.stream(request, account=account):
            assert heard.finished is None, "nothing comes after Finished"
            if isinstance(event, TextDelta):
                heard.pieces.append(event.text)
            else:
                heard.finished = event
        assert heard.finished is not None
        return heard

    def body(self, script: Script) -> bytes:
        """The bytes the server would send for `script`."""
        return b"".join(frame.data for frame in render(self.dialect, script, model="m"))


def after_tools(heard: Heard, *results: str, request: CompletionRequest = ASK) -> CompletionRequest:
    """The next request of a tool round: what was heard, then a result for each call."""
    answers = tuple(
        ToolResult(call.id, text) for call, text in zip(heard.calls, results, strict=True)
    )
    turn = (Message("assistant", heard.end.parts), Message("tool", answers))
    return replace(request, messages=request.messages + turn)


def case_file(name: str) -> Path:
    """A shared case file; the test is skipped where there is none."""
    path = shared_folder() / "cases" / name
    if not path.exists():
        pytest.skip(f"the shared case file {name} is not here")
    return path


def cuts(body: bytes, *, count: int = 20) -> list[int]:
    """Positions spread over `body`, with every odd corner of a character or a line among them."""
    step = max(1, len(body) // count)
    spread = list(range(1, len(body), step))[:count]
    inside = [at for at, byte in enumerate(body) if byte & 0xC0 == 0x80][:4]
    return sorted({*spread, *inside})


def as_dict(usage: Any) -> tuple[int, int, int, int, bool]:
    """A usage as plain numbers, in the order of its fields."""
    return (
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_input_tokens,
        usage.reasoning_tokens,
        usage.estimated,
    )
