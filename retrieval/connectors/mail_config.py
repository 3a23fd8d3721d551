"""The settings of a mailbox: which server, whose mailbox, which folders and how much of them."""

from __future__ import annotations

import re
from datetime import date

from pydantic import BaseModel, Field, SecretStr, field_validator

from retrieval.connectors.mail_wire import Security

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class MailboxConfig(BaseModel):
    """Which folders of whose mailbox."""

    host: str = Field(title="Server", description="The name of the IMAP server.", max_length=253)
    port: int = Field(
        993, title="Port", description="993 for TLS, 143 for STARTTLS.", ge=1, le=65_535
    )
    security: Security = Field(
        "tls",
        title="Encryption",
        description="TLS from the start, STARTTLS, or none: only inside the operator's network.",
    )
    user: str = Field(title="User name", description="Often the e-mail address.", max_length=320)
    password: SecretStr = Field(
        title="Password", description="Of the mailbox, or one made for this purpose."
    )
    folders: list[str] = Field(
        default_factory=lambda: ["INBOX"],
        title="Folders",
        description="The names of the folders to read, as the mail program shows them, with the "
        "server's separator.",
        min_length=1,
        max_length=100,
    )
    since: str = Field(
        "",
        title="Since",
        description="A day such as 2026-01-31: only messages that arrived then or later. Empty for "
        "all.",
        max_length=10,
    )
    attachments: bool = Field(
        True, title="Attachments", description="Read attached files as documents of their own."
    )
    largest_message_mb: int = Field(
        25,
        title="Largest message (MB)",
        description="Larger messages are left out, with their attachments.",
        ge=1,
        le=50,
    )

    @field_validator("host", "user")
    @classmethod
    def _check_line(cls, value: str) -> str:
        value = value.strip()
        if not value or _CONTROL.search(value):
            raise ValueError("This can't be empty, or hold control characters.")
        return value

    @field_validator("password")
    @classmethod
    def _check_password(cls, value: SecretStr) -> SecretStr:
        if not value.get_secret_value() or "\0" in value.get_secret_value():
            raise ValueError("A password is needed.")
        return value

    @field_validator("folders")
    @classmethod
    def _check_folders(cls, value: list[str]) -> list[str]:
        names = [name.strip() for name in value if name.strip()]
        if not names or any(_CONTROL.search(name) or len(name) > 250 for name in names):
            raise ValueError("Name at least one folder, each in one line.")
        # INBOX alone is the same in any case.
        names = ["INBOX" if name.upper() == "INBOX" else name for name in names]
        return list(dict.fromkeys(names))

    @field_validator("since")
    @classmethod
    def _check_since(cls, value: str) -> str:
        value = value.strip()
        if value:
            try:
                date.fromisoformat(value)
            except ValueError:
                raise ValueError("Write the day as year-month-day, such as 2026-01-31.") from None
        return value

    def since_day(self) -> date | None:
        """The first day of arrival that counts."""
        return date.fromisoformat(self.since) if self.since else None
