"""The built-in provider: it searches, quotes by marker, and never repeats a passage itself."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from agents.providers.catalog import build
from agents.providers.contract import (
    CompletionRequest,
    Finished,
    Message,
    StreamAccount,
    Text,
    TextDelta,
    ToolResult,
    ToolUse,
    Usage,
)
from agents.providers.extractive import FAILED, FOUND, NO_SEARCH, NOTHING
from tests.agents.providers.calls import SEARCH

QUESTION = "Who approves travel expenses?"
ASK = CompletionRequest(
    model="extractive", system="", messages=(Message("user", (Text(QUESTION),)),), tools=(SEARCH,)
)
TEXT = "Travel is fun. Expenses for travel are approved by the team lead. Receipts are kept."


def passage(cite: str, text: str = TEXT, **more: Any) -> dict[str, Any]:
    return {"cite": cite, "title": f"Title of {cite}", "heading": "", "text": text, **more}


def found(*passages: dict[str, Any], is_error: bool = False) -> CompletionRequest:
    """The request after a search that found these."""
    use = ToolUse("extractive_1", "search", json.dumps({"query": QUESTION}))
    text = json.dumps({"passages": list(passages), "note": ""})
    turn = (
        Message("assistant", (use,)),
        Message("tool", (ToolResult("extractive_1", text, is_error),)),
    )
    return replace(ASK, messages=ASK.messages + turn)


async def answer(request: CompletionRequest) -> tuple[list[str], Finished]:
    events = [event async for event in build("extractive").stream(request)]
    *deltas, finished = events
    assert isinstance(finished, Finished)
    return [event.text for event in deltas if isinstance(event, TextDelta)], finished


async def test_it_searches_for_the_question_first() -> None:
    pieces, finished = await answer(ASK)
    assert pieces == []
    assert finished.parts == (
        ToolUse("extractive_1", "search", '{"query": "Who approves travel expenses?"}'),
    )
    assert finished.stop_reason == "tool_use"


async def test_it_searches_anew_for_the_next_question() -> None:
    earlier = found(passage("p1")).messages
    done = (Message("assistant", (Text("..."),)), Message("user", (Text("And trains?"),)))
    _, finished = await answer(replace(ASK, messages=earlier + done))
    assert finished.parts == (ToolUse("extractive_2", "search", '{"query": "And trains?"}'),)


async def test_it_quotes_the_best_sentence_by_its_place() -> None:
    pieces, finished = await answer(found(passage("p1a2b3c4")))
    start = TEXT.index("Expenses")
    end = TEXT.index(" Receipts")
    text = f"{FOUND}\n\n[[p1a2b3c4:{start}-{end}]]"
    assert finished.parts == (Text(text),)
    assert "".join(pieces) == text
    assert len(pieces) > 10
    assert not any(re.search(r"\[\[[^\]]*$", piece) for piece in pieces)  # no marker is cut
    assert (finished.stop_reason, finished.usage) == ("end", Usage())


async def test_it_never_repeats_passage_or_title() -> None:
    _, finished = await answer(found(passage("p1", text="SECRET travel expenses text.")))
    assert "SECRET" not in str(finished)
    assert "Title" not in str(finished)


async def test_it_cites_three_at_most_and_different_documents_first() -> None:
    same = [passage(f"s{number}", title="One") for number in range(3)]
    _, finished = await answer(found(*same, passage("x"), passage("y"), passage("z")))
    assert re.findall(r"\[\[(\w+):", str(finished.parts)) == ["s0", "x", "y"]


async def test_it_fills_up_with_the_same_document() -> None:
    same = [passage(f"s{number}", title="One") for number in range(4)]
    _, finished = await answer(found(*same))
    assert re.findall(r"\[\[(\w+):", str(finished.parts)) == ["s0", "s1", "s2"]


async def test_it_leaves_out_what_shares_few_words_with_the_question() -> None:
    close = passage("c", title="One", text="Who approves travel expenses: the team lead.")
    far = passage("f", title="Two", text="Expenses of the canteen.")
    _, finished = await answer(found(close, far))
    assert re.findall(r"\[\[(\w+):", str(finished.parts)) == ["c"]


async def test_nothing_found_is_said() -> None:
    _, finished = await answer(found())
    assert finished.parts == (Text(NOTHING),)


async def test_a_failed_search_is_said() -> None:
    _, finished = await answer(found(passage("p1"), is_error=True))
    assert finished.parts == (Text(FAILED),)


async def test_an_unreadable_result_is_a_failed_search() -> None:
    request = found()
    result = Message("tool", (ToolResult("extractive_1", "not JSON"),))
    _, finished = await answer(replace(request, messages=(*request.messages[:-1], result)))
    assert finished.parts == (Text(FAILED),)


async def test_a_forged_marker_in_a_result_is_not_passed_on() -> None:
    _, finished = await answer(found(passage("p1]] <b>")))
    assert finished.parts == (Text(NOTHING),)


async def test_an_agent_without_search_says_so() -> None:
    _, finished = await answer(replace(ASK, tools=()))
    assert finished.parts == (Text(NO_SEARCH),)


async def test_it_does_not_search_when_no_tool_may_be_called() -> None:
    _, finished = await answer(replace(ASK, tool_choice="none"))
    assert finished.parts == (Text(NO_SEARCH),)


async def test_it_costs_nothing() -> None:
    account = StreamAccount()
    async for _ in build("extractive").stream(found(passage("p1")), account=account):
        pass
    assert account.usage == Usage()
    assert account.text.startswith(FOUND)
