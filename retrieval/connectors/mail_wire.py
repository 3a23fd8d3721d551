"""How the mailbox connector talks to an IMAP server: read-only, and within limits.

Promises: a folder is only ever opened for reading, so nothing is marked as seen; the password goes
over TLS, or to an inner address that the operator named; each command has a time and a number of
bytes; no message holds a secret or what the server said.
"""

from __future__ import annotations

import imaplib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from typing import Literal, TypeVar

from retrieval.connectors.contract import ConnectorError
from retrieval.connectors.mail_client import ImapClient
from retrieval.connectors.mail_headers import FIELDS, encode_folder
from retrieval.connectors.mail_parse import MailSyntaxError, Piece, Value, read_fetches
from retrieval.connectors.wire import connect, explained, may_be_plain

Security = Literal["tls", "starttls", "none"]
Result = TypeVar("Result")

COMMAND_SECONDS = 120.0
FETCH_SECONDS = 600.0

_TALK_BYTES = 16 * 1024**2
_IDLE_SECONDS = 60.0
_SEARCH_WINDOW = 20_000
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_PASSING = (b"[UNAVAILABLE]", b"[INUSE]", b"[LIMIT]", b"[SERVERBUG]", b"[CONTACTADMIN]")


@dataclass(frozen=True, slots=True)
class Account:
    """Where the mailbox is and who reads it."""

    host: str
    port: int
    security: Security
    user: str
    password: str


@dataclass(frozen=True, slots=True)
class Opened:
    """A folder that is open now."""

    name: str
    validity: int
    count: int


