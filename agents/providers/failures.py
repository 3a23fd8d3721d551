"""Turns what a provider or its SDK reports into the typed failures of the contract.

Pure: status, headers, error words in; a `ProviderError` out. Sentences are ours; of the provider's
own text only short code words survive, since some servers echo the key in their messages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from agents.providers.contract import (
    ProviderBroken,
    ProviderError,
    ProviderLimited,
    ProviderOverloaded,
    ProviderRefused,
    ProviderTimeout,
)

_CODE_WORD = re.compile(r"[a-z][a-z0-9_.-]{0,63}")

_KEY_WORDS = {"authentication_error", "invalid_api_key", "permission_error", "permission_denied"}
_QUOTA_WORDS = {
    "insufficient_quota",
    "billing_error",
    "billing_not_active",
    "credit_balance_too_low",
}
_LIMIT_WORDS = {"rate_limit_error", "rate_limit_exceeded", "requests", "tokens"}
_OVERLOAD_WORDS = {
    "overloaded_error",
    "overloaded",
    "server_overloaded",
    "server_is_overloaded",
    "engine_overloaded",
    "service_unavailable",
    "slow_down",
    "capacity_exceeded",
}
_LENGTH_WORDS = {"context_length_exceeded", "request_too_large", "string_above_max_length"}
_MODEL_WORDS = {"model_not_found", "not_found_error"}
_TIMEOUT_WORDS = {"timeout_error", "timeout"}
_REQUEST_WORDS = {"invalid_request_error", "invalid_prompt", "content_policy_violation"}


def refused_key(*, status: int | None = None, provider_code: str = "") -> ProviderRefused:
    """The key is wrong, expired or not allowed to do this."""
    return ProviderRefused(
        "The model provider did not accept the key. Please tell an administrator.",
        code="refused_key",
        status=status,
        provider_code=provider_code,
    )


def from_status(*, status: int, headers: Mapping[str, str], body: object) -> ProviderError:
    """The failure behind an HTTP status, with the wait the provider asked for."""
    words = error_words(body)
    failure = _by_words(words) if status in {400, 402, 413, 422, 429, 500, 503} else None
    if failure is None:
        failure = _by_status(status)
    failure.status = status
    failure.provider_code = words[0] if words else ""
    if failure.retryable:
        failure.retry_after = retry_after(headers)
    return failure


def from_stream(*, body: object) -> ProviderError:
    """The failure behind an error event inside a stream that began with 200."""
    words = error_words(body)
    failure = _by_words(words)
    if failure is None:
        status = _numeric_code(body)
        failure = _by_status(status) if status else broken_inside()
    failure.provider_code = words[0] if words else ""
    return failure


def broken_inside() -> ProviderBroken:
    """The provider reports a failure of its own."""
    return ProviderBroken("The model provider failed while answering.", code="failed")


def unreachable() -> ProviderBroken:
    """No connection could be made."""
    return ProviderBroken("The model provider cannot be reached.", code="unreachable")


def cut() -> ProviderBroken:
    """The stream ended before the message did."""
    return ProviderBroken(code="cut")


def unreadable() -> ProviderBroken:
    """The stream holds something that is not the provider's dialect."""
    return ProviderBroken(
        "The model provider sent an answer that cannot be read.", code="unreadable"
    )


def error_words(body: object) -> list[str]:
    """The short code words of an error body, most telling first. Free text is never among them."""
    if not isinstance(body, Mapping):
        return []
    inner = body.get("error")
    source = inner if isinstance(inner, Mapping) else body
    found = [source.get("code"), source.get("type"), source.get("status")]
    return [
        word.lower()
        for word in found
        if isinstance(word, str) and word != "error" and _CODE_WORD.fullmatch(word.lower())
    ]


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait from `retry-after-ms` or `Retry-After` (seconds or a date); None if absent or
    nonsense.
    """
    milliseconds = _positive(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _positive(value)
    if seconds is not None or not value:
        return seconds
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(tz=UTC)).total_seconds())


def _positive(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _numeric_code(body: object) -> int | None:
    if not isinstance(body, Mapping):
        return None
    inner = body.get("error")
    source = inner if isinstance(inner, Mapping) else body
    code = source.get("code") or source.get("status")
    if isinstance(code, str) and code.isascii() and code.isdecimal():
        code = int(code[:4])
    return code if isinstance(code, int) and 400 <= code <= 599 else None


def _by_words(words: list[str]) -> ProviderError | None:
    for word in words:
        if word in _QUOTA_WORDS:
            return ProviderLimited(
                "The model provider's quota is used up. Please tell an administrator.",
                code="quota",
                retryable=False,
            )
        if word in _OVERLOAD_WORDS:
            return ProviderOverloaded()
        if word in _LENGTH_WORDS:
            return too_long()
        if word in _KEY_WORDS:
            return refused_key()
        if word in _MODEL_WORDS:
            return unknown_model()
        if word in _LIMIT_WORDS:
            return ProviderLimited()
        if word in _TIMEOUT_WORDS:
            return ProviderTimeout()
        if word in _REQUEST_WORDS:
            return ProviderRefused()
    return None


def too_long() -> ProviderRefused:
    """The conversation does not fit the model."""
    return ProviderRefused("The conversation is too long for this model.", code="too_long")


def unknown_model() -> ProviderRefused:
    """The provider does not know the model or the address."""
    return ProviderRefused(
        "The model provider does not know this model or address. Please tell an administrator.",
        code="unknown_model",
    )


def _by_status(status: int) -> ProviderError:
    match status:
        case 401 | 403:
            return refused_key()
        case 402:
            return ProviderLimited(
                "The model provider's quota is used up. Please tell an administrator.",
                code="quota",
                retryable=False,
            )
        case 404:
            return unknown_model()
        case 408 | 504:
            return ProviderTimeout()
        case 409 | 425:
            return ProviderLimited()
        case 413:
            return too_long()
        case 429:
            return ProviderLimited()
        case 502 | 503 | 529:
            return ProviderOverloaded()
        case _ if status >= 500:
            return broken_inside()
        case _:
            return ProviderRefused()
