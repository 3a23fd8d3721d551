"""One request as the model server received it, read the same way in every dialect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Dialect = Literal["responses", "chat", "messages"]
Outcome = Literal["open", "sent", "cut", "refused", "disconnected"]

DIALECTS: Mapping[str, Dialect] = {
    "/v1/responses": "responses",
    "/v1/chat/completions": "chat",
    "/v1/messages": "messages",
}


@dataclass(slots=True, kw_only=True)
class Received:
    """A request and what became of its answer. Instants are of the server's monotonic clock."""

    number: int
    dialect: Dialect
    path: str
    headers: Mapping[str, str]
    raw: bytes
    json: dict[str, Any]
    at: float
    pieces_written: int = 0
    outcome: Outcome = "open"
    refusal: str = ""
    disconnected_at: float | None = None
    sent: bytearray = field(default_factory=bytearray, repr=False)

    @property
    def model(self) -> str:
        """The model asked for."""
        return str(self.json.get("model", ""))

    @property
    def key(self) -> str:
        """The key sent, however the dialect sends it."""
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ").strip()
        return self.headers.get("x-api-key", "") or bearer

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools offered."""
        tools = self.json.get("tools") or []
        return tuple(tool.get("name") or tool.get("function", {}).get("name") for tool in tools)

    @property
    def may_call(self) -> bool:
        """False if the request forbids tool calls."""
        return self.json.get("tool_choice") not in ("none", {"type": "none"})

    @property
    def system(self) -> str:
        """The system text."""
        if self.dialect == "responses":
            return str(self.json.get("instructions") or "")
        if self.dialect == "messages":
            return _plain(self.json.get("system"))
        return "".join(
            _plain(item.get("content")) for item in self._items if item.get("role") == "system"
        )

    @property
    def question(self) -> str:
        """The text of the last user message that is more than tool results."""
        return self._latest_turn()[0]

    @property
    def results(self) -> tuple[str, ...]:
        """The texts of the tool results since that message, in order."""
        return self._latest_turn()[1]

    @property
    def passages(self) -> list[dict[str, Any]]:
        """The passages in the newest search result of this turn."""
        for text in reversed(self.results):
            try:
                found = json.loads(text)
            except ValueError:
                continue
            if isinstance(found, dict) and isinstance(found.get("passages"), list):
                return list(found["passages"])
        return []

    @property
    def summary(self) -> dict[str, Any]:
        """What the control interface shows."""
        return {
            "number": self.number,
            "dialect": self.dialect,
            "path": self.path,
            "headers": dict(self.headers),
            "json": self.json,
            "pieces_written": self.pieces_written,
            "outcome": self.outcome,
            "refusal": self.refusal,
            "at": self.at,
            "disconnected_at": self.disconnected_at,
        }

    @property
    def _items(self) -> list[dict[str, Any]]:
        items = self.json.get("input" if self.dialect == "responses" else "messages") or []
        return [{"role": "user", "content": items}] if isinstance(items, str) else list(items)

    def _latest_turn(self) -> tuple[str, tuple[str, ...]]:
        results: list[str] = []
        for item in reversed(self._items):
            results.extend(reversed(_results(item)))
            if item.get("role") == "user" and (text := _plain(item.get("content"))):
                return text, tuple(reversed(results))
        return "", tuple(reversed(results))


def _results(item: Mapping[str, Any]) -> list[str]:
    if item.get("type") == "function_call_output":
        return [str(item.get("output"))]
    if item.get("role") == "tool":
        return [_plain(item.get("content"))]
    content = item.get("content")
    blocks = content if isinstance(content, list) else []
    return [_plain(block.get("content")) for block in blocks if block.get("type") == "tool_result"]


def _plain(content: object) -> str:
    """The visible text of a content value, whichever of its forms it has."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = {"text", "input_text", "output_text"}
    return "".join(str(block.get("text", "")) for block in content if block.get("type") in texts)
