"""The pure pieces beside the streams: history, failures, accounts, clients, catalogue."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from agents.providers import clients
from agents.providers.catalog import KINDS, build
from agents.providers.contract import (
    CompletionRequest,
    Message,
    Opaque,
    ProviderRefused,
    StreamAccount,
    Text,
    ToolResult,
    ToolUse,
    Usage,
    estimate_usage,
)
from agents.providers.failures import error_words, from_status, retry_after
from agents.providers.history import INTERRUPTED, settle_history

USER = Message("user", (Text("hi"),))
CALLS = Message("assistant", (ToolUse("a", "search", "{}"), ToolUse("b", "search", "{}")))
ROOT = Path(__file__).resolve().parents[3]


def test_a_missing_result_becomes_an_error_in_the_order_of_the_calls() -> None:
    history = (USER, CALLS, Message("tool", (ToolResult("b", "rb"),)), USER)
    assert settle_history(history, kind="openai")[2] == Message(
        "tool", (ToolResult("a", INTERRUPTED, is_error=True), ToolResult("b", "rb"))
    )


def test_results_in_separate_messages_are_brought_together() -> None:
    results = (Message("tool", (ToolResult("b", "1"),)), Message("tool", (ToolResult("a", "2"),)))
    settled = settle_history((USER, CALLS, *results), kind="openai")
    assert settled[2:] == (Message("tool", (ToolResult("a", "2"), ToolResult("b", "1"))),)


def test_a_second_result_and_one_without_a_call_are_left_out() -> None:
    results = tuple(ToolResult(*pair) for pair in (("a", "1"), ("a", "2"), ("b", "3"), ("c", "4")))
    settled = settle_history((USER, CALLS, Message("tool", results)), kind="openai")
    assert settled[2].parts == (ToolResult("a", "1"), ToolResult("b", "3"))


def test_a_result_whose_call_was_trimmed_is_left_out() -> None:
    assert settle_history((Message("tool", (ToolResult("a", "1"),)), USER), kind="openai") == (
        USER,
    )


def test_a_turn_cut_while_thinking_is_left_out() -> None:
    thought = Message("assistant", (Opaque("anthropic", {"type": "thinking"}), Text(" ")))
    assert settle_history((USER, thought, USER), kind="anthropic") == (USER, USER)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_retry_after_as_a_date() -> None:
    moment = datetime.now(tz=UTC) + timedelta(seconds=30)
    value = retry_after({"retry-after": format_datetime(moment, usegmt=True)})
    assert value is not None
    assert 25 < value <= 30


def test_only_code_words_of_an_error_body_are_kept() -> None:
    body = {"error": {"type": "Bad key sk-123 given", "code": "invalid_api_key"}}
    assert error_words(body) == ["invalid_api_key"]
    assert error_words("sk-123 is wrong") == []


def test_a_status_without_a_readable_body_is_still_typed() -> None:
    failure = from_status(status=418, headers={}, body="teapot sk-123")
    assert (type(failure), failure.provider_code) == (ProviderRefused, "")


def test_an_account_before_anything_came_charges_the_input() -> None:
    account = StreamAccount()
    account.begin(CompletionRequest(model="m", system="x" * 400, messages=(USER,)))
    assert account.usage == Usage(101, 0, estimated=True)


def test_estimates_take_pieces_or_bytes_whichever_is_more() -> None:
    many = estimate_usage(input_tokens=5, received_pieces=20, received_bytes=40)
    long = estimate_usage(input_tokens=5, received_pieces=2, received_bytes=401)
    assert (many.output_tokens, long.output_tokens) == (20, 101)


def test_reported_input_wins_over_the_guess() -> None:
    usage = estimate_usage(
        input_tokens=5, received_pieces=2, received_bytes=4, reported=Usage(900, 1, 800)
    )
    assert usage == Usage(900, 2, 800, 0, estimated=True)


class Recorded:
    """A client that notes its closing."""

    def __init__(self) -> None:
        self.closed = False

    async def close(self) -> None:
        self.closed = True


async def test_clients_are_shared_by_name_and_closed_at_the_end() -> None:
    async with clients.borrow(name=("k", "u", "1"), make=Recorded) as first:
        pass
    async with clients.borrow(name=("k", "u", "1"), make=Recorded) as again:
        assert again is first
    async with clients.borrow(name=("k", "u", "2"), make=Recorded) as other:
        assert other is not first
    await clients.close_clients()
    assert first.closed
    assert other.closed


async def test_surplus_clients_are_closed_but_never_one_in_use() -> None:
    async with clients.borrow(name=("held",), make=Recorded) as held:
        made = []
        for number in range(clients.MAX_CLIENTS + 3):
            async with clients.borrow(name=(str(number),), make=Recorded) as client:
                made.append(client)
        assert [client.closed for client in made[:5]] == [True, True, True, True, False]
        assert not held.closed
    await clients.close_clients()


@pytest.mark.parametrize(
    "address", ["", "ftp://h/v1", "h:1/v1", "http://", "http://h:99999", "http://[", "javascript:1"]
)
def test_an_unusable_address_is_refused(address: str) -> None:
    with pytest.raises(ProviderRefused) as caught:
        build("openai_compatible", base_url=address)
    assert caught.value.code == "bad_address"


@pytest.mark.parametrize("key", ["", " ", "sk-\n1", "schlüssel"])
def test_an_unusable_key_is_refused(key: str) -> None:
    with pytest.raises(ProviderRefused) as caught:
        build("openai", api_key=key)
    assert caught.value.code == "refused_key"


def test_every_kind_can_be_built() -> None:
    built = [build(kind, base_url="http://h/v1", api_key="k") for kind in KINDS]
    assert [provider.kind for provider in built] == list(KINDS)


def test_importing_the_catalogue_loads_neither_django_nor_an_sdk() -> None:
    code = (
        "import sys, agents.providers.catalog\n"
        "print(sorted({'django', 'openai', 'anthropic', 'httpx2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0)
