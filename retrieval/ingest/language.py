"""The language of a document, as far as its script tells; a declared one is believed.

Only good enough to choose a text search configuration. Latin script counts as English unless
declared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from retrieval.ingest.contract import Block

_SAMPLE = 20_000
_DECLARED = re.compile(r"([a-z]{2,3})(?:[-_][A-Za-z0-9-]*)?$")
_SCRIPTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("ja", re.compile("[\u3041-\u30fe]")),
    ("ko", re.compile("[\uac00-\ud7a3\u1100-\u11ff]")),
    ("zh", re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")),
    ("th", re.compile("[\u0e01-\u0e5b]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
    ("el", re.compile("[\u0370-\u03ff]")),
    ("he", re.compile("[\u0590-\u05ff]")),
    ("ar", re.compile("[\u0600-\u06ff\u0750-\u077f]")),
    ("hi", re.compile("[\u0900-\u097f]")),
)
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")


def guess_language(blocks: Iterable[Block], *, declared: str = "") -> str:
    """A two-letter code (three where there is no shorter one), "en" in doubt."""
    label = _DECLARED.match(declared.strip().lower())
    if label is not None:
        return label.group(1)
    sample = _sample(blocks)
    counts = {language: len(pattern.findall(sample)) for language, pattern in _SCRIPTS}
    if counts["ja"] and counts["ja"] * 10 >= counts["zh"]:
        # Kana are found in Japanese only; its other characters are shared with Chinese.
        counts["ja"] += counts["zh"]
    best = max(counts, key=lambda language: counts[language])
    # A letter of an ideographic script says about as much as three Latin ones.
    weight = 3 if best in ("ja", "zh", "ko") else 1
    return best if counts[best] * weight > len(_LATIN.findall(sample)) else "en"


def _sample(blocks: Iterable[Block]) -> str:
    parts: list[str] = []
    size = 0
    for block in blocks:
        parts.append(block.text[: _SAMPLE - size])
        size += len(parts[-1])
        if size >= _SAMPLE:
            break
    return "\n".join(parts)
