"""Texts that break programs, the same for the same seed: ten scripts, operators, marks that reorder
or combine, what can't be stored, and lines without an end.
"""

from __future__ import annotations

import random
from collections.abc import Callable

SCRIPTS = (
    "The quick brown fox",
    "今月の売上報告書を確認する",
    "上海办公室的智能报销流程",
    "번역된 계약서를 검토합니다",
    "สวัสดีชาวโลกวันนี้",
    "مرحبا بالعالم كيف الحال",
    "שלום עולם מה נשמע",
    "नमस्ते दुनिया कैसे हैं",
    "Договор поставки № 58",
    "Καλημέρα κόσμε τι κάνεις",
    "İstanbul'da ışıklı ığdır",
    "Donaudampfschifffahrtsgesellschaft größer",
)
OPERATORS = (
    "&", "|", "!", "!!", "<->", "<2>", ":*", ":A", "'", "''", '"', '"open', "(", "))", "\\", "\\'",
    "%", "%s", "_", "*", "?", "--", "/*", "{}", "{{x}}", "${x}", "`", "foo & | bar", "C++", "-x",
    'site:"a', "NOT", "OR", "AND", "@@", "~", "^", "#", "[[p1]]", "[[p1:0-9]]", "<script>", "]]>",
)  # fmt: skip
MARKS = "\u200b\u200d\u200e\u200f\u202a\u202e\u2066\u2069\ufeff\u00ad\u034f\u3164\ufe0f\u2028\u2029"
COMBINING = "\u0300\u0301\u0308\u0323\u0489\u20dd\u0e31\u0e4d\u093c\u05b0"
UNSTORABLE = "\x00\ud800\udbff\udc00\udfff"
ASTRAL = "🚀👩‍👩‍👧‍👦🏴󠁧󠁢󠁥󠁮󠁧󠁿𝔘𝕟𓀀𠜎\U0010ffff\uffff\ufffe"
SPACES = " \t\u00a0\u3000\u2003\x0b\x0c\x85\r\n"


def hostile_texts(seed: int, count: int) -> list[str]:
    """`count` texts; every kind is among any fifty that follow each other."""
    dice = random.Random(seed)
    kinds: list[Callable[[random.Random], str]] = [
        _mixed, _operators, _unstorable, _combining, _bidi, _controls, _random_points, _spaces,
        _written_out, _long,
    ]  # fmt: skip
    return [kinds[number % len(kinds)](dice) for number in range(count)]


def _mixed(dice: random.Random) -> str:
    return dice.choice((" ", "", "\n")).join(dice.sample(SCRIPTS, dice.randint(1, 4)))


def _operators(dice: random.Random) -> str:
    parts = [dice.choice((dice.choice(OPERATORS), dice.choice(SCRIPTS[:3]))) for _ in range(6)]
    return dice.choice((" ", "")).join(parts)


def _unstorable(dice: random.Random) -> str:
    text = list(dice.choice(SCRIPTS))
    for _ in range(dice.randint(1, 6)):
        text.insert(dice.randint(0, len(text)), dice.choice(UNSTORABLE))
    return "".join(text)


def _combining(dice: random.Random) -> str:
    return "".join(
        char + "".join(dice.choices(COMBINING, k=dice.choice((0, 1, 40))))
        for char in dice.choice(SCRIPTS)
    )


def _bidi(dice: random.Random) -> str:
    return "".join(char + dice.choice(MARKS) for char in dice.choice(SCRIPTS))


def _controls(dice: random.Random) -> str:
    return "".join(chr(dice.randrange(0, 160)) for _ in range(dice.randint(1, 60)))


def _random_points(dice: random.Random) -> str:
    return "".join(chr(dice.randrange(0x110000)) for _ in range(dice.randint(1, 40)))


def _spaces(dice: random.Random) -> str:
    return "".join(dice.choices(SPACES + MARKS, k=dice.randint(1, 30)))


def _written_out(dice: random.Random) -> str:
    return dice.choice(SCRIPTS) + dice.choice(ASTRAL) + dice.choice(
        ("\\u0000", "&#0;", "%00", "\\x00", "\\ud83d", "=CMD()", "null", "undefined", "1e309")
    )  # fmt: skip


def _long(dice: random.Random) -> str:
    what = dice.choice(("x", "word ", "今", "\u0301", "🚀", "' & ", "\ud800", "a\n"))
    return what * dice.choice((300, 3_000, 30_000))


def one_line_of(megabytes: int) -> str:
    """A line without a break."""
    return "x" * (megabytes * 1024 * 1024)
