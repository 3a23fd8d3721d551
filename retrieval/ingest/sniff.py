"""What a file really is: by its first bytes, and by its name only where bytes can't tell.

Promises: a binary format is never believed from a name; a name that promises what the content
isn't fails as *mislabelled*; content that no reader handles fails as *unsupported*.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from retrieval.ingest.charset import decode, looks_binary
from retrieval.ingest.contract import FileKind, ParseFailure, TextKind

_TEXT_ENDINGS: dict[str, TextKind] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdown": "markdown",
    ".txt": "text",
    ".text": "text",
    ".log": "text",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".csv": "csv",
    ".tsv": "csv",
    ".eml": "email",
}
_TEXT_MEDIA_TYPES: dict[str, TextKind] = {
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "text/html": "html",
    "application/xhtml+xml": "html",
    "text/csv": "csv",
    "text/tab-separated-values": "csv",
    "message/rfc822": "email",
}
_BINARY_ENDINGS = {
    ".pdf": "a PDF",
    ".docx": "a Word document",
    ".pptx": "a PowerPoint file",
    ".xlsx": "an Excel workbook",
    ".doc": "a Word document",
    ".ppt": "a PowerPoint file",
    ".xls": "an Excel workbook",
    ".zip": "an archive",
    ".tar": "an archive",
    ".tgz": "an archive",
    ".gz": "a compressed file",
}
_KNOWN_BINARIES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"BM", "a bitmap image"),
    (b"II*\x00", "a TIFF image"),
    (b"MM\x00*", "a TIFF image"),
    (b"RIFF", "a sound, picture or film"),
    (b"ID3", "a sound"),
    (b"OggS", "a sound or film"),
    (b"\x1aE\xdf\xa3", "a film"),
    (b"BZh", "a compressed file"),
    (b"\xfd7zXZ", "a compressed file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"SQLite format 3\x00", "a database"),
    (b"{\\rtf", "a rich text (RTF) file"),
)
# Short marks that a text may begin with too.
_WEAK_MARKS = {b"BM", b"MZ", b"GIF8", b"RIFF", b"ID3", b"BZh", b"OggS", b"II*\x00"}
READABLE = (
    "Markdown, plain text, HTML, PDF, DOCX, PPTX, XLSX, CSV and e-mail (EML) files can be read, "
    "also in ZIP and TAR archives"
)

_HTML_START = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:(?><!--.*?-->)\s*)*+<(?:!doctype\s+html|html|head|body)\b",
    re.I | re.S,
)
_SVG_START = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:(?><!--.*?-->|<!doctype\s+svg[^>]*>)\s*)*+<(?:\w+:)?svg[\s>]",
    re.I | re.S,
)
_XML_START = re.compile(r"\s*<\?xml\s", re.I)
_MAIL_HEADERS = re.compile(
    r"\A(?:From [^\n]*\n)?(?:(?:[A-Za-z][A-Za-z0-9-]*:[^\n]*\n)(?:[ \t][^\n]*\n)*){3,}",
    re.MULTILINE,
)
_MAIL_MARKS = re.compile(
    r"^(?:From|To|Subject|Date|Received|Message-ID|MIME-Version):", re.I | re.MULTILINE
)


def find_kind(data: bytes, *, name: str, media_type: str | None) -> FileKind:
    """The reader for this file.

    Raises:
        ParseFailure: mislabelled or unsupported.
    """
    ending = PurePosixPath(name.lower()).suffix
    if (container := _find_container(data)) is not None:
        return container
    if (binary := _find_binary(data)) is not None:
        raise _refuse(ending, binary)
    head = decode(data[:8192]).text
    if _SVG_START.match(head):
        raise _refuse(ending, "an SVG image")
    if ending in _BINARY_ENDINGS:
        # Web systems export pages under an office file's name; other text there means a broken
        # file.
        if _HTML_START.match(head):
            return "html"
        raise _refuse(ending, "text")
    if ending in _TEXT_ENDINGS:
        return _TEXT_ENDINGS[ending]
    bare_type = (media_type or "").partition(";")[0].strip().lower()
    if bare_type in _TEXT_MEDIA_TYPES:
        return _TEXT_MEDIA_TYPES[bare_type]
    if _HTML_START.match(head):
        return "html"
    if ending in (".xml", ".svg") or _XML_START.match(head):
        raise _refuse(ending, "an XML file")
    return "email" if _looks_like_mail(head) else "text"


def _find_container(data: bytes) -> FileKind | None:
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")):
        return "zip"
    if data.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        return "ole"
    if data.startswith(b"\x1f\x8b\x08"):
        return "gzip"
    if looks_like_tar(data):
        return "tar"
    # The mark of a PDF may stand after some bytes of a mail system or a printer.
    start = data[:1024]
    if data.startswith(b"%PDF-") or (b"%PDF-" in start and looks_binary(data)):
        return "pdf"
    return None


def looks_like_tar(data: bytes) -> bool:
    """Whether the first block is the header of a tar file: its checksum says so."""
    head = data[:512]
    try:
        stated = int(head[148:156].strip(b" \x00") or b"x", 8)
    except ValueError:
        return False
    return len(head) == 512 and stated == sum(head[:148]) + 8 * 32 + sum(head[156:])


def _find_binary(data: bytes) -> str | None:
    """A name for content that isn't text, or None."""
    is_binary = looks_binary(data)
    for mark, what in _KNOWN_BINARIES:
        if data.startswith(mark) and (is_binary or mark not in _WEAK_MARKS):
            return what
    return "unknown binary data" if is_binary else None


def _refuse(ending: str, what: str) -> ParseFailure:
    if ending in _BINARY_ENDINGS:
        return ParseFailure(
            "mislabelled",
            f"The name ends in {ending}, but the content isn't {_BINARY_ENDINGS[ending]}: "
            f"it is {what}.",
        )
    if ending in _TEXT_ENDINGS:
        return ParseFailure(
            "mislabelled", f"The name ends in {ending}, but the content is {what}. {READABLE}."
        )
    return ParseFailure("unsupported", f"This file is {what}, which can't be read. {READABLE}.")


def _looks_like_mail(head: str) -> bool:
    text = head.replace("\r\n", "\n")
    headers = _MAIL_HEADERS.match(text)
    return headers is not None and len(_MAIL_MARKS.findall(headers.group())) >= 2
