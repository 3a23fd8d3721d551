"""Which encoding bytes are in, and the text they stand for.

Promises: always gives a text; a declared encoding is believed only as far as it decodes cleanly,
and bytes that are plainly UTF-8 are read as UTF-8 whatever was declared. Undeclared old code pages
are told apart by how plausible the text reads: gb18030, euc_kr, shift_jis, windows-1251 and
windows-1252.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass

SAMPLE_BYTES = 65_536

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# As browsers do: these labels are used for supersets of what they name.
_SUPERSETS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
}
_NOT_TEXT_CODECS = {
    "utf-7",
    "idna",
    "punycode",
    "unicode_escape",
    "raw_unicode_escape",
    "undefined",
    "mbcs",
}
_SINGLE_BYTE = ("cp1251", "cp1252")
_MULTI_BYTE = ("gb18030", "cp949", "cp932")
_OTHER_MULTI_BYTE = ("euc_jp", "euc_jis_2004", "big5", "big5hkscs", "johab")
_CYRILLIC_WORD = re.compile("(?<![A-Za-z])[А-Яа-яЁё](?:[а-яё]+|[А-ЯЁ]+)(?![A-Za-z])|№")
_ACCENTED_LETTER = re.compile("(?<=[A-Za-z])[À-ÿŒœŠšŽžŸ](?![À-ÿ]{2})|[À-ÿŒœŠšŽžŸ](?=[A-Za-z])")
_META_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:\-]{2,40})", re.IGNORECASE
)
_XML_ENCODING = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_.:\-]{2,40})")
_UTF8_SEQUENCE = re.compile(
    rb"[\xc3-\xdf][\x80-\xbf]|[\xe1-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
_ODD_CONTROLS = re.compile("[\x01-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Decoded:
    """Text, the encoding it was read in, and how many bytes could not be read."""

    text: str
    encoding: str
    lost: int = 0


def decode(data: bytes, *, declared: Iterable[str | None] = ()) -> Decoded:
    """The text of `data`; `declared` are labels in order of trust, unknown ones are passed over."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return _forgiving(data[len(bom) :], encoding)
    labels = [known for label in declared if label and (known := find_codec(label))]
    if (wide := _wide_without_bom(data)) is not None:
        return Decoded(data.decode(wide, "replace"), wide)
    if b"\x1b" in data:
        # ISO-2022 texts are plain ASCII bytes, so they would pass as UTF-8.
        for label in labels:
            if label.startswith("iso2022") and (found := _strict(data, label)) is not None:
                return found
    if (found := _strict(data, "utf-8")) is not None:
        return found
    if (found := _nearly_utf8(data)) is not None:
        return found
    clean = [
        found for label in dict.fromkeys(labels) if (found := _strict(data, label)) is not None
    ]
    if clean:
        # Nearly every byte string decodes in a single-byte code page, so of several the likeliest
        # text wins; `max` keeps the first, the most trusted, when they are equal.
        return max(clean, key=lambda candidate: _plausible(candidate.text, candidate.encoding))
    return _guess(data)


def declared_in_markup(data: bytes) -> list[str]:
    """Labels that an HTML or XML file gives itself."""
    head = data[:4096]
    found = [
        match.group(1)
        for match in (_META_CHARSET.search(head), _XML_ENCODING.search(head))
        if match
    ]
    return [label.decode("ascii") for label in found]


def find_codec(label: str) -> str | None:
    """Python's name for a text encoding, widened to the superset in common use; None when
    unknown."""
    try:
        found = codecs.lookup(label.strip())
        if found.name in _NOT_TEXT_CODECS:
            return None
        # Some codecs turn bytes into bytes, and refuse to be asked for text.
        b"x".decode(found.name, "replace")
    except (LookupError, ValueError):
        return None
    return _SUPERSETS.get(found.name, found.name)


def looks_binary(data: bytes) -> bool:
    """Whether this can't be a text in any encoding that `decode` reads."""
    sample = data[:SAMPLE_BYTES]
    if any(sample.startswith(bom) for bom, _ in _BOMS) or _wide_without_bom(sample) is not None:
        return False
    controls = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in sample)
    if _strict(sample, "utf-8") or _strict(sample[:-3], "utf-8") or _nearly_utf8(sample):
        # A few NULs happen in real texts; a file mostly of them is no text.
        return controls > 0.3 * len(sample)
    return controls > 0.02 * len(sample)


