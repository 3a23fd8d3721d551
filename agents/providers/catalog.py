"""The kinds of model provider, and how to build one.

Building is cheap and touches no network: SDKs load on the first call, and providers of the same
address and key share their connections. Call `clients.close_clients()` before the event loop ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never
from urllib.parse import urlsplit

from agents.providers.anthropic_messages import AnthropicMessages
from agents.providers.contract import Provider, ProviderKind, ProviderRefused
from agents.providers.extractive import Extractive
from agents.providers.failures import refused_key
from agents.providers.openai_compatible import OpenAICompatible
from agents.providers.openai_responses import OpenAIResponses


@dataclass(frozen=True, slots=True)
class KindInfo:
    """What an administrator must give for a kind, and what is assumed otherwise."""

    label: str
    needs_key: bool
    default_base_url: str


KINDS: dict[ProviderKind, KindInfo] = {
    "openai": KindInfo("OpenAI", True, "https://api.openai.com/v1"),
    "openai_compatible": KindInfo("OpenAI-compatible server", False, ""),
    "anthropic": KindInfo("Anthropic", True, "https://api.anthropic.com"),
    "extractive": KindInfo("Built-in (no model)", False, ""),
}


def build(kind: ProviderKind, *, base_url: str = "", api_key: str = "") -> Provider:
    """A provider of `kind`. Raises ProviderRefused if the address or the key cannot be used."""
    if kind == "extractive":
        return Extractive()
    info = KINDS[kind]
    address = _checked_address(base_url or info.default_base_url)
    key = api_key.strip()
    if (info.needs_key and not key) or not (key.isascii() and key.isprintable()):
        raise refused_key()
    match kind:
        case "openai":
            return OpenAIResponses(base_url=address, api_key=key)
        case "openai_compatible":
            return OpenAICompatible(base_url=address, api_key=key)
        case "anthropic":
            return AnthropicMessages(base_url=address.removesuffix("/v1"), api_key=key)
        case _:
            assert_never(kind)


def _checked_address(base_url: str) -> str:
    address = base_url.strip().rstrip("/")
    try:
        parts = urlsplit(address)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ProviderRefused(
            "The model provider's address is not usable. Please tell an administrator.",
            code="bad_address",
        )
    return address
