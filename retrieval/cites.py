"""Citation ids: what a model calls a passage by. `p` and eight letters, opaque, the same in every
run.

Promises: without the server's secret they say nothing, not even which passage is older. They are a
keyed permutation of the passage's key (a four-round Feistel network over 40 bits), so nothing has
to be remembered between two tool calls. They open nothing: whatever they name is read through the
relation.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from uuid import UUID

from django.conf import settings

_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
_HALF = 20
_MASK = (1 << _HALF) - 1
_ROUNDS = 4
_CITE = re.compile(r"p[a-z2-7]{8}")


def cite_of(organization_id: UUID, chunk_key: int) -> str:
    """The citation id of a passage in its organisation."""
    if not 0 <= chunk_key < 1 << 2 * _HALF:
        raise ValueError("a passage key must fit 40 bits")
    left, right = chunk_key >> _HALF, chunk_key & _MASK
    for number in range(_ROUNDS):
        left, right = right, left ^ _round(organization_id, number, right)
    value = left << _HALF | right
    return "p" + "".join(_ALPHABET[value >> shift & 31] for shift in range(35, -1, -5))


def find_chunk_key(organization_id: UUID, cite: str) -> int | None:
    """The passage key behind a citation id, existing or not; None when it isn't one."""
    if _CITE.fullmatch(cite) is None:
        return None
    value = 0
    for letter in cite[1:]:
        value = value << 5 | _ALPHABET.index(letter)
    left, right = value >> _HALF, value & _MASK
    for number in reversed(range(_ROUNDS)):
        left, right = right ^ _round(organization_id, number, left), left
    return left << _HALF | right


def _round(organization_id: UUID, number: int, half: int) -> int:
    message = organization_id.bytes + bytes([number]) + half.to_bytes(3, "big")
    key = b"kaizen.retrieval.cites" + settings.SECRET_KEY.encode()
    return int.from_bytes(hmac.digest(key, message, hashlib.sha256)[:3], "big") & _MASK
