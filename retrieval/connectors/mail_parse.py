"""Reading what IMAP servers say about messages: FETCH responses and the structure of their parts.

Promises: any bytes are either understood or refused with MailSyntaxError; nesting is bounded. Not
for: the content of messages, which is the parser's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.utils import collapse_rfc2231_value, decode_params

from retrieval.connectors.mail_headers import header_text

MOST_ATTACHMENTS = 50

_DEEPEST = 60
_TOKEN = re.compile(
    rb'\s*(?:(?P<open>\()|(?P<close>\))|"(?P<text>(?:[^"\\]|\\.)*)"'
    rb"|(?P<word>[^\s()\"\[]+(?:\[[^\]]*\](?:<\d+>)?)?))",
    re.S,
)
_UNTOLD = {"application/pkcs7-signature", "application/x-pkcs7-signature"}
_UNTOLD |= {"application/pgp-signature", "application/pgp-keys", "text/calendar"}
_TYPE = re.compile(r"[a-z0-9.+_-]+/[a-z0-9.+_-]+")

Value = bytes | None | list["Value"]
Piece = bytes | tuple[bytes, bytes]


class MailSyntaxError(ValueError):
    """A response that doesn't follow the protocol."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A part that is a file of its own."""

    part: str
    name: str
    media_type: str
    size: int


def read_fetches(
    pieces: Sequence[Piece | None], *, leave_out_broken: bool = False
) -> Iterator[dict[str, Value]]:
    """The answers among what imaplib gives for FETCH, as name and value.

    Raises MailSyntaxError, unless broken answers are to be left out.
    """
    answer: list[Piece] = []
    for piece in pieces:
        if piece is None:
            continue
        answer.append(piece)
        # A pair is text up to a literal, and the literal; the answer goes on after it.
        if isinstance(piece, bytes):
            try:
                yield _read_fetch(answer)
            except MailSyntaxError:
                if not leave_out_broken:
                    raise
            answer = []


def list_attachments(structure: Value) -> list[Attachment]:
    """The attached files of a message, from its BODYSTRUCTURE. Raises MailSyntaxError."""
    found: list[Attachment] = []
    for number, part in _leaves(structure, "", 0):
        attachment = _read_attachment(number, part)
        if attachment is not None:
            found.append(attachment)
        if len(found) == MOST_ATTACHMENTS:
            break
    return found


def _read_fetch(answer: Sequence[Piece]) -> dict[str, Value]:
    values = _read_values(answer)
    inner = values[1] if len(values) > 1 else None
    if not isinstance(inner, list) or len(inner) % 2:
        raise MailSyntaxError("not a FETCH response")
    found: dict[str, Value] = {}
    for name, value in zip(inner[::2], inner[1::2], strict=True):
        if not isinstance(name, bytes):
            raise MailSyntaxError("not a FETCH response")
        found[name.decode("ascii", "replace").upper()] = value
    return found


def _read_values(answer: Sequence[Piece]) -> list[Value]:
    stack: list[list[Value]] = [[]]
    for piece in answer:
        text, literal = piece if isinstance(piece, tuple) else (piece, None)
        if literal is not None:
            text = re.sub(rb"~?\{\d+\+?\}\s*\Z", b"", text)
        _read_text(text, stack)
        if literal is not None:
            stack[-1].append(literal)
    if len(stack) != 1:
        raise MailSyntaxError("unbalanced")
    return stack[0]


def _read_text(text: bytes, stack: list[list[Value]]) -> None:
    text = text.rstrip()
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise MailSyntaxError("not a token")
        position = token.end()
        if token.group("open"):
            if len(stack) > _DEEPEST:
                raise MailSyntaxError("too deep")
            stack.append([])
        elif token.group("close"):
            if len(stack) == 1:
                raise MailSyntaxError("unbalanced")
            done = stack.pop()
            stack[-1].append(done)
        elif (quoted := token.group("text")) is not None:
            stack[-1].append(re.sub(rb"\\(.)", rb"\1", quoted, flags=re.S))
        else:
            word = token.group("word")
            stack[-1].append(None if word.upper() == b"NIL" else word)


def _leaves(structure: Value, number: str, depth: int) -> Iterator[tuple[str, list[Value]]]:
    """The parts that hold something, with the numbers that FETCH knows them by."""
    if not isinstance(structure, list) or not structure or depth > _DEEPEST:
        raise MailSyntaxError("not a structure")
    if not isinstance(structure[0], list):
        yield number or "1", structure
        return
    for index, child in enumerate(structure, start=1):
        if not isinstance(child, list):
            break
        yield from _leaves(child, f"{number}.{index}" if number else str(index), depth + 1)


def _read_attachment(number: str, part: list[Value]) -> Attachment | None:
    if len(part) < 7:
        raise MailSyntaxError("not a part")
    media_type = f"{_word(part[0])}/{_word(part[1])}"
    disposition = _read_disposition(media_type, part)
    kind = _word(disposition[0]) if disposition else ""
    told = _read_parameters(disposition[1]) if len(disposition) > 1 else {}
    name = told.get("filename") or _read_parameters(part[2]).get("name", "")
    is_message = media_type in ("message/rfc822", "message/global")
    if media_type in _UNTOLD or not (name or kind == "attachment" or is_message):
        return None
    if media_type.startswith("image/") and kind != "attachment":
        # Pictures that belong to the text: logos, signatures, trackers.
        return None
    size = part[6] if isinstance(part[6], bytes) and part[6].isdigit() else b"0"
    if is_message and not name.lower().endswith(".eml"):
        name = f"{name or 'message'}.eml"
    return Attachment(
        number,
        name or f"attachment {number}",
        media_type if _TYPE.fullmatch(media_type) else "application/octet-stream",
        int(size[:18]),
    )


def _read_disposition(media_type: str, part: list[Value]) -> list[Value]:
    place = 8
    if media_type.startswith("text/"):
        place = 9
    elif media_type in ("message/rfc822", "message/global") and len(part) > 8:
        place = 11
    found = part[place] if len(part) > place else None
    return found if isinstance(found, list) else []


def _read_parameters(value: Value) -> Mapping[str, str]:
    """Names and values, with RFC 2231 pieces put together and encoded words decoded."""
    if not isinstance(value, list):
        return {}
    words = [item.decode("utf-8", "surrogateescape") for item in value if isinstance(item, bytes)]
    pairs = [
        (name.lower(), f'"{text}"') for name, text in zip(words[::2], words[1::2], strict=False)
    ]
    try:
        decoded = decode_params([("", ""), *pairs])[1:]
    except (LookupError, ValueError, TypeError):
        # Pieces of one name with and without numbers, and the like.
        decoded = list(pairs)
    found: dict[str, str] = {}
    for name, told in decoded:
        try:
            found[name.lower()] = header_text(collapse_rfc2231_value(told).strip('"'))
        except (LookupError, ValueError, TypeError):
            continue
    return found


def _word(value: Value) -> str:
    return value.decode("ascii", "replace").lower() if isinstance(value, bytes) else ""
