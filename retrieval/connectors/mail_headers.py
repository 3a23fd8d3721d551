"""The few headers that a message is listed by, whatever shape they are in.

Promises: no header makes this fail; what can't be decoded is shown with replacement characters.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from email.errors import HeaderParseError, MessageError
from email.header import decode_header
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32
from email.utils import parseaddr, parsedate_to_datetime

from kaizen.kernel.text import make_storable

FIELDS = "MESSAGE-ID SUBJECT FROM DATE"

_LONGEST = 4_000
_BLANKS = re.compile(r"\s+")
_MESSAGE_ID = re.compile(r"<([^<>]+)>")
_WORD = r"=\?[^?\s]+\?[bq]\?[^?]*\?="
_ENCODED_WORDS = re.compile(rf"{_WORD}(?:\s+{_WORD})*", re.I)


@dataclass(frozen=True, slots=True)
class Headers:
    """What a message says of itself."""

    message_id: str
    subject: str
    author: str
    dated_at: datetime | None


def read_headers(data: bytes, *, received: datetime | None) -> Headers:
    """The headers of a message; its arrival counts where its own date makes no sense."""
    message = BytesParser(Message, policy=compat32).parsebytes(data, headersonly=True)
    named = _MESSAGE_ID.search(_raw(message, "Message-ID"))
    name, address = _read_sender(_raw(message, "From"))
    return Headers(
        message_id="".join(named.group(1).split()) if named else "",
        subject=header_text(_raw(message, "Subject")),
        author=(header_text(name) or header_text(address))[:200],
        dated_at=read_date(_raw(message, "Date")) or received,
    )


def header_text(raw: str) -> str:
    """A header as people read it: encoded words decoded, folds undone."""
    plain = _decode(raw.encode("utf-8", "surrogateescape"), None)
    text = _ENCODED_WORDS.sub(_decode_words, plain)
    return _BLANKS.sub(" ", make_storable(text).text).strip()


def read_date(text: str) -> datetime | None:
    """A date header in UTC, None where it can't be one."""
    try:
        found = parsedate_to_datetime(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def read_part(header: bytes, body: bytes) -> bytes:
    """The bytes of an attached file, from its MIME header and its body as transferred."""
    part = BytesParser(Message, policy=compat32).parsebytes(header, headersonly=True)
    if part.get_content_maintype() in ("message", "multipart"):
        # A message in a message isn't encoded.
        return body
    part.set_payload(body.decode("ascii", "surrogateescape"))
    try:
        decoded = part.get_payload(decode=True)
    except (MessageError, ValueError, LookupError):
        return body
    return decoded if isinstance(decoded, bytes) else body


def encode_folder(name: str) -> bytes:
    """A folder's name as IMAP writes it (modified UTF-7), quoted."""
    encoded = re.sub(r"[^\x20-\x7e]+", _encode_run, name.replace("&", "&-"))
    return b'"' + encoded.encode("ascii").replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def _encode_run(found: re.Match[str]) -> str:
    packed = b64encode(found.group().encode("utf-16-be", "surrogatepass"), b"+,")
    return f"&{packed.decode().rstrip('=')}-"


def _decode_words(found: re.Match[str]) -> str:
    try:
        pieces = decode_header(found.group())
    except (HeaderParseError, ValueError):
        return found.group()
    return "".join(
        _decode(piece, charset) if isinstance(piece, bytes) else piece for piece, charset in pieces
    )


def _read_sender(raw: str) -> tuple[str, str]:
    try:
        return parseaddr(raw)
    except (RecursionError, IndexError, ValueError):
        # Comments in comments without end, and the like.
        return "", raw


def _raw(message: Message, name: str) -> str:
    """A header as it came, at most so long; bytes that aren't ASCII stand as surrogates."""
    for header, value in message.raw_items():
        if header.lower() == name.lower():
            return str(value)[:_LONGEST]
    return ""


def _decode(data: bytes, charset: str | None) -> str:
    for name in (charset, "utf-8"):
        try:
            if name:
                return data.decode(name)
        except (LookupError, ValueError):
            continue
    return data.decode("windows-1252", "replace")
