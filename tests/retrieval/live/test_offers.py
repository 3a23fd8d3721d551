"""What a server says of its tools: what is taken, what is left out, and what counts as a change."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.live.answers import LONGEST_ANSWER, read_answer
from retrieval.live.offers import LONGEST_DESCRIPTION, LONGEST_SCHEMA, Offer, read_offer
from tests.retrieval.live.server import CLOSE_TICKET, SEARCH_TICKETS

PLAIN: dict[str, Any] = {"name": "look", "inputSchema": {"type": "object"}}


def offer(**changes: Any) -> Offer | None:
    return read_offer({**PLAIN, **changes})


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_a_tool_reads_only_where_the_server_says_so_and_nothing_else() -> None:
    said = {
        None: False,
        "words": False,
        (("readOnlyHint", False),): False,
        (("readOnlyHint", "true"),): False,
        (("readOnlyHint", True),): True,
        (("readOnlyHint", True), ("destructiveHint", False)): True,
        (("readOnlyHint", True), ("destructiveHint", True)): False,
    }
    for hints, wanted in said.items():
        found = offer(annotations=dict(hints) if isinstance(hints, tuple) else hints)
        assert found is not None
        assert found.read_only is wanted, hints


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": "a b"},
        {"name": "a\r\nAuthorization: x"},
        {"name": "x" * 129},
        {"name": 7},
        {"inputSchema": None},
        {"inputSchema": {"type": "string"}},
        {"inputSchema": {"type": "object", "properties": 7}},
        {"inputSchema": {"type": "object", "title": "x" * LONGEST_SCHEMA}},
        {"inputSchema": schema(a={"type": "number", "x-mcp-header": "A"})},
        {"inputSchema": schema(a={"type": "string", "x-mcp-header": ""})},
        {"inputSchema": schema(a={"type": "string", "x-mcp-header": "A\r\nB"})},
        {"inputSchema": schema(a={"type": "string", "x-mcp-header": "A b"})},
        {"inputSchema": {"type": "object", "x-mcp-header": "A"}},
        {
            "inputSchema": schema(
                a={"type": "string", "x-mcp-header": "A"}, b={"type": "string", "x-mcp-header": "a"}
            )
        },
        {"inputSchema": schema(a={"anyOf": [{"type": "string", "x-mcp-header": "A"}]})},
        {
            "inputSchema": schema(
                a={"type": "array", "items": schema(b={"type": "string", "x-mcp-header": "B"})}
            )
        },
    ],
)
def test_an_ill_formed_tool_is_left_out(changes: dict[str, Any]) -> None:
    assert offer(**changes) is None


def test_arguments_are_repeated_from_where_their_annotation_stands() -> None:
    found = offer(
        inputSchema=schema(
            a={"type": "boolean", "x-mcp-header": "A"},
            b=schema(c={"type": "integer", "x-mcp-header": "C"}),
            **{"x-mcp-header": {"type": "string", "x-mcp-header": "Odd"}},
        )
    )
    assert found is not None
    assert found.argument_headers({"a": True, "b": {"c": -7}, "x-mcp-header": "x"}) == {
        "mcp-param-a": "true",
        "mcp-param-c": "-7",
        "mcp-param-odd": "x",
    }
    for without in ({}, {"a": None, "b": None}, {"a": [1], "b": {"c": {}}}, {"b": 7}):
        assert found.argument_headers(without) == {}


def test_what_decides_whether_it_may_be_called_is_in_the_digest_and_words_are_not() -> None:
    first = read_offer(SEARCH_TICKETS)
    assert first is not None
    same = read_offer({**SEARCH_TICKETS, "description": "Other words", "title": "Other"})
    assert same is not None
    assert same.digest == first.digest
    properties = {**SEARCH_TICKETS["inputSchema"]["properties"], "to": {"type": "string"}}
    others = (
        {**SEARCH_TICKETS, "annotations": {}},
        {**SEARCH_TICKETS, "inputSchema": schema(**properties)},
        CLOSE_TICKET,
    )
    for other in others:
        found = read_offer(other)
        assert found is not None
        assert found.digest != first.digest


def test_words_are_bounded_and_storable() -> None:
    found = offer(title="a\x00b", description="x" * 5_000)
    assert found is not None
    assert (found.title, len(found.description)) == ("a\ufffdb", LONGEST_DESCRIPTION)


# --- answers


def answer(*content: Any, **more: Any) -> str:
    return read_answer({"content": list(content), **more}, host="tickets.example").text


def test_text_is_kept_and_the_rest_is_named() -> None:
    link = {"type": "resource_link", "uri": "file:///a", "name": "a", "description": "the first"}
    inside = {"type": "resource", "resource": {"uri": "file:///b", "text": "inside"}}
    assert answer(
        {"type": "text", "text": "one"},
        {"type": "image", "data": "xxxx", "mimeType": "image/png"},
        link,
        inside,
        {"type": "resource", "resource": {"uri": "file:///c", "blob": "xxxx"}},
        {"type": "hologram"},
        "nonsense",
    ) == (
        "one\n\n[image left out]\n\n[link] a · file:///a · the first\n\n[file:///b]\ninside\n\n"
        "[file:///c] left out: no text\n\n[a part that can't be read was left out]\n\n"
        "[a part that can't be read was left out]"
    )


def test_structured_content_is_shown_once() -> None:
    rows = [{"id": 1}]
    assert answer(structuredContent=rows) == '[{"id":1}]'
    assert answer({"type": "text", "text": '[ {"id": 1} ]'}, structuredContent=rows) == (
        '[ {"id": 1} ]'
    )
    assert answer({"type": "text", "text": "One row"}, structuredContent=rows) == (
        'One row\n\n[{"id":1}]'
    )


def test_a_long_answer_is_cut_and_says_so() -> None:
    text = answer({"type": "text", "text": "é" * (LONGEST_ANSWER + 5)})
    assert text.endswith(f"é\n[cut: {LONGEST_ANSWER} of {LONGEST_ANSWER + 5} characters are shown]")
    many = answer(*[{"type": "text", "text": "x"}] * 103)
    assert many.endswith("x\n\n[3 more parts were left out]")
