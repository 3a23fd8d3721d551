"""Packages and archives that lie about what they hold."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
from collections.abc import Iterator

from tests.retrieval.ingest import archives, samples

LAUGHS = b"<!ENTITY l0 'ha'>" + b"".join(
    b"<!ENTITY l%d '%s'>" % (n, b"&l%d;" % (n - 1) * 10) for n in range(1, 10)
)
OUTSIDE = b"<!DOCTYPE d [<!ENTITY x SYSTEM 'file:///etc/hostname'>]>"
WORD = b"http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def changed(whole: bytes, **parts: bytes) -> bytes:
    """An office file with some of its parts replaced; `__` is a slash, `_dot_` a dot."""
    new = {name.replace("__", "/").replace("_dot_", "."): data for name, data in parts.items()}
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(whole)) as old,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for entry in old.infolist():
            archive.writestr(entry.filename, new.pop(entry.filename, old.read(entry)))
        for name, data in new.items():
            archive.writestr(name, data)
    return stream.getvalue()


def office_files() -> Iterator[tuple[str, str, bytes]]:
    """Label, name and bytes."""
    docx, pptx, xlsx = samples.docx(), samples.pptx(), samples.xlsx()
    body = b"<w:document xmlns:w='" + WORD + b"'><w:body>%s</w:body></w:document>"
    paragraph = b"<w:p><w:r><w:t>x</w:t></w:r></w:p>"
    documents = {
        "laughs": b"<?xml version='1.0'?><!DOCTYPE d [" + LAUGHS + b"]>" + body % b"&l9;",
        "an outside entity": OUTSIDE + body % b"<w:p>&x;</w:p>",
        "laughs in UTF-16": ("<!DOCTYPE d [" + LAUGHS.decode() + "]><a>&l9;</a>").encode("utf-16"),
        "nested": body % (b"<w:sdt><w:sdtContent>" * 50_000 + paragraph),
        "tables in tables": body % (b"<w:tbl><w:tr><w:tc>" * 3_000),
        "no XML": b"\x00\x01\x02",
        "empty": b"",
        "another root": b"<html/>",
        "many paragraphs": body % (paragraph * 60_000),
        "one long text": body % (b"<w:p><w:r><w:t>" + b"x" * 5_000_000 + b"</w:t></w:r></w:p>"),
        "a style loop": body % b"<w:p><w:pPr><w:outlineLvl w:val='-1'/></w:pPr></w:p>",
        "no namespace": b"<document><body><p>x</p></body></document>",
    }
    for label, document in documents.items():
        yield f"docx: {label}", "a.docx", changed(docx, word__document_dot_xml=document)
    core = b"<cp:coreProperties xmlns:cp='c' xmlns:d='d'><d:creator>%s</d:creator><cp:modified>"
    nonsense = core % (b"\xf0\x9f\x98\x80" * 50_000) + b"never</cp:modified></cp:coreProperties>"
    yield "docx: properties of nonsense", "a.docx", changed(docx, docProps__core_dot_xml=nonsense)
    laughs = b"<!DOCTYPE d [" + LAUGHS + b"]><a>&l9;</a>"
    yield "docx: laughs in properties", "a.docx", changed(docx, docProps__core_dot_xml=laughs)
    yield "docx: types of nonsense", "a.docx", changed(docx, _Content_Types__x=b"")
    sheet = b"<worksheet xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main'>%s"
    rows = {
        "a far cell": b"<sheetData><row r='1048576'><c r='XFD1048576'><v>1</v></c></row>"
        b"</sheetData>",
        "a cell nowhere": b"<sheetData><row r='-5'><c r='!!'><v>x</v></c></row></sheetData>",
        "a string that isn't there": b"<sheetData><row><c t='s'><v>99999</v></c></row></sheetData>",
        "a claim": b"<dimension ref='A1:XFD1048576'/><sheetData/>",
        "many rows": b"<sheetData>" + b"<row><c><v>1</v></c></row>" * 60_000 + b"</sheetData>",
        "nested": b"<sheetData>" + b"<row>" * 50_000,
        "a date that isn't one": b"<sheetData><row><c t='d'><v>99999-99</v></c></row></sheetData>",
    }
    for label, row in rows.items():
        part = sheet % row + b"</worksheet>"
        yield f"xlsx: {label}", "a.xlsx", changed(xlsx, xl__worksheets__sheet1_dot_xml=part)
    yield "xlsx: laughs", "a.xlsx", changed(xlsx, xl__workbook_dot_xml=laughs)
    for label, slide in {
        "laughs": laughs,
        "empty": b"",
        "groups in groups": b"<p:sld xmlns:p='http://schemas.openxmlformats.org/presentationml/2006/"
        b"main'><p:cSld><p:spTree>" + b"<p:grpSp>" * 2_000,
    }.items():
        yield f"pptx: {label}", "a.pptx", changed(pptx, ppt__slides__slide1_dot_xml=slide)


def zip_that_claims(entries: int) -> bytes:
    """A zip file whose last record counts entries that aren't there."""
    data = bytearray(archives.zipped({"a.txt": b"words"}))
    at = data.rindex(b"PK\x05\x06")
    data[at + 8 : at + 12] = struct.pack("<HH", entries, entries)
    return bytes(data)


def overlapping_zip(copies: int = 1_500) -> bytes:
    """A zip file whose directory names one packed stretch many times."""
    data = archives.zipped({"0000.txt": bytes(1_000_000)})
    start = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    entry = data[start:end]
    directory = b"".join(entry.replace(b"0000.txt", b"%04d.txt" % n) for n in range(copies))
    last = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, copies, copies, len(directory), start, 0)
    return data[:start] + directory + last


def sparse_tar() -> bytes:
    """A tar file with one entry that is said to be 8 GB of holes."""
    member = tarfile.TarInfo("holes.txt")
    member.size = 0
    member.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.size": str(8 * 1024**3),
        "GNU.sparse.map": f"0,0,{8 * 1024**3},0",
    }
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(member)
    return stream.getvalue()


def tar_with_long_header() -> bytes:
    """A tar file whose entry's name is megabytes long."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("x" * 3_000_000))
    return stream.getvalue()
