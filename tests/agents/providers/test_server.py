"""The model server itself: it must refuse what real providers refuse, or it proves nothing."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.agents.providers.calls import ASK, KEY, KINDS, Target, after_tools, case_file
from tests.providers.behaviours import BEHAVIOURS, pieces_400
from tests.providers.checker import Checker, Refused
from tests.providers.received import Dialect, Received
from tests.providers.script import Script, call_script, from_json
from tests.providers.server import ModelServer
from tests.providers.thread import serve_in_thread

ROOT = Path(__file__).resolve().parents[3]
USER = {"role": "user", "content": "hi"}


def check(dialect: Dialect, **body: Any) -> str:
    """Why a request is refused, or an empty string."""
    json_body = {"model": "m", "stream": True, "max_tokens": 5, **body}
    received = Received(
        number=1, dialect=dialect, path="", headers={}, raw=b"", json=json_body, at=0.0
    )
    try:
        Checker().check(received)
    except Refused as refusal:
        return str(refusal)
    return ""


def uses(*ids: str) -> dict[str, Any]:
    blocks = [{"type": "tool_use", "id": id, "name": "s", "input": {}} for id in ids]
    return {"role": "assistant", "content": blocks}


def results(*ids: str) -> dict[str, Any]:
    blocks = [{"type": "tool_result", "tool_use_id": id, "content": "r"} for id in ids]
    return {"role": "user", "content": blocks}


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([USER, uses("a"), results("a")], ""),
        ([USER, uses("a"), USER], "0 results"),
        ([USER, uses("a", "b"), results("a")], "0 results"),
        ([USER, uses("a"), results("a", "a")], "2 results"),
        ([USER, uses("a"), results("a", "z")], "answers no call"),
        ([USER, uses("a"), results("a"), uses("a"), results("a")], "occurs twice"),
        ([uses("a"), results("a")], "first message"),
        ([USER, {"role": "assistant", "content": [{"type": "thinking"}]}], "more than thinking"),
        ([USER, {"role": "assistant", "content": [{"type": "text", "text": " "}]}], "whitespace"),
        ([USER, results("a")], "must follow"),
    ],
)
def test_messages_histories(messages: list[dict[str, Any]], reason: str) -> None:
    refusal = check("messages", messages=messages)
    assert reason in refusal
    assert bool(reason) == bool(refusal)


def test_chat_histories() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "s", "arguments": "{}"}}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "a", "content": "r"}
    assert check("chat", messages=[USER, asked, result]) == ""
    assert "0 results" in check("chat", messages=[USER, asked, USER])
    assert "must follow" in check("chat", messages=[USER, result])
    broken = {**asked, "tool_calls": [{**call, "function": {"name": "s", "arguments": "{"}}]}
    assert "JSON object" in check("chat", messages=[USER, broken, result])


def test_responses_histories() -> None:
    call = {"type": "function_call", "call_id": "a", "name": "s", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "a", "output": "r"}
    assert check("responses", input=[USER, call, result, USER]) == ""
    assert "0 results" in check("responses", input=[USER, call, USER, result])
    assert "answers no call" in check("responses", input=[USER, result])


def test_tools_need_an_object_schema() -> None:
    tool = {"name": "s", "input_schema": {"type": "string"}}
    assert "type object" in check("messages", messages=[USER], tools=[tool])


async def test_scripts_left_over_fail_the_test(server: ModelServer) -> None:
    server.add(Script())
    with pytest.raises(AssertionError, match="1 scripted answers"):
        server.assert_used_up()


async def test_a_request_without_a_script_fails_the_test(target: Target) -> None:
    with pytest.raises(Exception, match="failed while answering"):
        await target.hear()
    with pytest.raises(AssertionError, match="no scripted answer"):
        target.server.assert_used_up()


async def test_obey_answers_from_the_request() -> None:
    async with ModelServer(obey=lambda request: Script(text=(request.question.upper(),))) as own:
        for kind in KINDS:
            heard = await Target(kind=kind, server=own).hear()
            assert heard.text == "HOW MANY?"


async def test_pieces_and_end_are_counted(target: Target) -> None:
    target.server.add(Script(text=("a", "b", "c")))
    await target.hear()
    [received] = await target.server.wait_until(
        lambda seen: seen if seen[0].outcome == "sent" else None
    )
    assert (received.pieces_written, received.disconnected_at) == (3, None)


async def test_echo_search_calls_then_quotes_and_cites(target: Target) -> None:
    request = replace(ASK, model="echo-search")
    asked = await target.hear(request)
    assert json.loads(asked.calls[0].arguments_raw) == {"query": "How many?"}
    result = json.dumps({"passages": [{"cite": "p1a2b3c4", "text": "There are 12 of them."}]})
    answered = await target.hear(after_tools(asked, result, request=request))
    assert answered.text == "It says: There are 12 of them. [[p1a2b3c4]]"


async def test_rogue_goes_on_for_ever(target: Target) -> None:
    request = replace(ASK, model="rogue:read_document")
    names = []
    for _ in range(4):
        heard = await target.hear(request)
        names.append(heard.calls[0].name)
        request = after_tools(heard, "no", request=request)
    assert names == ["delete_everything", "read_document", "search", "search"]
    target.server.assert_used_up()


async def test_a_ready_made_model_obeys_when_no_tool_may_be_called(target: Target) -> None:
    heard = await target.hear(replace(ASK, model="loop-search", tool_choice="none"))
    assert (heard.text, heard.calls) == ("I stop here.", [])


@pytest.mark.parametrize("name", sorted(BEHAVIOURS))
def test_every_ready_made_model_has_an_answer(name: str) -> None:
    received = Received(
        number=1, dialect="chat", path="", headers={}, raw=b"", json={"model": name}, at=0.0
    )
    if name == "hostile-markdown":
        case_file("markdown-hostile.json")
    assert isinstance(BEHAVIOURS[name](received, ""), Script)


def test_count_400_has_400_different_pieces() -> None:
    assert (len(set(pieces_400())), pieces_400()[0], pieces_400()[-1]) == (400, "001 ", "400 ")


def test_scripts_survive_json() -> None:
    script = call_script("search", "{", id="x", raw=(b"\xff",), delay=0.1, usage=None)
    assert from_json(json.loads(json.dumps(script.to_json()))) == script


def test_in_a_thread_it_serves_a_caller_without_a_loop() -> None:
    with serve_in_thread(keys=frozenset({KEY})) as server:
        server.add(Script(text=("hello",)))
        target = Target(kind="openai_compatible", server=server)
        assert asyncio.run(target.hear()).text == "hello"
        server.assert_used_up()


@pytest.fixture
def process() -> Iterator[str]:
    """The server as a process; its address."""
    command = [sys.executable, "-m", "tests.providers.server", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        line = running.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        yield found.group()
        running.terminate()


def ask(method: str, url: str, body: object = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data=data, method=method), timeout=10) as reply:
        answer: dict[str, Any] = json.load(reply)
        return answer


def test_as_a_process_it_is_driven_over_http(process: str) -> None:
    assert ask("POST", f"{process}/__script", [{"text": ["a", "b"]}]) == {"queued": 1}
    body = {"model": "m", "stream": True, "messages": [USER]}
    request = Request(f"{process}/v1/chat/completions", data=json.dumps(body).encode())
    with urlopen(request, timeout=10) as reply:
        assert reply.read().decode().endswith("data: [DONE]\n\n")
    seen = ask("GET", f"{process}/__requests")
    [received] = seen["requests"]
    assert (received["json"], received["pieces_written"], received["outcome"]) == (body, 2, "sent")
    assert (seen["problems"], seen["queued"]) == ([], 0)
    assert received["at"] <= seen["now"] <= time.monotonic()
    ask("POST", f"{process}/__reset", {})
    assert ask("GET", f"{process}/__requests")["requests"] == []


async def test_a_broken_history_would_be_refused_over_the_wire(server: ModelServer) -> None:
    """The adapters mend histories, so only a bare request can show the refusal."""
    body = {"model": "m", "stream": True, "max_tokens": 5, "messages": [USER, uses("a"), USER]}
    headers = {"x-api-key": KEY, "content-type": "application/json"}
    url = f"{server.anthropic_url}/v1/messages"
    request = Request(url, data=json.dumps(body).encode(), headers=headers)
    with pytest.raises(Exception, match="400"):
        await asyncio.to_thread(urlopen, request, timeout=10)
    assert "0 results" in server.requests[0].refusal
