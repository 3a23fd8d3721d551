"""What a tool's result says, as one bounded text. Pure.

Promises: text and structured content are kept, pictures and sound are named and left out, links are
written and never followed; the text can be stored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from kaizen.kernel.errors import Unavailable
from kaizen.kernel.models import exact_json
from kaizen.kernel.text import make_storable
from retrieval.live.wire import not_understood

LONGEST_ANSWER = 20_000
_MOST_BLOCKS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back. `is_error`: the tool itself says that it failed, and the text says why."""

    text: str
    is_error: bool

    @property
    def is_empty(self) -> bool:
        return not self.text.strip()


def read_answer(result: dict[str, Any], *, host: str) -> Answer:
    """The result of a call as text. Raises Unavailable for one that is no finished result."""
    kind = result.get("resultType", "complete")
    if kind == "input_required":
        raise Unavailable(
            f"{host} asks for more than the arguments, which can't be given here.",
            code="input_required",
        )
    content = result.get("content", [])
    if kind != "complete" or not isinstance(content, list):
        raise not_understood(host)
    parts = [_block(block) for block in content[:_MOST_BLOCKS]]
    if len(content) > _MOST_BLOCKS:
        parts.append(f"[{len(content) - _MOST_BLOCKS} more parts were left out]")
    structured = result.get("structuredContent")
    if structured is not None and not any(_says(part, structured) for part in parts):
        parts.append(exact_json(structured))
    return Answer(text=bounded("\n\n".join(parts)), is_error=result.get("isError") is True)


def bounded(text: str, *, most: int = LONGEST_ANSWER) -> str:
    """`text` made storable and cut to `most` characters, with a note that names both sizes."""
    clean = make_storable(text).text
    if len(clean) <= most:
        return clean
    return f"{clean[:most]}\n[cut: {most} of {len(clean)} characters are shown]"


def _block(block: object) -> str:
    """One part of a result as text."""
    if not isinstance(block, dict):
        return "[a part that can't be read was left out]"
    kind, text = block.get("type"), block.get("text")
    if kind == "text" and isinstance(text, str):
        return text
    if kind == "resource" and isinstance(block.get("resource"), dict):
        return _resource(block["resource"])
    if kind == "resource_link":
        told = [block.get(name) for name in ("name", "uri", "description")]
        return "[link] " + " · ".join(part for part in told if isinstance(part, str) and part)
    if kind in ("image", "audio"):
        return f"[{kind} left out]"
    return "[a part that can't be read was left out]"


def _resource(resource: dict[str, Any]) -> str:
    uri, text = resource.get("uri"), resource.get("text")
    heading = f"[{uri}]" if isinstance(uri, str) else "[resource]"
    return f"{heading}\n{text}" if isinstance(text, str) else f"{heading} left out: no text"


def _says(part: str, structured: object) -> bool:
    """Whether `part` is the structured content once more, as servers are asked to write it."""
    try:
        return bool(json.loads(part) == structured)
    except (ValueError, RecursionError):
        return False
