"""What of a result the model may see: bounded text, never raw rows."""

from __future__ import annotations

from accounts.authority import Authority
from agents.models import ToolCall
from kaizen.kernel.tools import Tool

GONE = "The result of this call can no longer be read."


def bounded(text: str, *, limit: int) -> str:
    """`text`, cut to `limit` characters with a note that names both sizes."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut: {limit} of {len(text)} characters are shown]"


def project(authority: Authority, call: ToolCall, tool: Tool | None) -> str:
    """The text of a finished call for the model, re-read under the caller's permission of this
    moment.
    """
    if call.state != ToolCall.State.DONE:
        return call.error or GONE
    if tool is None or call.record is None:
        return GONE
    return bounded(tool.project(authority, call.record), limit=tool.max_projection)
