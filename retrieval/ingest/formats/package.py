"""Office files are zip packages of XML: what is inside, and whether it is safe to unpack.

Promises: nothing is inflated before its stated size was checked, no entry gives more bytes than it
states, and no XML part may declare a document type, so no entity is ever expanded and no file or
address is read.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal
from xml.parsers import expat

from lxml import etree

from retrieval.ingest.contract import ParseFailure, ParseLimits
from retrieval.ingest.properties import split_tags

OfficeKind = Literal["docx", "pptx", "xlsx"]

_END_OF_DIRECTORY = b"PK\x05\x06"
_LARGEST_DIRECTORY = 8 * 1024 * 1024
# Below this, a high ratio is harmless and common (a sheet of equal rows).
_RATIO_MATTERS_FROM = 4 * 1024 * 1024
_MAIN_PARTS: tuple[tuple[str, OfficeKind], ...] = (
    ("wordprocessingml.document.main+xml", "docx"),
    ("ms-word.document.macroEnabled.main+xml", "docx"),
    ("presentationml.presentation.main+xml", "pptx"),
    ("ms-powerpoint.presentation.macroEnabled.main+xml", "pptx"),
    ("spreadsheetml.sheet.main+xml", "xlsx"),
    ("ms-excel.sheet.macroEnabled.main+xml", "xlsx"),
)
# What the standard library lets escape for damaged archives.
_DAMAGES = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    ValueError,
)
# What makes a zip file something else than an archive: office, OpenDocument, EPUB, programs.
_PACKAGE_MARKS = frozenset(
    {"[Content_Types].xml", "mimetype", "META-INF/MANIFEST.MF", "AndroidManifest.xml"}
)
_OTHER_PACKAGE = "This file is a package of a kind that can't be read."
_UNPACKED = "This file is too large when unpacked, far beyond its size on disk. It wasn't read."
_DAMAGED = "This file is damaged: its archive can't be read."


@contextmanager
def open_package(data: bytes, limits: ParseLimits) -> Iterator[zipfile.ZipFile]:
    """The archive, after its directory was found harmless.

    Raises:
        ParseFailure: too_large_unpacked, encrypted, corrupt (also when reading inside the block
        fails).
    """
    check_directory_size(data, limits)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            _check_sizes(package, limits)
            yield package
    except _DAMAGES as error:
        raise ParseFailure("corrupt", _DAMAGED) from error


def is_archive(data: bytes, limits: ParseLimits) -> bool:
    """Whether a zip file is a plain archive of files, not a package that some program writes.

    Raises:
        ParseFailure: corrupt, too_large_unpacked (by its directory alone).
    """
    check_directory_size(data, limits)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            return not _PACKAGE_MARKS.intersection(package.namelist())
    except _DAMAGES as error:
        raise ParseFailure("corrupt", _DAMAGED) from error


def find_office_kind(package: zipfile.ZipFile) -> tuple[OfficeKind, str]:
    """Which office format the package is, and the name of its main part.

    Raises:
        ParseFailure: unsupported, or corrupt when the list of parts is damaged.
    """
    try:
        types = parse_xml(package.read("[Content_Types].xml"))
    except KeyError as error:
        raise ParseFailure("unsupported", _OTHER_PACKAGE) from error
    for override in types.iter("{*}Override"):
        content_type = override.get("ContentType") or ""
        for ending, kind in _MAIN_PARTS:
            if content_type.endswith(ending):
                return kind, (override.get("PartName") or "").lstrip("/")
    raise ParseFailure(
        "unsupported", "This office file is neither DOCX nor PPTX nor XLSX, so it can't be read."
    )


def check_xml_parts(package: zipfile.ZipFile) -> None:
    """Refuse the package if any XML part declares a document type.

    Raises:
        ParseFailure: corrupt.
    """
    for entry in package.infolist():
        if entry.filename.lower().endswith((".xml", ".rels", ".vml")):
            with package.open(entry) as part:
                _check_prologue(iter(lambda: part.read(16_384), b""))


@dataclass(frozen=True, slots=True)
class CoreProperties:
    """What an office file says of itself; empty where it says nothing."""

    title: str = ""
    language: str = ""
    author: str = ""
    dated: str = ""
    tags: tuple[str, ...] = ()


def core_properties(package: zipfile.ZipFile) -> CoreProperties:
    """The properties that every office program writes. Raises ParseFailure for a damaged part."""
    try:
        source = package.read("docProps/core.xml")
    except KeyError:
        return CoreProperties()
    root = parse_xml(source)

    def said(name: str) -> str:
        return (root.findtext(f"{{*}}{name}") or "").strip()

    return CoreProperties(
        title=said("title"),
        language=said("language"),
        author=said("creator") or said("lastModifiedBy"),
        dated=said("modified") or said("created"),
        tags=tuple(split_tags(said("keywords"))),
    )


def parse_xml(source: bytes) -> etree._Element:
    """The root of an XML part.

    Raises:
        ParseFailure: corrupt, also for a part that declares a document type.
    """
    _check_prologue([source])
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True
    )
    try:
        return etree.fromstring(source, parser)
    except etree.XMLSyntaxError as error:
        raise ParseFailure(
            "corrupt", "This file is damaged: a part inside it isn't valid."
        ) from error


class _PrologueEnds(Exception):
    """The first element was reached: from here on no document type can follow."""


def _check_prologue(chunks: Iterator[bytes] | list[bytes]) -> None:
    parser = expat.ParserCreate()

    def refuse(*_: object) -> None:
        raise ParseFailure(
            "corrupt",
            "This file declares XML entities, which office files never do. It wasn't read.",
        )

    def stop(*_: object) -> None:
        raise _PrologueEnds

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = stop
    try:
        for chunk in chunks:
            parser.Parse(chunk)
    except _PrologueEnds:
        return
    except (expat.ExpatError, LookupError):
        # Not our question: whoever needs this part will say that it is damaged.
        return


def check_directory_size(data: bytes, limits: ParseLimits) -> None:
    """Look at the counts in the archive's last record before building a list of its entries."""
    at = data.rfind(_END_OF_DIRECTORY, max(0, len(data) - 66_000))
    if at < 0 or len(data) < at + 22:
        raise ParseFailure("corrupt", _DAMAGED)
    entries, size = struct.unpack_from("<HI", data, at + 10)
    if entries > limits.max_entries or size > _LARGEST_DIRECTORY:
        raise ParseFailure("too_large_unpacked", _UNPACKED)


def _check_sizes(package: zipfile.ZipFile, limits: ParseLimits) -> None:
    entries = package.infolist()
    total = sum(entry.file_size for entry in entries)
    if len(entries) > limits.max_entries or total > limits.max_unpacked_bytes:
        raise ParseFailure("too_large_unpacked", _UNPACKED)
    for entry in entries:
        if (
            entry.file_size > _RATIO_MATTERS_FROM
            and entry.file_size > limits.max_ratio * entry.compress_size
        ):
            raise ParseFailure("too_large_unpacked", _UNPACKED)
        if entry.flag_bits & 0x1:
            raise ParseFailure(
                "encrypted", "This archive is protected by a password. Remove it and upload again."
            )