class MailLine:
    """A connection that is made when it is needed, and again after it broke."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._client: ImapClient | None = None
        self._opened: Opened | None = None
        self._used = 0.0

    def open_folder(self, name: str, *, again: bool = True) -> Opened:
        """Open a folder for reading; `again=False` keeps one that is open. Raises
        ConnectorError.
        """
        self._drop_idle()
        if self._opened is not None and self._opened.name == name and not again:
            return self._opened
        mailbox = encode_folder(name).decode("ascii")
        status, data = self._do(lambda client: client.select(mailbox, readonly=True))
        if status != "OK":
            raise ConnectorError(f"The mailbox has no folder {name}.", retry=False)
        client = self._ready()
        validity = client.response("UIDVALIDITY")[1]
        self._opened = Opened(name, _number(validity), _number(data))
        return self._opened

    def list_uids(self, folder: str, since: date | None) -> list[int]:
        """The numbers of all messages in a folder, ascending."""
        for _attempt in range(3):
            opened = self.open_folder(folder)
            found: set[int] = set()
            for first in range(1, opened.count + 1, _SEARCH_WINDOW):
                # By place, not by number: places are dense, so that no answer is too long.
                last = min(first + _SEARCH_WINDOW - 1, opened.count)
                wanted = [f"{first}:{last}"]
                if since is not None:
                    month = _MONTHS[since.month - 1]
                    wanted += ["SINCE", f"{since.day}-{month}-{since.year:04}"]
                found.update(_numbers(self._uid("SEARCH", *wanted)))
            if self._ready().response("EXPUNGE")[1] == [None]:
                return sorted(found)
            # Places moved meanwhile, and a message may have slipped through between two windows.
        raise ConnectorError(f"The folder {folder} changes too fast to be read just now.")

    def list_headers(self, uids: Sequence[int]) -> dict[int, dict[str, Value]]:
        """Size, arrival, structure and headers of messages of the open folder, by number.

        Without the structure where the server can't say it in a way that can be read; without the
        message where it is gone.
        """
        found: dict[int, dict[str, Value]] = {}
        for structure in ("BODYSTRUCTURE ", ""):
            wanted = [uid for uid in uids if uid not in found]
            if not wanted:
                break
            answers = self._fetch(
                ",".join(map(str, wanted)),
                f"(UID RFC822.SIZE INTERNALDATE {structure}BODY.PEEK[HEADER.FIELDS ({FIELDS})])",
                most_bytes=4 * _TALK_BYTES,
                leave_out_broken=True,
            )
            for answer in answers:
                uid = answer.get("UID")
                if isinstance(uid, bytes) and uid.isdigit() and "RFC822.SIZE" in answer:
                    found[int(uid)] = answer
        return found

    def find_message(self, uid: int, *, most_bytes: int) -> bytes | None:
        """A whole message of the open folder, None where it is gone."""
        for answer in self._fetch(str(uid), "(UID BODY.PEEK[])", most_bytes=most_bytes):
            found = answer.get("BODY[]")
            if answer.get("UID") == b"%d" % uid and isinstance(found, bytes):
                return found
        return None

    def find_part(self, uid: int, part: str, *, most_bytes: int) -> tuple[bytes, bytes] | None:
        """The header and the body of a part of a message, None where it is gone."""
        body, mime, header = f"BODY[{part}]", f"BODY[{part}.MIME]", "BODY[HEADER]"
        # A message of one part has no header of the part: it is the header of the message.
        peek = [name.replace("BODY[", "BODY.PEEK[") for name in (mime, body)]
        if part == "1":
            peek.append(header.replace("BODY[", "BODY.PEEK["))
        for answer in self._fetch(str(uid), f"(UID {' '.join(peek)})", most_bytes=most_bytes):
            found = answer.get(body)
            if answer.get("UID") == b"%d" % uid and isinstance(found, bytes):
                told = answer.get(mime) or answer.get(header)
                return (told if isinstance(told, bytes) else b""), found
        return None

    def close(self) -> None:
        """Take leave."""
        if self._client is not None:
            with suppress(ConnectorError):
                self._do(lambda client: client.logout())
        self._drop()

    def _fetch(
        self, uids: str, items: str, *, most_bytes: int, leave_out_broken: bool = False
    ) -> list[dict[str, Value]]:
        data = self._uid(
            "FETCH", uids, items, most_bytes=most_bytes + _TALK_BYTES, seconds=FETCH_SECONDS
        )
        try:
            answers = read_fetches(data, leave_out_broken=leave_out_broken)
            return [answer for answer in answers if "UID" in answer]
        except MailSyntaxError as error:
            raise self._unclear() from error

    def _uid(
        self,
        command: str,
        *words: str,
        most_bytes: int = _TALK_BYTES,
        seconds: float | None = None,
    ) -> Sequence[Piece | None]:
        status, data = self._do(
            lambda client: client.uid(command, *words), most_bytes=most_bytes, seconds=seconds
        )
        if status != "OK":
            raise ConnectorError(f"{self._account.host} refused to give messages.")
        return data

    def _do(
        self,
        act: Callable[[ImapClient], Result],
        *,
        most_bytes: int = _TALK_BYTES,
        seconds: float | None = None,
    ) -> Result:
        client = self._ready()
        client.limit(seconds=seconds or COMMAND_SECONDS, most_bytes=most_bytes)
        with self._explained():
            result = act(client)
        self._used = time.monotonic()
        return result

    def _ready(self) -> ImapClient:
        if self._client is None:
            self._client = self._connect()
            self._used = time.monotonic()
        return self._client

    def _drop_idle(self) -> None:
        """Servers hang up on who is silent; find out before a command depends on it."""
        if self._client is None or time.monotonic() - self._used < _IDLE_SECONDS:
            return
        try:
            self._do(lambda client: client.noop())
        except ConnectorError:
            self._drop()

    def _drop(self) -> None:
        if self._client is not None:
            with suppress(OSError):
                self._client.shutdown()
        self._client, self._opened = None, None

    def _connect(self) -> ImapClient:
        account = self._account
        sock = connect(account.host, account.port, tls=account.security == "tls")
        try:
            if account.security == "none" and not may_be_plain(sock):
                raise ConnectorError(
                    "Choose TLS or STARTTLS: without, the password could be read on the way.",
                    retry=False,
                )
            with self._explained():
                client = ImapClient(
                    sock, account.host, seconds=COMMAND_SECONDS, most_bytes=_TALK_BYTES
                )
                if account.security == "starttls":
                    self._start_tls(client)
                if client.state == "NONAUTH":
                    self._sign_in(client)
            return client
        except ConnectorError:
            sock.close()
            raise

    def _start_tls(self, client: ImapClient) -> None:
        if "STARTTLS" not in client.capabilities:
            raise ConnectorError(
                f"{self._account.host} doesn't offer STARTTLS. Choose TLS.", retry=False
            )
        client.start_tls()

    def _sign_in(self, client: ImapClient) -> None:
        host = self._account.host
        if "LOGINDISABLED" in client.capabilities:
            raise ConnectorError(
                f"{host} takes no password on this connection. Choose TLS, or an account that may "
                "sign in with a password.",
                retry=False,
            )
        status, data = client.sign_in(self._account.user, self._account.password)
        if status == "OK":
            return
        told = data[0] if data and isinstance(data[0], bytes) else b""
        if told.startswith(_PASSING):
            raise ConnectorError(f"{host} lets nobody sign in just now.")
        raise ConnectorError(f"{host} refused the user name or the password.", retry=False)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn trouble into a ConnectorError; the connection isn't used again after it."""
        try:
            with explained(self._account.host):
                try:
                    yield
                except imaplib.IMAP4.abort:
                    # The library hides what cut the connection behind its own error.
                    raise ConnectionResetError from None
                except (imaplib.IMAP4.error, ValueError, LookupError, TypeError):
                    raise self._unclear() from None
        except ConnectorError:
            self._drop()
            raise

    def _unclear(self) -> ConnectorError:
        return ConnectorError(f"{self._account.host} gives an answer that can't be understood.")


def _number(data: Sequence[Piece | None]) -> int:
    found = data[-1] if data else None
    return int(found) if isinstance(found, bytes) and found.isdigit() else 0


def _numbers(data: Sequence[Piece | None]) -> Iterator[int]:
    for line in data:
        if isinstance(line, bytes):
            # What follows in brackets counts changes, not messages.
            for word in line.partition(b"(")[0].split():
                if word.isdigit():
                    yield int(word)