def _strict(data: bytes, encoding: str) -> Decoded | None:
    try:
        return Decoded(data.decode(encoding), encoding)
    except (UnicodeDecodeError, UnicodeError):
        return None


def _forgiving(data: bytes, encoding: str) -> Decoded:
    if (found := _strict(data, encoding)) is not None:
        return found
    text = data.decode(encoding, "replace")
    return Decoded(text, encoding, text.count("\ufffd"))


def _wide_without_bom(data: bytes) -> str | None:
    """UTF-16 without a mark shows as a NUL in nearly every second place."""
    sample = data[:SAMPLE_BYTES]
    if len(sample) < 8 or len(data) % 2:
        return None
    half = len(sample) // 2
    if sample[1::2].count(0) > 0.7 * half and sample[0::2].count(0) < 0.05 * half:
        return "utf-16-le"
    if sample[0::2].count(0) > 0.7 * half and sample[1::2].count(0) < 0.05 * half:
        return "utf-16-be"
    return None


def _nearly_utf8(data: bytes) -> Decoded | None:
    """UTF-8 with a few broken places: surrogates written out, or a character cut in two."""
    try:
        return Decoded(data.decode("utf-8", "surrogatepass"), "utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
    lost = text.count("\ufffd")
    good = len(_UTF8_SEQUENCE.findall(data))
    return Decoded(text, "utf-8", lost) if good >= 4 * lost else None


def _guess(data: bytes) -> Decoded:
    sample = data[:SAMPLE_BYTES]
    best, best_score = "cp1252", 0.5
    for encoding in (*_MULTI_BYTE, *_SINGLE_BYTE):
        score = 0.0
        for cut in range(4 if len(data) > SAMPLE_BYTES else 1):
            # A sample may end inside a character.
            if (found := _strict(sample[: len(sample) - cut], encoding)) is not None:
                score = _plausible(found.text, encoding)
                break
        if score > best_score:
            best, best_score = encoding, score
    return _forgiving(data, best)


def _plausible(text: str, encoding: str) -> float:
    """0 to 1: the share of characters beyond ASCII that texts in this encoding are usually made
    of."""
    beyond = [char for char in text[:SAMPLE_BYTES] if char > "\x7f"]
    if not beyond:
        return 0.0 if _ODD_CONTROLS.search(text) else 0.6
    if encoding in _MULTI_BYTE:
        return _plausible_asian(beyond, encoding)
    odd = len(_ODD_CONTROLS.findall(text))
    if encoding == "cp1251":
        good = sum(map(len, _CYRILLIC_WORD.findall(text)))
    elif encoding == "cp1252":
        # Accented letters among ASCII letters, and the marks that word processors make.
        marks = sum(char in "‘’“”–—…€£§°·•«»©®™¿¡ ´½¼¾×²³" for char in beyond)
        good = min(len(beyond), marks + len(_ACCENTED_LETTER.findall(text)))
    else:
        # Nothing is known about how such texts read; bytes that pass a multi-byte code say more.
        return 0.8 if encoding in _OTHER_MULTI_BYTE else 0.55
    return max(0, good - odd) / len(beyond)


def _plausible_asian(beyond: list[str], encoding: str) -> float:
    if encoding == "cp949":
        return sum("가" <= char <= "힣" for char in beyond) / len(beyond)
    if encoding == "cp932":
        kana = sum("\u3041" <= char <= "\u30fe" for char in beyond)
        other = sum("\u4e00" <= char <= "\u9fff" or "\u3000" <= char <= "\u3020" for char in beyond)
        return (kana + other) / len(beyond) if kana > 0.15 * len(beyond) else 0.0
    # The first level of GB 2312 holds the 3,755 characters that nearly all Chinese text is made of.
    raw = "".join(beyond).encode("gb18030", "replace")
    pairs = [raw[i : i + 2] for i in range(0, len(raw) - 1, 2)]
    common = [pair for pair in pairs if 0xB0 <= pair[0] <= 0xD7 and pair[1] >= 0xA1]
    marks = sum(pair[0] in (0xA1, 0xA3) and pair[1] >= 0xA1 for pair in pairs)
    # Korean bytes lie in the lower half of that level only.
    is_korean = len(common) > 5 and not any(pair[0] > 0xC8 for pair in common)
    return 0.0 if is_korean else (len(common) + marks) / max(1, len(pairs))
