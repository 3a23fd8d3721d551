"""Which words of a passage answer the query, for the eye only. Ranking is done in the database.

Promises: spans are in code points of the text as given, in order, not overlapping. Pure and cheap:
words are compared by a coarse stem, runs of scripts without spaces between words by pairs of
characters.
"""

from __future__ import annotations

import re
import unicodedata

MAX_MARKS = 100

_WORD = re.compile(r"[^\W_]+")
_SPACELESS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff\uac00-\ud7ff]"
)
# At least three letters stay.
_ENDING = re.compile(r"(?<=...)(?:e?ments?|ations?|ings?|ie[sd]|ions?|ers?|ed|es|ly|[sey])$")
_COMMON = """
a about after all am an and any are as at be because been before but by can could did do does for
from had has have he her him his how i if in into is it its may me more must my no not of on or our
she should so some than that the their them then there these they this those to up us was we were
what when where which who whom why will with would you your s t
"""
_COMMON_WORDS = frozenset(_COMMON.split())


def find_marks(text: str, query: str) -> tuple[tuple[int, int], ...]:
    """The spans of `text` that hold words of `query`, at most MAX_MARKS."""
    stems, pairs = _wanted(query)
    spans: list[tuple[int, int]] = []
    for match in _WORD.finditer(text):
        if len(spans) >= MAX_MARKS:
            break
        word = match.group()
        if _SPACELESS.search(word):
            spans += _find_pairs(word, match.start(), pairs)
        elif _stem(word) in stems:
            spans.append(match.span())
    return tuple(spans[:MAX_MARKS])


def _wanted(query: str) -> tuple[set[str], set[str]]:
    stems: set[str] = set()
    pairs: set[str] = set()
    for word in _WORD.findall(query):
        if _SPACELESS.search(word):
            pairs.update(word[at : at + 2] for at in range(max(1, len(word) - 1)))
        elif word.lower() not in _COMMON_WORDS:
            stems.add(_stem(word))
    return stems, pairs


def _find_pairs(word: str, offset: int, pairs: set[str]) -> list[tuple[int, int]]:
    marked = [False] * len(word)
    for pair in pairs:
        at = word.find(pair)
        while at >= 0:
            marked[at : at + len(pair)] = [True] * len(pair)
            at = word.find(pair, at + 1)
    spans: list[tuple[int, int]] = []
    for at, is_marked in enumerate(marked):
        if not is_marked:
            continue
        if spans and spans[-1][1] == offset + at:
            spans[-1] = (spans[-1][0], offset + at + 1)
        else:
            spans.append((offset + at, offset + at + 1))
    return spans


def _stem(word: str) -> str:
    folded = word.lower()
    if not folded.isascii():
        parts = unicodedata.normalize("NFKD", folded)
        folded = "".join(char for char in parts if not unicodedata.combining(char))
    # Twice, so that "holidays" and "holiday" meet.
    return _ENDING.sub("", _ENDING.sub("", folded))
