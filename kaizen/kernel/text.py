"""Text from outside, made fit to store and to show.

Promises: what `make_storable` returns can be encoded as UTF-8 and kept in PostgreSQL; nothing is
cut and nothing is normalised. `shown_file_name` gives the one name a person sees; it is never used
as a path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kaizen.kernel.errors import Invalid

REPLACEMENT = "\ufffd"
LONGEST_FILE_NAME = 200

_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
# Control characters, line and paragraph separators, and the marks that reorder text on the screen.
_UNSHOWABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_BLANKS = re.compile(r"\s+")
# Looks blank on the screen although it isn't white space to Python.
_VISIBLE = re.compile(
    r"[^\s"
    "\x00-\x1f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0]"
)


@dataclass(frozen=True, slots=True)
class Storable:
    """A text that can be stored, and how many of its characters had to be replaced."""

    text: str
    replaced: int


def make_storable(text: str) -> Storable:
    """Replace NUL and lone surrogates by U+FFFD, one for one, and count them.

    Two surrogates that belong together become the character they stand for and aren't counted.
    """
    if _UNSTORABLE.search(text) is None:
        return Storable(text, 0)
    joined = _SURROGATE_PAIR.sub(_join_pair, text)
    clean, replaced = _UNSTORABLE.subn(REPLACEMENT, joined)
    return Storable(clean, replaced)


def is_blank(text: str) -> bool:
    """Whether a reader would see nothing: white space and invisible characters only."""
    return _VISIBLE.search(text) is None


def shown_file_name(name: str) -> str:
    """The last part of a file name as it came from outside, safe to show and to put in a header.

    Both `/` and `\\` separate parts. Long names are cut in front of their ending.

    Raises:
        Invalid: nothing readable is left.
    """
    last = re.split(r"[/\\]", name)[-1]
    shown = _BLANKS.sub(" ", _UNSHOWABLE.sub("", _BLANKS.sub(" ", last))).strip()
    if is_blank(shown) or shown in {".", ".."}:
        raise Invalid("The file has no name. Give it one and upload it again.", code="blank_name")
    if len(shown) <= LONGEST_FILE_NAME:
        return shown
    stem, dot, ending = shown.rpartition(".")
    if not dot or not stem or len(ending) > 16:
        return shown[:LONGEST_FILE_NAME].rstrip()
    return f"{stem[: LONGEST_FILE_NAME - len(ending) - 1].rstrip()}.{ending}"


def _join_pair(match: re.Match[str]) -> str:
    pair = match.group()
    return chr(0x10000 + ((ord(pair[0]) - 0xD800) << 10) + (ord(pair[1]) - 0xDC00))
