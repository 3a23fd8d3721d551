"""A mailbox behind a real server, and connectors that read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any

from retrieval.connectors.contract import Gone, Item, Page
from retrieval.connectors.mail_config import MailboxConfig
from retrieval.connectors.mailbox import MailboxConnector
from tests.retrieval.connectors.servers.imap_server import ImapServer


@dataclass
class Synced:
    """What one reading gave."""

    pages: list[Page]

    @property
    def checkpoint(self) -> str:
        return self.pages[-1].checkpoint

    @property
    def items(self) -> list[Item]:
        return [change for change in self._changes if isinstance(change, Item)]

    @property
    def titles(self) -> list[str]:
        return [item.title or item.file_name for item in self.items]

    @property
    def gone(self) -> list[str]:
        return [change.external_id for change in self._changes if isinstance(change, Gone)]

    @property
    def _changes(self) -> list[Item | Gone]:
        return [change for page in self.pages for change in page.changes]


@dataclass
class World:
    """One server, and the connectors opened on it."""

    server: ImapServer
    opened: list[MailboxConnector] = field(default_factory=list)

    def connect(self, **more: Any) -> MailboxConnector:
        values = {
            "host": "127.0.0.1",
            "port": self.server.port,
            "security": "none",
            "user": self.server.user,
            "password": self.server.password,
        }
        made = MailboxConnector(MailboxConfig.model_validate(values | more))
        self.opened.append(made)
        return made

    def sync(self, checkpoint: str | None = None, **more: Any) -> Synced:
        """One whole reading by a connector of its own."""
        connector = self.connect(**more)
        pages = list(connector.list_changes(checkpoint))
        connector.close()
        return Synced(pages)

    def close(self) -> None:
        for connector in self.opened:
            connector.close()


def letter(subject: str, *, number: str = "", attached: dict[str, bytes] | None = None) -> bytes:
    """A message as a mail program writes it."""
    made = EmailMessage()
    made["From"] = "Ada Lovelace <ada@example.org>"
    made["To"] = "reader@example.org"
    made["Subject"] = subject
    made["Date"] = "Mon, 02 Mar 2026 10:00:00 +0100"
    if number:
        made["Message-ID"] = f"<{number}@example.org>"
    made.set_content(f"The text of {subject}.\n")
    for name, data in (attached or {}).items():
        made.add_attachment(data, maintype="application", subtype="pdf", filename=name)
    return made.as_bytes()
