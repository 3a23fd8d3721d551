"""One call to a provider of vectors or scores: JSON out, JSON back, tried again where that helps.

Promises: goes through the one door out; waits as the provider asks, if that is within the caller's
patience; every failure is an Unavailable with a sentence that holds neither key nor text. Code
`embedder_refused` means that trying again doesn't help. Not for: language models (the guard).
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

from kaizen.kernel.clock import now
from kaizen.kernel.egress import Refused, Reply, fetch
from kaizen.kernel.errors import Invalid, TooLarge, Unavailable
from kaizen.kernel.text import make_storable
from retrieval.embedders.contract import REFUSED

MOST_BYTES = 64 * 1024 * 1024
BUSY = "embedder_busy"
UNUSABLE_TEXT = "embedder_text"
"""Code of an Unavailable that may lie in the texts: one of them may be too long."""

_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_TEXTS = frozenset({400, 413, 422})
_LONGEST_PAUSE = 20.0
_LONGEST_WORD = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long one call may take.

    Attributes:
        each: seconds for one attempt.
        total: seconds for all of them, pauses included.
        tries: attempts at most.
    """

    each: float
    total: float
    tries: int


IN_A_SEARCH = Patience(each=5.0, total=6.0, tries=2)
"""Somebody waits for the answer."""
IN_A_JOB = Patience(each=45.0, total=90.0, tries=6)
"""Shorter than the time after which a silent reader of a document is taken for dead."""


def post_json(url: str, payload: Mapping[str, Any], *, key: str, patience: Patience) -> Any:
    """Send `payload` and give back what the reply holds.

    Raises Unavailable: refused, not answering within `patience`, or no JSON.
    """
    body = json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
    headers = {"content-type": "application/json", "accept": "application/json"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    ends = time.monotonic() + patience.total
    for attempt in range(patience.tries):
        asked: float | None = None
        try:
            left = max(0.1, ends - time.monotonic())
            reply = _ask(url, headers, body, timeout=min(patience.each, left))
            if reply.status == 200:
                return _read(reply)
            failure, asked = _failure(reply, key=key), _asked_pause(reply)
        except Unavailable as error:
            failure = error
        pause = _pause(attempt) if asked is None else asked
        is_last = attempt + 1 == patience.tries or time.monotonic() + pause >= ends
        if failure.code != BUSY or is_last:
            raise Unavailable(
                failure.message, code=failure.code, retry_after=max(1, math.ceil(pause))
            )
        time.sleep(pause)
    raise AssertionError("a patience of no tries")


def _ask(url: str, headers: Mapping[str, str], body: bytes, *, timeout: float) -> Reply:
    try:
        return fetch(
            url,
            method="POST",
            headers=headers,
            body=body,
            max_bytes=MOST_BYTES,
            timeout=timeout,
            redirects=0,
        )
    except Unavailable as error:
        code = REFUSED if error.code == "certificate" else BUSY
        raise Unavailable(error.message, code=code) from None
    except Refused as error:
        # Whoever operates this installation can allow it.
        message = f"{error.message} An operator can allow an inner one with KAIZEN_EGRESS_ALLOW."
        raise Unavailable(message, code=REFUSED) from None
    except (Invalid, TooLarge) as error:
        raise Unavailable(error.message, code=REFUSED) from None


def _read(reply: Reply) -> Any:
    try:
        return json.loads(reply.body)
    except ValueError:
        raise Unavailable(
            "The provider answers with something else than JSON.", code=REFUSED
        ) from None


def _failure(reply: Reply, *, key: str) -> Unavailable:
    status = reply.status
    if status in _AGAIN:
        return Unavailable(f"The provider is busy (status {status}).", code=BUSY)
    if status in (401, 403):
        return Unavailable("The provider refuses the key.", code=REFUSED)
    said = _said(reply.body, key)
    if status in _TEXTS:
        return Unavailable(f"The provider refuses the request{said}", code=UNUSABLE_TEXT)
    if status == 404:
        return Unavailable(
            f"The address or the model is unknown to the provider{said}", code=REFUSED
        )
    return Unavailable(f"The provider answers with status {status}{said}", code=REFUSED)


def _said(body: bytes, key: str) -> str:
    """What the provider says, for an admin: short, plain, and without the key."""
    try:
        found = json.loads(body)
    except ValueError:
        return "."
    for name in ("error", "message", "detail"):
        if isinstance(found, dict) and found.get(name):
            found = found[name]
    if not isinstance(found, str) or not found.strip():
        return "."
    text = " ".join(make_storable(found).text.split())
    if key:
        text = text.replace(key, "…")
    return f": {text[:_LONGEST_WORD]}"


def _asked_pause(reply: Reply) -> float | None:
    """Seconds that the provider asks to wait, or None."""
    text = reply.headers.get("retry-after", "").strip()
    if not text:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now()).total_seconds())


def _pause(attempt: int) -> float:
    """Twice as long each time, and not for all callers the same."""
    return min(_LONGEST_PAUSE, 0.5 * 2.0**attempt) * random.uniform(0.75, 1.25)  # noqa: S311
