"""E-mail as an EML file: the headers people read, then the text; attachments are named, not
read."""

from __future__ import annotations

import re
from email import policy
from email.errors import MessageError
from email.message import EmailMessage
from email.parser import BytesParser

from retrieval.ingest.charset import decode
from retrieval.ingest.contract import Block, BlockList, Draft, FileToParse, ParseFailure
from retrieval.ingest.formats.html import read_markup
from retrieval.ingest.formats.text import split_paragraphs
from retrieval.ingest.properties import split_tags

_SHOWN_HEADERS = ("Subject", "From", "To", "Cc", "Date")
_ATTACHMENTS_NAMED = 20
_LONGEST_HEADER = 5_000


def read(file: FileToParse) -> Draft:
    """Header block, then the plain text part, or the HTML part where there is no plain one."""
    # Python's parser expects real line ends after a mailbox "From " line is gone.
    data = re.sub(rb"\A\s*(?:From [^\n]*\n)?", b"", file.data, count=1)
    try:
        message = BytesParser(EmailMessage, policy=policy.default).parsebytes(data)
        return _read_message(message, file)
    except (MessageError, LookupError, ValueError, AttributeError, IndexError, TypeError) as error:
        # The standard library raises all of these for malformed headers.
        raise ParseFailure("corrupt", "This e-mail is damaged and can't be read.") from error


def _read_message(message: EmailMessage, file: FileToParse) -> Draft:
    _shorten_headers(message)
    found = {name: " ".join(str(message[name] or "").split()) for name in _SHOWN_HEADERS}
    headers = {name: value for name, value in found.items() if value}
    if not headers:
        raise ParseFailure(
            "corrupt", "This isn't an e-mail: it has neither a sender nor a subject."
        )
    blocks = BlockList(file.limits)
    blocks.add("paragraph", "\n".join(f"{name}: {value}" for name, value in headers.items()))
    body = message.get_body(preferencelist=("plain", "html"))
    encoding = None
    if body is not None:
        payload = body.get_payload(decode=True)
        raw = payload if isinstance(payload, bytes) else b""
        decoded = decode(raw, declared=[body.get_content_charset()])
        encoding = decoded.encoding
        for block in _body_blocks(decoded.text, body.get_content_type(), file):
            blocks.add(block.kind, block.text, level=block.level)
    attached = [
        part.get_filename() or part.get_content_type() for part in message.iter_attachments()
    ]
    warnings = blocks.warnings()
    if attached:
        more = (
            f" and {len(attached) - _ATTACHMENTS_NAMED} more"
            if len(attached) > _ATTACHMENTS_NAMED
            else ""
        )
        warnings.append(f"Attachments not read: {', '.join(attached[:_ATTACHMENTS_NAMED])}{more}.")
    return Draft(
        "message/rfc822",
        blocks.finish(),
        title=headers.get("Subject", ""),
        encoding=encoding,
        warnings=warnings,
        author=headers.get("From", ""),
        dated=headers.get("Date", ""),
        tags=split_tags(str(message.get("Keywords", ""))),
    )


def _shorten_headers(message: EmailMessage) -> None:
    """Cut what no mail program shows: parsing a header of a hundred thousand characters takes
    seconds.
    """
    for name in _SHOWN_HEADERS:
        raw = next((str(value) for key, value in message.raw_items() if key == name), "")
        if len(raw) > _LONGEST_HEADER:
            message.replace_header(name, " ".join(raw[:_LONGEST_HEADER].split()))


def _body_blocks(text: str, media_type: str, file: FileToParse) -> list[Block]:
    if media_type == "text/html":
        return list(read_markup(text, file.limits).blocks)
    return [Block("paragraph", paragraph) for paragraph in split_paragraphs(text)]
