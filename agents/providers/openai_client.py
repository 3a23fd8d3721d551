"""The OpenAI SDK's client as both of its dialects use it: no retries, no redirects."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openai import AsyncOpenAI


def make_client(*, base_url: str, api_key: str) -> AsyncOpenAI:
    """A client for one address and key. The SDK must have been loaded.

    A call on a client without a key must leave out the Authorization header itself.
    """
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Omit

    # The SDK would add these from the environment to every request, whoever the server is.
    headers = {"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()}
    return AsyncOpenAI(
        api_key=api_key or "none",  # the SDK insists on some word
        base_url=base_url,
        max_retries=0,
        default_headers=headers,  # type: ignore[arg-type]  # Omit is accepted, only not declared
        http_client=DefaultAsyncHttpxClient(follow_redirects=False),
    )
