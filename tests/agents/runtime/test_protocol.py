"""The frames: what goes over comes back, and nothing hostile gets further than ProtocolError."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from agents.runtime import protocol
from agents.runtime.protocol import (
    BackendFrame,
    Cancel,
    ContextItem,
    ErrorReply,
    Finish,
    Goodbye,
    Heartbeat,
    Hello,
    LeaseLost,
    ModelReply,
    ModelRequest,
    ProtocolError,
    RuntimeFrame,
    ToolCall,
    ToolReply,
    ToolRequest,
    Welcome,
    encode,
    parse_backend_frame,
    parse_runtime_frame,
)
from tests.agents.runtime.starts import start

RUN: dict[str, Any] = {"run": "0198-run", "attempt": 2, "lease": "secret-lease"}
CALL = ToolCall(call_id="call_1", name="search", arguments='{"q": "Ünïcode 🌍 \u0000"}')
RUNTIME_FRAMES: list[RuntimeFrame] = [
    Hello(protocol=1, capacity=8, runtime_id="r1"),
    Goodbye(),
    Heartbeat(**RUN),
    ModelRequest(**RUN, request_id="m1", step=1, context=("u1", "a1"), allow_tools=True),
    ModelRequest(**RUN, request_id="m2", step=2, context=(), allow_tools=False, note="Close."),
    ToolRequest(**RUN, request_id="t1", step=1, call_id="c", name="", arguments="{cut"),
    Finish(**RUN, outcome="limit", reason="steps", step=12),
]
BACKEND_FRAMES: list[BackendFrame] = [
    Welcome(protocol=1, heartbeat_seconds=5),
    start(context=[ContextItem(ref="s", kind="summary", tokens=0)]),
    ModelReply(request_id="m1", ref="a1", text_tokens=3, text="Hi", tool_calls=(CALL,), stop="end"),
    ToolReply(request_id="t1", ref="r1", tokens=9, outcome="held", empty=False, summary="waiting"),
    ErrorReply(request_id="m1", code="overloaded", message="later", retry=True, retry_after=1.5),
    Cancel(run="0198-run", reason="stopped_by_member"),
    LeaseLost(run="0198-run"),
]


@pytest.mark.parametrize("frame", RUNTIME_FRAMES, ids=lambda frame: frame.type)
def test_runtime_frames_come_back_equal(frame: RuntimeFrame) -> None:
    assert parse_runtime_frame(encode(frame)) == frame


@pytest.mark.parametrize("frame", BACKEND_FRAMES, ids=lambda frame: frame.type)
def test_backend_frames_come_back_equal(frame: BackendFrame) -> None:
    assert parse_backend_frame(encode(frame)) == frame


@settings(deadline=None)
@given(
    name=st.text(st.characters(codec="utf-8"), max_size=200),
    arguments=st.text(st.characters(codec="utf-8"), max_size=300),
)
def test_whatever_a_model_writes_as_a_call_survives_the_way(name: str, arguments: str) -> None:
    call = ToolCall(call_id="c1", name=name, arguments=arguments)
    reply = ModelReply(request_id="m1", ref="a1", text_tokens=0, tool_calls=(call,), stop="end")
    assert parse_backend_frame(encode(reply)) == reply
    request = ToolRequest(**RUN, request_id="t1", step=1, **call.model_dump())
    assert parse_runtime_frame(encode(request)) == request


@settings(deadline=None)
@given(
    st.one_of(
        st.text(),
        st.binary(),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        ).map(json.dumps),
    )
)
def test_garbage_is_a_protocol_error(data: str | bytes) -> None:
    for parse in (parse_runtime_frame, parse_backend_frame):
        with pytest.raises(ProtocolError):
            parse(data)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_frame_with_one_field_spoiled_is_read_as_a_frame_or_refused(data: st.DataObject) -> None:
    frame = data.draw(st.sampled_from([*RUNTIME_FRAMES, *BACKEND_FRAMES]))
    fields = json.loads(encode(frame))
    field = data.draw(st.sampled_from([*sorted(fields), "extra"]))
    fields[field] = data.draw(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text()
        | st.lists(st.text())
        | st.dictionaries(st.text(), st.integers())
    )
    parse = parse_backend_frame if frame in BACKEND_FRAMES else parse_runtime_frame
    try:
        read = parse(json.dumps(fields))
    except ProtocolError:
        return
    assert parse(encode(read)) == read


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "invalid"),
        ("null", "invalid"),
        ("[" * 200_000, "invalid"),
        ('{"type":"hello","protocol":1,"capacity":8,"runtime_id":"r","more":1}', "invalid"),
        ('{"type":"hello","protocol":"1","capacity":8,"runtime_id":"r"}', "invalid"),
        ('{"type":"hello","protocol":1,"capacity":0,"runtime_id":"r"}', "invalid"),
        ('{"type":"hello","protocol":1,"capacity":true,"runtime_id":"r"}', "invalid"),
        ('{"type":"hello","protocol":1,"capacity":8,"runtime_id":"a\\nb"}', "invalid"),
        ('{"type":"hello","protocol":1,"capacity":8,"runtime_id":"\\ud800"}', "invalid"),
        ('{"type":"welcome","protocol":1,"heartbeat_seconds":5}', "invalid"),
        ("\ud800", "invalid"),
        (b'{"type":"goodbye"}', "not_text"),
        (" " * (protocol.MAX_FRAME_BYTES + 1), "too_large"),
        ("é" * (protocol.MAX_FRAME_BYTES // 2 + 1), "too_large"),
    ],
)
def test_hostile_runtime_frames(text: str | bytes, code: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse_runtime_frame(text)
    assert caught.value.code == code


@pytest.mark.parametrize("number", ["Infinity", "NaN", "-1", "1e400", "0"])
def test_no_interval_is_endless_or_nothing(number: str) -> None:
    with pytest.raises(ProtocolError):
        parse_backend_frame(f'{{"type":"welcome","protocol":1,"heartbeat_seconds":{number}}}')


def test_an_error_names_the_field_and_never_the_value() -> None:
    frame = {**json.loads(encode(RUNTIME_FRAMES[2])), "attempt": "canary-one", "canary-two": 1}
    with pytest.raises(ProtocolError) as caught:
        parse_runtime_frame(json.dumps(frame))
    assert str(caught.value) == "int_type at heartbeat.attempt"
    assert caught.value.__cause__ is None


def test_the_largest_arguments_fit_a_frame_however_they_are_escaped() -> None:
    for character in ("\u0000", "🌍", '"'):
        request = ToolRequest(
            run="r" * 100,
            attempt=2**31 - 1,
            lease="l" * 300,
            request_id="t" * 160,
            step=1,
            call_id="🌍" * 200,
            name="🌍" * 200,
            arguments=character * protocol.MAX_ARGUMENTS,
        )
        assert len(encode(request).encode()) <= protocol.MAX_FRAME_BYTES


def test_a_frame_too_large_is_not_encoded() -> None:
    call = ToolCall(call_id="c1", name="search", arguments="\u0000" * protocol.MAX_ARGUMENTS)
    reply = ModelReply(request_id="m1", ref="a1", text_tokens=0, tool_calls=(call,) * 2, stop="end")
    with pytest.raises(ProtocolError) as caught:
        encode(reply)
    assert caught.value.code == "too_large"


def test_text_that_utf8_cannot_hold_is_not_encoded() -> None:
    with pytest.raises(ProtocolError) as caught:
        encode(
            ModelReply.model_construct(
                request_id="m1", ref="a1", text_tokens=0, text="\ud800", stop="end"
            )
        )
    assert caught.value.code == "invalid"


def test_frames_are_frozen() -> None:
    frame = Heartbeat(**RUN)
    with pytest.raises(ValidationError):
        frame.attempt = 3


def test_only_the_same_version_is_accepted() -> None:
    protocol.check_version(protocol.PROTOCOL_VERSION)
    with pytest.raises(ProtocolError) as caught:
        protocol.check_version(2)
    assert caught.value.code == "version"
