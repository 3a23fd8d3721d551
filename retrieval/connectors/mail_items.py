"""A message as items: itself, and each file attached to it.

Promises: nobody takes another message's place by claiming its Message-ID; a message whose structure
makes no sense is still an item of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b

from retrieval.connectors.contract import Item
from retrieval.connectors.mail_headers import Headers, read_date, read_headers
from retrieval.connectors.mail_parse import Attachment, MailSyntaxError, Value, list_attachments
from retrieval.connectors.mail_state import FolderState, Known, external_id

# Attachments travel in an encoding that takes a third more.
_CODED = 1.4
_SLASHES = re.compile(r"[/\\]+")


@dataclass(frozen=True, slots=True)
class Choice:
    """What of a message is read."""

    largest: int
    attachments: bool


def take_message(
    name: str, folder: FolderState, taken: set[str], answer: dict[str, Value], choice: Choice
) -> list[Item]:
    """Note a message that the server told of, and give its items.

    `taken` holds the identities that messages of the folder have, and gets the new one.
    """
    uid = _number_of(answer.get("UID"))
    if _number_of(answer.get("RFC822.SIZE")) > choice.largest:
        folder.messages[uid] = Known("")
        return []
    headers = _read_headers(answer)
    numbered = f"{folder.validity}.{uid}"
    identity = _identity_of(headers.message_id, numbered)
    if identity in taken:
        # The first one keeps the name.
        identity = numbered
    taken.add(identity)
    attachments = _choose_attachments(answer.get("BODYSTRUCTURE"), choice)
    folder.messages[uid] = Known(identity, tuple(part.part for part in attachments))
    message = _message_item(name, identity, numbered, headers)
    return [message, *(_attachment_item(message, part) for part in attachments)]


def _read_headers(answer: dict[str, Value]) -> Headers:
    arrival = answer.get("INTERNALDATE")
    header = next((value for key, value in answer.items() if key.startswith("BODY[")), None)
    return read_headers(
        header if isinstance(header, bytes) else b"",
        received=read_date(arrival.decode("ascii", "replace").strip())
        if isinstance(arrival, bytes)
        else None,
    )


def _choose_attachments(structure: Value, choice: Choice) -> list[Attachment]:
    if not choice.attachments:
        return []
    try:
        found = list_attachments(structure)
    except MailSyntaxError:
        return []
    return [part for part in found if part.size <= choice.largest * _CODED]


def _identity_of(message_id: str, numbered: str) -> str:
    if not message_id:
        return numbered
    return blake2b(message_id.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()


def _message_item(folder: str, identity: str, numbered: str, headers: Headers) -> Item:
    subject = headers.subject or "(no subject)"
    return Item(
        external_id=external_id(folder, identity),
        revision=numbered,
        file_name=f"{_SLASHES.sub('-', subject)[:150].rstrip()}.eml",
        title=subject[:300],
        path=folder,
        author=headers.author,
        dated_at=headers.dated_at,
        media_type="message/rfc822",
    )


def _attachment_item(message: Item, attachment: Attachment) -> Item:
    return Item(
        external_id=f"{message.external_id}#{attachment.part}",
        revision=message.revision,
        file_name=_SLASHES.sub("-", attachment.name),
        path=message.path,
        author=message.author,
        dated_at=message.dated_at,
        media_type=attachment.media_type[:120],
    )


def _number_of(value: Value) -> int:
    return int(value) if isinstance(value, bytes) and value.isdigit() else 0
