"""Text and queries in the one form that PostgreSQL's full text search can work on.

Contract: index `lexical_text(text)` under the text's `config_of(language)` and look up the words
of `lexical_query_text(query)` under each config in use. Both fold width and case (NFKC, lower),
keep accents, turn every mark beyond ASCII into a space and write runs of scripts without spaces
between words (Han, kana, Hangul, Thai, Lao, Khmer, Burmese) as overlapping pairs: 今月の → 今月
月の. A code such as INV-4471 is kept in its parts and, beside them, in one piece. Never shown.
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
# Letters and digits joined by marks; with a digit among them, it is a code, also looked for whole.
_CODE = re.compile(r"(?<![\w])[a-z0-9]+(?:[-_/.:#][a-z0-9]+)+(?![\w])", re.ASCII)
_LONGEST_CODE = 60
_MARKED_LETTER = re.compile(r"(?<![\w])([a-z])(\+\+|#)(?![\w])")
_SPELT_OUT = {"++": "plusplus", "#": "sharp"}
# PostgreSQL's stemmers; a language without one is looked up as it is written.
_CONFIGS = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hi": "hindi",
    "hu": "hungarian",
    "id": "indonesian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "nb": "norwegian",
    "nn": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "tr": "turkish",
}
_LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD_BYTES // 4},}}")


def lexical_text(text: str) -> str:
    """What is given to `to_tsvector` for a stored text.

    Pairs stand where the run stood, so phrases work; single characters follow at the end, so that
    a query of one character finds them too.
    """
    folded = _fold(text)
    extras = _codes(folded)
    if not _RUN.search(folded):
        return _cut_long_words(" ".join([folded, *extras]))
    extras += sorted({char for run in _RUN.findall(folded) if len(run) > 1 for char in run})
    return f"{_cut_long_words(_RUN.sub(_pairs, folded))} {' '.join(extras)}"


def lexical_query_text(query: str, *, joined: bool = True) -> str:
    """What is looked up for words that a person typed; `joined` adds the codes in one piece."""
    folded = _fold(query)
    extras = _codes(folded) if joined else []
    return _cut_long_words(" ".join([_RUN.sub(_pairs, folded), *extras]))


def config_of(language: str) -> str:
    """The text search configuration for a language code; `simple` where there is no stemmer."""
    return _CONFIGS.get(language[:2].lower(), "simple") if language else "english"


def _codes(folded: str) -> list[str]:
    """The codes in a text, each in one piece, once."""
    found = dict.fromkeys(
        re.sub(r"[^a-z0-9]", "", match)
        for match in _CODE.findall(folded)
        if len(match) <= _LONGEST_CODE and any(char.isdigit() for char in match)
    )
    return list(found)


def _fold(text: str) -> str:
    text = text.replace("\x00", " ")
    if text.isascii():
        return _MARKED_LETTER.sub(_spell_out, text.lower())
    folded = _INSIDE_WORDS.sub("", unicodedata.normalize("NFKC", text).lower())
    return _MARKED_LETTER.sub(_spell_out, folded.translate(_LETTERS))


def _spell_out(match: re.Match[str]) -> str:
    return match[1] + _SPELT_OUT[match[2]]


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
