"""Zip and OLE containers: find out what they hold, and read it if it is an office file."""

from __future__ import annotations

from importlib import import_module

from retrieval.ingest.contract import ArchiveFound, Draft, FileToParse, ParseFailure
from retrieval.ingest.formats.package import (
    check_xml_parts,
    find_office_kind,
    is_archive,
    open_package,
)


def read_zip(file: FileToParse) -> Draft:
    """The document in an office package.

    Raises:
        ArchiveFound: it is a plain archive of files.
        ParseFailure: too_large_unpacked, encrypted, unsupported, corrupt.
    """
    if is_archive(file.data, file.limits):
        raise ArchiveFound
    with open_package(file.data, file.limits) as package:
        kind, main_part = find_office_kind(package)
        check_xml_parts(package)
        # Imported for the first file of its kind: each library costs a third of a second.
        module = import_module(f"retrieval.ingest.formats.{kind}")
        draft: Draft = module.read(file, package, main_part)
        return draft


def read_ole(file: FileToParse) -> Draft:
    """Old Office files aren't read; encrypted new ones come in the same container.

    Raises:
        ParseFailure: always.
    """
    if "EncryptedPackage".encode("utf-16-le") in file.data:
        raise ParseFailure(
            "encrypted",
            "This file is protected by a password. Remove it and upload the file again.",
        )
    raise ParseFailure(
        "unsupported",
        "This is an old Office file (before 2007). Save it as DOCX, XLSX or PPTX and upload that.",
    )
