"""A real, small IMAP server on this machine: enough of RFC 3501 to read mailboxes, in a thread."""

from __future__ import annotations

import re
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from email import message_from_bytes
from email.message import Message

ARRIVAL = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


@dataclass
class Mail:
    data: bytes
    arrived: datetime = ARRIVAL
    seen: bool = False


@dataclass
class Folder:
    """Messages by number; `add` numbers them on."""

    validity: int = 1
    mails: dict[int, Mail] = field(default_factory=dict)
    last: int = 0

    def add(self, data: bytes | str, *, arrived: datetime = ARRIVAL) -> int:
        raw = data.encode() if isinstance(data, str) else data
        self.last += 1
        self.mails[self.last] = Mail(re.sub(rb"\r?\n", b"\r\n", raw), arrived)
        return self.last

    def renumber(self) -> None:
        """What a server does whose index was lost."""
        mails = [self.mails[uid] for uid in sorted(self.mails)]
        self.validity += 1
        self.mails = {number + 100: mail for number, mail in enumerate(mails)}
        self.last = max(self.mails, default=0)


class ImapServer(socketserver.ThreadingTCPServer):
    """Folders by their name in modified UTF-7, for one user."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, *, tls: ssl.SSLContext | None = None, starttls: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.folders: dict[str, Folder] = {"INBOX": Folder()}
        self.user, self.password = "reader@example.org", "right password"
        self.tls, self.starttls = tls, starttls
        self.capabilities = "IMAP4rev1"
        self.login_refusal = "[AUTHENTICATIONFAILED] no"
        self.commands: list[str] = []
        # A command that starts with one of these ends the connection instead.
        self.hang_up_on: set[str] = set()
        # Raw lines that are sent instead of the answers to a command.
        self.instead: dict[str, bytes] = {}
        self.broken_structure = False
        self.connections = 0

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def inbox(self) -> Folder:
        return self.folders["INBOX"]

    def handle_error(self, request: object, client_address: object) -> None:
        """Broken connections are part of the tests."""


@contextmanager
def serving(*, tls: ssl.SSLContext | None = None, starttls: bool = False) -> Iterator[ImapServer]:
    """A started server, stopped at the end."""
    server = ImapServer(tls=tls, starttls=starttls)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Session(socketserver.StreamRequestHandler):
    server: ImapServer

    def setup(self) -> None:
        self.secured = False
        if self.server.tls is not None and not self.server.starttls:
            self._secure()
        super().setup()

    def _secure(self) -> None:
        assert self.server.tls is not None
        self.request = self.connection = self.server.tls.wrap_socket(self.request, server_side=True)
        self.secured = True

    def handle(self) -> None:
        self.server.connections += 1
        self.folder: Folder | None = None
        self._send(b"* OK ready")
        with suppress(ConnectionError):
            while line := self._read_line():
                tag, _, rest = line.partition(b" ")
                command = rest.decode("utf-8", "replace")
                self.server.commands.append(command)
                if any(command.startswith(start) for start in self.server.hang_up_on):
                    return
                raw = next(
                    (self.server.instead[s] for s in self.server.instead if command.startswith(s)),
                    None,
                )
                if raw is not None:
                    self.wfile.write(raw)
                    self._send(tag + b" OK done")
                elif not self._act(tag, command):
                    return

    def _act(self, tag: bytes, command: str) -> bool:
        name, _, rest = command.partition(" ")
        if name == "LOGOUT":
            self._send(b"* BYE bye")
            self._send(tag + b" OK done")
            return False
        answer = getattr(self, f"_on_{name.lower()}")(rest)
        self._send(tag + b" " + answer.encode())
        if name == "STARTTLS":
            self._secure()
            super().setup()
        return True

    def _on_capability(self, _rest: str) -> str:
        offer = " STARTTLS" if self.server.starttls and not self.secured else ""
        self._send(f"* CAPABILITY {self.server.capabilities}{offer}".encode())
        return "OK done"

    def _on_noop(self, _rest: str) -> str:
        return "OK done"

    def _on_starttls(self, _rest: str) -> str:
        return "OK go on"

    def _on_login(self, rest: str) -> str:
        found = re.fullmatch(r'"((?:[^"\\]|\\.)*)" (.*)', rest, re.S)
        assert found is not None
        user = re.sub(r"\\(.)", r"\1", found.group(1))
        if (user, found.group(2)) != (self.server.user, self.server.password):
            return f"NO {self.server.login_refusal}"
        return "OK welcome"

    def _on_examine(self, rest: str) -> str:
        name = re.sub(r"\\(.)", r"\1", rest.strip().removeprefix('"').removesuffix('"'))
        self.folder = self.server.folders.get(name)
        if self.folder is None:
            return "NO no such folder"
        self._send(b"* %d EXISTS" % len(self.folder.mails))
        self._send(b"* OK [UIDVALIDITY %d] valid" % self.folder.validity)
        return "OK [READ-ONLY] done"

    def _on_uid(self, rest: str) -> str:
        assert self.folder is not None
        command, _, words = rest.partition(" ")
        if command == "SEARCH":
            self._search(self.folder, words.split())
        else:
            wanted, _, items = words.partition(" ")
            for place, uid in enumerate(sorted(self.folder.mails), start=1):
                if str(uid) in wanted.split(","):
                    self._fetch(place, uid, self.folder.mails[uid], items)
        return "OK done"

    def _search(self, folder: Folder, words: list[str]) -> None:
        first, last = map(int, words[0].split(":"))
        uids = sorted(folder.mails)[first - 1 : last]
        if len(words) > 1:
            since = datetime.strptime(words[2], "%d-%b-%Y").replace(tzinfo=UTC).date()
            uids = [uid for uid in uids if _day(folder.mails[uid]) >= since]
        self._send(b"* SEARCH " + b" ".join(b"%d" % uid for uid in uids))

    def _fetch(self, place: int, uid: int, mail: Mail, items: str) -> None:
        message = message_from_bytes(mail.data)
        told = [b"UID %d" % uid]
        for item in re.findall(r"[A-Z0-9.]+(?:\[[^\]]*\])?", items[1:-1]):
            if item == "RFC822.SIZE":
                told.append(b"RFC822.SIZE %d" % len(mail.data))
            elif item == "INTERNALDATE":
                told.append(f'INTERNALDATE "{mail.arrived:%d-%b-%Y %H:%M:%S %z}"'.encode())
            elif item == "BODYSTRUCTURE":
                structure = b"((" if self.server.broken_structure else _structure(message)
                told.append(b"BODYSTRUCTURE " + structure)
            elif item.startswith("BODY"):
                mail.seen = mail.seen or not item.startswith("BODY.PEEK")
                section = item.partition("[")[2].removesuffix("]")
                data = _section(mail.data, message, section)
                told.append(f"BODY[{section}] ".encode() + _literal(data))
        self._send(b"* %d FETCH (" % place + b" ".join(told) + b")")

    def _read_line(self) -> bytes:
        """A line, with its literals in their places; empty at the end."""
        pieces = [self.rfile.readline()]
        while found := re.search(rb"\{(\d+)\}\r\n\Z", pieces[-1]):
            self._send(b"+ go on")
            pieces[-1] = pieces[-1][: found.start()]
            pieces += [self.rfile.read(int(found.group(1))), self.rfile.readline()]
        return b"".join(pieces).removesuffix(b"\r\n")

    def _send(self, line: bytes) -> None:
        self.wfile.write(line + b"\r\n")


def _day(mail: Mail) -> date:
    return mail.arrived.date()


def _structure(part: Message) -> bytes:
    if part.is_multipart() and part.get_content_maintype() == "multipart":
        inner = b"".join(_structure(child) for child in part.get_payload())
        return b"(" + inner + b" " + _text(part.get_content_subtype()) + b" NIL NIL NIL NIL)"
    body = _body(part)
    told = [
        _text(part.get_content_maintype()),
        _text(part.get_content_subtype()),
        _parameters(part.get_params(header="content-type") or []),
        b"NIL",
        b"NIL",
        _text(str(part.get("Content-Transfer-Encoding", "7bit"))),
        b"%d" % len(body),
    ]
    if part.get_content_maintype() == "text":
        told.append(b"%d" % body.count(b"\n"))
    elif part.get_content_type() == "message/rfc822":
        [inner] = part.get_payload()
        told += [b"NIL", _structure(inner), b"%d" % body.count(b"\n")]
    disposition = part.get_content_disposition()
    shown = b"NIL"
    if disposition:
        values = _parameters(part.get_params(header="content-disposition") or [])
        shown = b"(" + _text(disposition) + b" " + values + b")"
    return b"(" + b" ".join([*told, b"NIL", shown, b"NIL", b"NIL"]) + b")"


def _parameters(pairs: list[tuple[str, object]]) -> bytes:
    raw = [(name, value) for name, value in pairs[1:]]
    if not raw:
        return b"NIL"
    words: list[bytes] = []
    for name, value in raw:
        if isinstance(value, tuple):
            charset, _language, text = value
            words += [_text(f"{name}*"), _text(f"{charset}''{text}")]
        else:
            words += [_text(name), _text(str(value))]
    return b"(" + b" ".join(words) + b")"


def _text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogateescape")
    # Whatever needs care goes as a literal, as many servers do.
    return (
        b'"' + data + b'"' if re.fullmatch(rb'[^"\\\x00-\x1f\x80-\xff]*', data) else _literal(data)
    )


def _literal(data: bytes) -> bytes:
    return b"{%d}\r\n" % len(data) + data


def _body(part: Message) -> bytes:
    if part.get_content_type() == "message/rfc822":
        return part.get_payload()[0].as_bytes().replace(b"\n", b"\r\n")
    return str(part.get_payload()).encode("utf-8", "surrogateescape")


def _section(data: bytes, message: Message, section: str) -> bytes:
    header, _, _body_bytes = data.partition(b"\r\n\r\n")
    if not section:
        return data
    if section == "HEADER":
        return header + b"\r\n\r\n"
    if section.startswith("HEADER.FIELDS"):
        wanted = re.findall(r"[A-Za-z-]+", section.partition("(")[2])
        lines = re.findall(rb"[^\r\n]+(?:\r\n[ \t][^\r\n]*)*", header)
        kept = [
            line
            for line in lines
            if line.partition(b":")[0].strip().decode("latin-1").upper() in wanted
        ]
        return b"\r\n".join(kept) + b"\r\n\r\n"
    number = section.removesuffix(".MIME")
    part = message
    for index in number.split("."):
        if part.get_content_maintype() == "multipart":
            part = part.get_payload()[int(index) - 1]
    if section.endswith(".MIME"):
        if part is message:
            return b""
        fields = [f"{name}: {value}" for name, value in part.items()]
        return "\r\n".join(fields).encode("utf-8", "surrogateescape") + b"\r\n\r\n"
    return _body(part)
