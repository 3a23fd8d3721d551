"""Text and queries in the one form that PostgreSQL's full text search can work on.

Contract: index `to_tsvector(config, lexical_text(text))` and search with
`lexical_query_text(query)` given to `websearch_to_tsquery` or `plainto_tsquery` of the same
config. Both fold width and case (NFKC, lower), keep accents, turn every mark beyond ASCII into a
space and write runs of scripts without spaces between words (Han, kana, Hangul, Thai, Lao, Khmer,
Burmese) as overlapping pairs: 今月の → 今月 月の. Never shown to anyone.
"""

from __future__ import annotations

import re
import unicodedata

# PostgreSQL leaves out words of 2,047 bytes and more.
LONGEST_WORD_BYTES = 2_000

_RUN = re.compile(
    "[\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3041-\u3096\u3099-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u3131-\u318e\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff]+"
)
# Format characters that stand inside words: soft hyphen, zero-width joiners, direction and
# variation marks.
_INSIDE_WORDS = re.compile(
    "[\u00ad\u034f\u061c\u180b-\u180e\u200c-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f]"
)
_LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD_BYTES // 4},}}")


def lexical_text(text: str) -> str:
    """What is given to `to_tsvector` for a stored text.

    Pairs stand where the run stood, so phrases work; single characters follow at the end, so that
    a query of one character finds them too.
    """
    folded = _fold(text)
    if not _RUN.search(folded):
        return _cut_long_words(folded)
    singles = sorted({char for run in _RUN.findall(folded) if len(run) > 1 for char in run})
    return f"{_cut_long_words(_RUN.sub(_pairs, folded))} {' '.join(singles)}"


def lexical_query_text(query: str) -> str:
    """What is given to the query parser for words that a person typed; ASCII operators stay as
    they are."""
    folded = _fold(query)
    return _cut_long_words(_RUN.sub(_pairs, folded))


def _fold(text: str) -> str:
    text = text.replace("\x00", " ")
    if text.isascii():
        return text.lower()
    folded = _INSIDE_WORDS.sub("", unicodedata.normalize("NFKC", text).lower())
    return folded.translate(_LETTERS)


class _Letters(dict[int, int]):
    """For `str.translate`: letters, digits and the marks that combine with them stay as they are.

    Anything else beyond ASCII becomes a space, since it would glue to the word beside it. Fills
    itself.
    """

    def __missing__(self, code: int) -> int:
        keeps = code < 128 or unicodedata.category(chr(code))[0] in "LNM"
        self[code] = code if keeps else 32
        return self[code]


_LETTERS = _Letters()


def _pairs(match: re.Match[str]) -> str:
    run = match.group()
    if len(run) == 1:
        return f" {run} "
    return f" {' '.join(run[at : at + 2] for at in range(len(run) - 1))} "


def _cut_long_words(text: str) -> str:
    return _LONG_WORD.sub(_cut, text)


def _cut(match: re.Match[str]) -> str:
    """Pieces below the limit in bytes, cut between characters."""
    word = match.group()
    if len(word.encode("utf-8", "replace")) <= LONGEST_WORD_BYTES:
        return word
    step = LONGEST_WORD_BYTES if word.isascii() else LONGEST_WORD_BYTES // 4
    return " ".join(word[at : at + step] for at in range(0, len(word), step))
