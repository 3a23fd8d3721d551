"""The built-in provider: no model, no key, no network. It searches, then quotes what was found.

Promises: quotations are markers `[[cite:start-end]]`, never passage text, so that the server
resolves them under the reader's permission each time they are shown.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass

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
    ToolUse,
    Usage,
)
from agents.providers.quoting import choose_spans, content_stems

SEARCH_TOOL = "search"
MAX_PASSAGES = 3
MAX_QUERY = 1000

FOUND = (
    "No language model is configured, so here are the passages that fit your question best, "
    "word for word."
)
NOTHING = (
    "No language model is configured, and a search found nothing that fits your question among "
    "what you may see."
)
FAILED = "No language model is configured, and the search could not be done. Please try again."
NO_SEARCH = (
    "No language model is configured, and this agent has no search, so there is nothing to answer "
    "from."
)
_CITE = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Passage:
    """What is needed of a found passage: how to cite it, where it is from, its text."""

    cite: str
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Extractive:
    """See the module."""

    kind: ProviderKind = "extractive"

    async def stream(
        self, request: CompletionRequest, *, account: StreamAccount | None = None
    ) -> AsyncGenerator[Event, None]:
        """See `Provider.stream`. Costs nothing and does not fail."""
        account = account or StreamAccount()
        account.reported, account.complete = Usage(), True
        question, results = _latest_turn(request.messages)
        offered = request.tools if request.tool_choice == "auto" else ()
        has_search = any(tool.name == SEARCH_TOOL for tool in offered)
        if not results and has_search and question:
            call = _search_call(request.messages, question=question)
            yield Finished((call,), "tool_use", Usage(), {})
            return
        answer = write_answer(question=question, results=results, has_search=has_search)
        for piece in _pieces(answer):
            account.add_text(piece)
            yield TextDelta(piece)
            await asyncio.sleep(0)
        yield Finished((Text(answer),), "end", Usage(), {})


def write_answer(*, question: str, results: tuple[ToolResult, ...], has_search: bool) -> str:
    """The answer to `question` from the search results of this turn."""
    if not results:
        return NOTHING if has_search else NO_SEARCH
    readable = [found for result in results if (found := read_passages(result)) is not None]
    if not readable:
        return FAILED
    found_passages = [passage for found in readable for passage in found]
    passages = keep_relevant(pick_passages(found_passages), question=question)
    quotes = [_quote(passage, question=question) for passage in passages]
    return "\n\n".join([FOUND, *quotes]) if quotes else NOTHING


def read_passages(result: ToolResult) -> list[Passage] | None:
    """The passages of a search result, best first; None if it failed or is none."""
    if result.is_error:
        return None
    try:
        found = json.loads(result.text)["passages"]
        passages = [
            Passage(cite=item["cite"], title=str(item.get("title") or ""), text=item["text"])
            for item in found
        ]
        return [
            passage
            for passage in passages
            if _CITE.fullmatch(passage.cite) and passage.text.strip()
        ]
    except (ValueError, TypeError, AttributeError, LookupError):
        return None


def pick_passages(passages: list[Passage], *, at_most: int = MAX_PASSAGES) -> list[Passage]:
    """The passages to quote, in the order of the search, one a document as far as there are any."""
    unique = list({passage.cite: passage for passage in reversed(passages)}.values())[::-1]
    seen: set[str] = set()
    first_of_each: list[Passage] = []
    others: list[Passage] = []
    for passage in unique:
        (others if passage.title in seen else first_of_each).append(passage)
        seen.add(passage.title)
    chosen = (first_of_each + others)[:at_most]
    return [passage for passage in unique if passage in chosen]


def keep_relevant(passages: list[Passage], *, question: str) -> list[Passage]:
    """The first passage, and those that share more than half as many words with the question as
    the one that shares most.
    """
    wanted = content_stems(question)
    shared = [len(wanted & content_stems(f"{one.title} {one.text}")) for one in passages]
    best = max(shared, default=0)
    return [
        passage
        for position, (passage, count) in enumerate(zip(passages, shared, strict=True))
        if position == 0 or 2 * count > best
    ]


def _quote(passage: Passage, *, question: str) -> str:
    spans = choose_spans(passage.text, question=question)
    return "\n\n".join(f"[[{passage.cite}:{start}-{end}]]" for start, end in spans)


def _latest_turn(messages: tuple[Message, ...]) -> tuple[str, tuple[ToolResult, ...]]:
    """What the member asked last, and every tool result since."""
    results: list[ToolResult] = []
    for message in reversed(messages):
        if message.role == "user":
            text = "".join(part.text for part in message.parts if isinstance(part, Text))
            return text.strip(), tuple(reversed(results))
        results.extend(part for part in reversed(message.parts) if isinstance(part, ToolResult))
    return "", tuple(reversed(results))


def _search_call(messages: tuple[Message, ...], *, question: str) -> ToolUse:
    earlier = sum(isinstance(part, ToolUse) for message in messages for part in message.parts)
    arguments = json.dumps({"query": question[:MAX_QUERY]}, ensure_ascii=False)
    return ToolUse(f"extractive_{earlier + 1}", SEARCH_TOOL, arguments)


def _pieces(answer: str) -> Iterator[str]:
    """Word by word, but a marker is never cut."""
    for match in re.finditer(r"\S+\s*", answer):
        yield match.group()
