"""Loads a provider SDK and says what its exceptions mean.

The two SDKs have the same exception classes under different roofs, and below them the HTTP
library's own escape in places. This is the one list of them. Imports happen away from the event
loop: the first takes over a second.
"""

from __future__ import annotations

import asyncio
import importlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Literal

from agents.providers import failures
from agents.providers.contract import (
    ProviderBroken,
    ProviderError,
    ProviderRefused,
    ProviderTimeout,
)

# What reading a stranger's JSON raises when it is not what was promised.
UNREADABLE = (ValueError, TypeError, AttributeError, LookupError)


@dataclass(frozen=True, slots=True)
class SdkErrors:
    """The exceptions of one SDK, sorted by what they say."""

    base: type[Exception]
    status: type[Exception]
    timeout: tuple[type[Exception], ...]
    connect_timeout: type[Exception]
    network: tuple[type[Exception], ...]

    @property
    def caught(self) -> tuple[type[Exception], ...]:
        """Everything a call may raise that is not our own fault."""
        return (self.base, *self.timeout, *self.network, *UNREADABLE)

    def translate(self, error: Exception, *, opened: bool) -> ProviderError:
        """The typed failure for `error`; `opened` says whether the answer had begun.

        Raises `error` itself when it is a fault in the request we built.
        """
        if isinstance(error, self.timeout):
            if isinstance(error.__cause__, self.connect_timeout):
                return failures.unreachable()
            return ProviderTimeout()
        if isinstance(error, self.status):
            return _from_status_error(error)
        if isinstance(error, self.network):
            return failures.cut() if opened else failures.unreachable()
        if isinstance(error, self.base):
            return failures.from_stream(body=getattr(error, "body", None))
        if opened:
            return failures.unreadable()
        if isinstance(error, UnicodeError):
            return ProviderRefused("The request holds text that cannot be sent.", code="unsendable")
        raise error


async def load_sdk(name: Literal["openai", "anthropic"], *modules: str) -> SdkErrors:
    """Import the SDK called `name` and the submodules it would otherwise import in mid-call."""
    for module in modules:
        await asyncio.to_thread(importlib.import_module, f"{name}.{module}")
    sdk = importlib.import_module(name)
    http = importlib.import_module("httpx2")
    network = importlib.import_module("anyio")
    return SdkErrors(
        base=_class(sdk, "OpenAIError" if name == "openai" else "AnthropicError"),
        status=_class(sdk, "APIStatusError"),
        timeout=(TimeoutError, _class(sdk, "APITimeoutError"), _class(http, "TimeoutException")),
        connect_timeout=_class(http, "ConnectTimeout"),
        network=(
            _class(sdk, "APIConnectionError"),
            _class(http, "HTTPError"),
            _class(http, "StreamError"),
            _class(network, "EndOfStream"),
            ssl.SSLError,
            OSError,
        ),
    )


def was_never_charged(failure: ProviderError, *, opened: bool) -> bool:
    """True if the provider turned the call away before doing any work."""
    return not opened and (
        failure.status is not None or isinstance(failure, ProviderBroken | ProviderRefused)
    )


def _class(module: ModuleType, name: str) -> type[Exception]:
    found: type[Exception] = getattr(module, name)
    return found


def _from_status_error(error: Exception) -> ProviderError:
    status = getattr(error, "status_code", 0)
    body = getattr(error, "body", None)
    if status < 400:
        # An error event inside a stream that began with 200; or a redirect, never followed.
        return failures.from_stream(body=body) if status < 300 else failures.unknown_model()
    headers = getattr(getattr(error, "response", None), "headers", None)
    return failures.from_status(
        status=status, headers=headers if isinstance(headers, Mapping) else {}, body=body
    )
