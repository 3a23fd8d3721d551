"""Messages of an IMAP mailbox, and the files attached to them, each as an item of its own.

Promises: reading marks nothing as seen; after the first sync only new messages are asked for, and
what vanished is told; a message keeps its identity when the server numbers a folder anew.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from hashlib import sha256
from typing import ClassVar

from pydantic import BaseModel

from retrieval.connectors.contract import ConnectorError, Fetched, Gone, Item, Page
from retrieval.connectors.mail_config import MailboxConfig
from retrieval.connectors.mail_headers import read_part
from retrieval.connectors.mail_items import Choice, take_message
from retrieval.connectors.mail_parse import Value
from retrieval.connectors.mail_state import FolderState, State, read_state, write_state
from retrieval.connectors.mail_wire import Account, MailLine

PAGE_SIZE = 100
MOST_MESSAGES = 200_000

_MEGABYTE = 1024 * 1024
_NAME = re.compile(r"(?P<folder>.*)/(?P<identity>[0-9a-z.]+)(?:#(?P<part>[0-9.]+))?", re.S)
_REVISION = re.compile(r"(\d{1,10})\.(\d{1,10})")
# Writing down what a large mailbox holds takes a while; what lies between is read again.
_CHECKPOINT_SECONDS = 20.0
_SMALL = 5_000


class MailboxConnector:
    """Reads some folders of one mailbox."""

    slug: ClassVar[str] = "mailbox"
    title: ClassVar[str] = "Mailbox (IMAP)"
    description: ClassVar[str] = "The messages in folders of a mailbox, and their attachments."
    Config: ClassVar[type[BaseModel]] = MailboxConfig
    mirrors_acl: ClassVar[bool] = False

    def __init__(self, config: BaseModel) -> None:
        self._config = config = MailboxConfig.model_validate(config)
        self._largest = config.largest_message_mb * _MEGABYTE
        self._line = MailLine(
            Account(
                host=config.host,
                port=config.port,
                security=config.security,
                user=config.user,
                password=config.password.get_secret_value(),
            )
        )

    def check(self) -> None:
        """Sign in and open each folder. Raises ConnectorError."""
        for folder in self._config.folders:
            self._line.open_folder(folder)

    def list_changes(self, checkpoint: str | None) -> Iterator[Page]:
        """New messages and what vanished since the checkpoint, folder by folder.

        Raises ConnectorError.
        """
        mark = self._settings_mark()
        state = read_state(checkpoint, mark=mark) or State(mark=mark, is_listing=True)
        written, written_at = checkpoint or "", 0.0
        for changes in self._read_folders(state):
            if state.count() < _SMALL or time.monotonic() - written_at > _CHECKPOINT_SECONDS:
                written, written_at = write_state(state), time.monotonic()
            yield Page(changes=changes, checkpoint=written, is_listing=state.is_listing)
        was_listing, state.is_listing = state.is_listing, False
        yield Page(changes=(), checkpoint=write_state(state), is_listing=was_listing)

    def fetch(self, item: Item) -> Fetched | None:
        """A message or an attached file, None when it is gone. Raises ConnectorError."""
        name, numbered = _NAME.fullmatch(item.external_id), _REVISION.fullmatch(item.revision)
        if name is None or numbered is None:
            return None
        validity, uid = int(numbered.group(1)), int(numbered.group(2))
        opened = self._line.open_folder(name.group("folder"), again=False)
        if opened.validity != validity:
            raise ConnectorError(
                f"The server has numbered the folder {opened.name} anew; the next sync reads it."
            )
        part = name.group("part")
        if part is None:
            data = self._line.find_message(uid, most_bytes=self._largest)
            return None if data is None else Fetched(data, "message/rfc822")
        found = self._line.find_part(uid, part, most_bytes=self._largest)
        return None if found is None else Fetched(read_part(*found), item.media_type)

    def close(self) -> None:
        """Take leave of the server."""
        self._line.close()

    def _read_folders(self, state: State) -> Iterator[list[Item | Gone]]:
        """The changes in pages. Before each, `state` says how far they go with it."""
        for name in self._config.folders:
            yield from self._read_folder(name, state)
        for name in [name for name in state.folders if name not in self._config.folders]:
            folder = state.folders[name]
            folder.forget(list(folder.messages))
            yield from _take_leave(name, folder)
            del state.folders[name]

    def _read_folder(self, name: str, state: State) -> Iterator[list[Item | Gone]]:
        uids = self._line.list_uids(name, self._config.since_day())
        opened = self._line.open_folder(name, again=False)
        folder = state.folders.setdefault(name, FolderState(opened.validity))
        if folder.validity != opened.validity:
            folder.forget(list(folder.messages))
            folder.validity = opened.validity
        folder.forget(folder.messages.keys() - set(uids))
        new = [uid for uid in uids if uid not in folder.messages]
        if state.count() + len(new) > MOST_MESSAGES:
            raise ConnectorError(
                f"The folders hold more than {MOST_MESSAGES} messages. Choose a later day, or "
                "fewer folders.",
                retry=False,
            )
        choice = Choice(self._largest, self._config.attachments)
        taken = {message.identity for message in folder.messages.values()}
        for first in range(0, len(new), PAGE_SIZE):
            changes: list[Item | Gone] = []
            for answer in self._list_messages(name, opened.validity, new[first:][:PAGE_SIZE]):
                changes += take_message(name, folder, taken, answer, choice)
            yield changes
        yield from _take_leave(name, folder)

    def _list_messages(self, name: str, validity: int, uids: list[int]) -> list[dict[str, Value]]:
        """What the server tells of messages, in their order, without those that just vanished."""
        if self._line.open_folder(name, again=False).validity != validity:
            raise ConnectorError(f"The server has just numbered the folder {name} anew.")
        told = self._line.list_headers(uids)
        return [told[uid] for uid in uids if uid in told]

    def _settings_mark(self) -> str:
        """Changes with every setting that decides what an item is."""
        chosen = self._config.model_dump(
            include={"host", "user", "attachments", "largest_message_mb"}
        )
        return sha256(repr(sorted(chosen.items())).encode()).hexdigest()[:16]


def _take_leave(name: str, folder: FolderState) -> Iterator[list[Item | Gone]]:
    """What is gone from a folder. Forgotten only with the last of its pages."""
    gone = sorted(folder.gone(name))
    for first in range(0, len(gone), PAGE_SIZE):
        if first + PAGE_SIZE >= len(gone):
            folder.vanished.clear()
        yield [Gone(item) for item in gone[first : first + PAGE_SIZE]]
    folder.vanished.clear()
