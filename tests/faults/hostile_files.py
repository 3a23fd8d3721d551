"""Hostile and odd files: made by hand, renamed, cut off and flipped, the same for the same seed.

`hostile_files` gives them all, at least 150 besides the shared cases; none is larger than 6 MB.
"""

from __future__ import annotations

import random
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.faults import hostile_packages as packages
from tests.retrieval.ingest import archives, samples

CUTS, FLIPS = 8, 8
LOREM = b"Some words that anybody may read, again and again. "


@dataclass(frozen=True)
class Hostile:
    """One file. `slow` ones may take as long as a file is allowed."""

    label: str
    name: str
    data: bytes
    slow: bool = False


def hostile_files(seed: int, cases: Path | None = None) -> list[Hostile]:
    """All of them, in a mixed order."""
    found = [*_texts(), *_markup(), *_tables(), *_mails(), *_pdfs(), *_containers(), *_renamed()]
    dice = random.Random(seed)
    found += _mutations(dice)
    if cases is not None:
        found += [
            Hostile(f"shared {path.name}", path.name, path.read_bytes())
            for path in sorted(cases.iterdir())
            if path.is_file()
        ]
    dice.shuffle(found)
    return found


def whole_files() -> dict[str, bytes]:
    """A good file of each format, by its name."""
    return {
        "a.docx": samples.docx(),
        "a.pptx": samples.pptx(),
        "a.xlsx": samples.xlsx(),
        "a.pdf": samples.pdf("Alpha page.", "Beta page.", title="Two pages"),
        "a.eml": samples.eml(),
        "a.html": b"<html><body><h1>Top</h1><p>Words</p><table><tr><td>a<td>b</table></body>",
        "a.csv": "Ref;Text\n1;Zürich\n2;\"two\nlines\"\n".encode(),
        "a.md": b"---\ntitle: T\n---\n# Top\n\n* one\n* two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
        "a.zip": archives.zipped({"a.txt": LOREM, "b/c.md": b"# C"}),
        "a.tgz": archives.gzipped(archives.tarred({"a.txt": LOREM, "b/c.md": b"# C"})),
    }  # fmt: skip


def _mutations(dice: random.Random) -> Iterator[Hostile]:
    for name, whole in whole_files().items():
        for number in range(CUTS):
            yield Hostile(f"cut {number} {name}", name, whole[: dice.randrange(1, len(whole))])
        for number in range(FLIPS):
            data = bytearray(whole)
            for _ in range(dice.choice((1, 3, 30))):
                data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
            yield Hostile(f"flipped {number} {name}", name, bytes(data))


def _renamed() -> Iterator[Hostile]:
    whole = whole_files()
    endings = ["docx", "xlsx", "pdf", "html", "md", "zip", "exe", ""]
    for name, data in whole.items():
        for ending in endings:
            if not name.endswith(ending) or not ending:
                shown = f"a.{ending}" if ending else "a"
                yield Hostile(f"{name} as {shown}", shown, data)


def _texts() -> Iterator[Hostile]:
    words = {
        "nothing": b"",
        "blanks": b" \n\t\r\n" * 1_000,
        "NULs": bytes(100_000),
        "NULs between": b"a\x00b\x00c\n" * 10_000,
        "random bytes": random.Random(7).randbytes(200_000),
        "one line of 5 MB": b"x" * 5_000_000,
        "one line of words": LOREM * 100_000,
        "controls": bytes(range(1, 32)) * 1_000,
        "UTF-16 of odd length": "words ".encode("utf-16") * 500 + b"\x00",
        "UTF-32": ("words \U0001f600 " * 500).encode("utf-32"),
        "UTF-7": b"+AGEAYg- +ADw-script+AD4-" * 500,
        "broken UTF-8": b"\xff\xfe\xfd" * 5_000,
        "overlong UTF-8": b"\xc0\xaf\xe0\x80\xaf" * 5_000,
        "surrogates": b"\xed\xa0\xbd\xed\xb2\xa9 word " * 5_000,
        "a BOM in the middle": b"words \xef\xbb\xbf words\n" * 500,
        "combining marks": ("a" + "\u0301" * 2_000 + " ").encode() * 50,
        "bidi": "\u202e\u2066abc\u2069 שלום ".encode() * 2_000,
        "zero width": "\u200b\u200d\ufeff".encode() * 20_000,
        "escape sequences": b"\x1b[31mred\x1b[0m \x1b]8;;http://x\x07 " * 2_000,
        "ISO-2022": "今日は".encode("iso2022_jp") * 2_000,
        "GBK": "智能报销每月五日付款".encode("gbk") * 2_000,
        "form feeds": b"\x0c" * 100_000 + b"end",
        "empty lines": b"\n" * 1_000_000 + b"end",
        "operators": b"!!! <-> :* & | ' \\ % $1 {{}} ${x} `id` \n" * 5_000,
    }
    for label, data in words.items():
        yield Hostile(f"text: {label}", "a.txt", data)
    marks = {
        "brackets": b"[" * 200_000,
        "links that never end": b"[a](b" * 50_000,
        "backticks": b"`" * 200_000,
        "stars": b"**a " * 50_000,
        "quotes in quotes": b">" * 100_000 + b" deep",
        "lists in lists": b"".join(b"  " * depth + b"- x\n" for depth in range(1_000)),
        "a wide table": b"|a" * 20_000 + b"|\n" + b"|-" * 20_000 + b"|\n" + b"|1" * 20_000,
        "fences": b"```\n" * 50_001,
        "front matter without an end": b"---\n" + b"key: value\n" * 50_000,
        "front matter of nonsense": b"---\ntags: [[[[\ndate: 9999-99-99\nauthor: \x00\n---\nx",
        "definitions": b"".join(b"[%d]: https://example.org/%d\n" % (n, n) for n in range(20_000)),
        "comments": b"<!-- " * 50_000,
    }
    for label, data in marks.items():
        yield Hostile(f"markdown: {label}", "a.md", data)


def _markup() -> Iterator[Hostile]:
    pages = {
        "nested": b"<div>" * 200_000 + b"deep",
        "never closed": b"<html><body><p" + b" x=y" * 200_000,
        "a comment without an end": b"<html><!--" + LOREM * 10_000,
        "scripts only": b"<html><script>" + LOREM * 10_000 + b"</script>",
        "entities": b"<html><p>" + b"&lt;&#0;&#xd800;&#x110000;&bogus;" * 20_000,
        "laughs": b"<!DOCTYPE html [" + packages.LAUGHS + b"]><html><p>&l9;</p>",
        "a picture inside": b"<html><img src='data:image/png;base64," + b"A" * 3_000_000 + b"'>x",
        "a wide table": b"<html><table><tr>" + b"<td>x" * 100_000 + b"</table>",
        "tables in tables": b"<html>" + b"<table><tr><td>" * 2_000 + b"x",
        "lists in lists": b"<html>" + b"<ul><li>" * 5_000 + b"x",
        "links in links": b"<html>" + b"<a href='https://example.org'>" * 20_000 + b"x",
        "a wrong charset": b"<html><meta charset='utf-16'><p>Words \xe9</p>",
        "a charset that isn't one": b"<html><meta charset='base64_codec'><p>Words \xe9</p>",
        "frames": b"<html><frameset><frame src='file:///etc/passwd'></frameset>",
        "an include": b"<html xmlns:xi='x'><xi:include href='file:///etc/passwd'/><p>w</p>",
        "meta of nonsense": b"<html>" + b"<meta name=author content='\x00\xff'>" * 50_000 + b"<p>x",
        "NULs in tags": b"<ht\x00ml><p\x00>words</p>" * 1_000,
    }
    for label, data in pages.items():
        yield Hostile(f"html: {label}", "a.html", data)
    for name in ("a.svg", "a.xml"):
        source = b"<?xml version='1.0'?><!DOCTYPE d [" + packages.LAUGHS + b"]><svg>&l9;</svg>"
        yield Hostile(f"laughs in {name}", name, source)


def _tables() -> Iterator[Hostile]:
    sheets = {
        "a quote without an end": b'a,b\n"' + LOREM * 50_000,
        "many columns": b"," * 300_000 + b"\n" + b"x," * 300_000,
        "many rows": b"a,b\n" + b"1,2\n" * 400_000,
        "quotes": b'"""' * 100_000,
        "NULs": b"a,b\n\x00,\x00\n" * 10_000,
        "only delimiters": b";,\t|" * 50_000,
        "ragged": b"".join(b"x," * (n % 500) + b"\n" for n in range(2_000)),
        "formulas": b"=cmd|'/C calc'!A0,@SUM(1),\"+1\"\n" * 2_000,
        "carriage returns": b"a\r\rb\r" * 20_000,
        "a sep line that lies": b"sep=\x00\na,b\n1,2",
    }
    for label, data in sheets.items():
        yield Hostile(f"csv: {label}", "a.csv", data)


def _mails() -> Iterator[Hostile]:
    head = b"From: a@example.org\nSubject: s\nMIME-Version: 1.0\n"
    nested = b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(200)
    )
    mails = {
        "parts in parts": head + nested + b"Content-Type: text/plain\n\nwords",
        "no boundary": head + b"Content-Type: multipart/mixed\n\n--x\n\nwords",
        "long headers": head + b"X: " + b"y" * 1_000_000 + b"\n\nwords",
        "many headers": head + b"X-A: b\n" * 50_000 + b"\nwords",
        "bad base64": head + b"Content-Transfer-Encoding: base64\n\n!!!!====wor",
        "an unknown charset": head + b"Content-Type: text/plain; charset=klingon\n\nwords \xe9",
        "an encoded header": head + b"To: =?utf-8?b?" + b"A" * 50_000 + b"?=\n\nwords",
        "a bad date": b"From: a\nTo: b\nDate: Tue, 99 Foo 99999 99:99\nSubject: \x00\n\nwords",
        "addresses": b"From: " + b"<a@b>," * 20_000 + b"\nSubject: s\nTo: x\n\nwords",
        "headers only": head + b"\n",
        "uuencoded": head + b"\nbegin 644 x\nM" + b"A" * 10_000 + b"\nend\n",
    }
    for label, data in mails.items():
        yield Hostile(f"mail: {label}", "a.eml", data)


def _pdfs() -> Iterator[Hostile]:
    good = samples.pdf("Words on a page.")
    zeros = zlib.compress(bytes(60_000_000), 9)
    bomb = samples.pdf(content=zeros).replace(b"<</Length", b"<</Filter/FlateDecode/Length")
    twice = zlib.compress(zeros, 9)
    double = samples.pdf(content=twice).replace(
        b"<</Length", b"<</Filter[/FlateDecode/FlateDecode]/Length"
    )
    files: dict[str, bytes] = {
        "nothing but the mark": b"%PDF-1.7\n",
        "pages that hold themselves": good.replace(b"/Kids[4 0 R]", b"/Kids[2 0 R]"),
        "a million pages": good.replace(b"/Count 1", b"/Count 1000000"),
        "one page often": good.replace(b"/Kids[4 0 R]", b"/Kids[" + b"4 0 R " * 3_000 + b"]"),
        "a bomb": bomb,
        "a double bomb": double,
        "arrays in arrays": samples.pdf(content=b"[" * 50_000),
        "dictionaries in dictionaries": b"%PDF-1.4\n1 0 obj" + b"<</A" * 20_000 + b"\nendobj",
        "strings in strings": samples.pdf(content=b"BT (" + b"(" * 100_000),
        "an xref loop": good.replace(b"trailer<<", b"trailer<</Prev 9 "),
        "no xref": good[: good.index(b"xref")],
        "a root that isn't there": good.replace(b"/Root 1 0 R", b"/Root 99 0 R"),
        "a font of nonsense": good.replace(b"/Encoding/WinAnsiEncoding", b"/ToUnicode 5 0 R"),
        "a huge box": good.replace(b"[0 0 595 842]", b"[0 0 1e308 -1e308]"),
        "an inline picture": samples.pdf(content=b"BI /W 99999 /H 99999 ID " + b"\xff" * 50_000),
        "a form that draws itself": good.replace(b"BT /F", b"/X Do BT /F"),
        "links of nonsense": good.replace(b"/MediaBox", b"/Annots[5 0 R 99 0 R 1]/MediaBox"),
        "numbers": samples.pdf(content=b"BT " + b"9" * 100_000 + b" Tf (x) Tj ET"),
        "behind a mail": b"Received: x\n" * 20 + b"\xff\xfe" + good,
    }
    for label, data in files.items():
        yield Hostile(f"pdf: {label}", "a.pdf", data)
    for strokes, slow in ((130_000, True), (230_000, False)):
        busy = b"BT /F 12 Tf\n" + b"1 0 0 1 5 5 Tm (word) Tj\n" * strokes + b"ET"
        yield Hostile(f"pdf: {strokes} strokes", "a.pdf", samples.pdf(content=busy), slow=slow)


def _containers() -> Iterator[Hostile]:
    inner = archives.zipped({"a.txt": LOREM})
    for _ in range(5):
        inner = archives.zipped({"in.zip": inner})
    zeros = bytes(30_000_000)
    made: dict[str, tuple[str, Callable[[], bytes]]] = {
        "a bomb": ("a.zip", lambda: archives.zipped({"zeros.txt": zeros})),
        "a bomb of bombs": (
            "a.zip",
            lambda: archives.zipped({"b.zip": archives.zipped({"z": zeros})}),
        ),
        "zips in zips": ("a.zip", lambda: inner),
        "overlapping entries": ("a.zip", packages.overlapping_zip),
        "a directory that lies": ("a.zip", lambda: packages.zip_that_claims(65_535)),
        "many files": ("a.zip", lambda: archives.zipped({f"{n}.txt": b"x" for n in range(5_000)})),
        "paths that lead outside": (
            "a.zip",
            lambda: archives.zipped({"../../etc/cron.d/x": LOREM, "/etc/passwd": LOREM}),
        ),
        "a link": ("a.zip", archives.zip_with_link),
        "a password": ("a.zip", archives.zip_with_password),
        "a false size": ("a.zip", lambda: archives.zip_with_false_size(3)),
        "names of nonsense": (
            "a.zip",
            lambda: archives.zipped({"\n\u202etxt.exe": LOREM, "x" * 5_000: LOREM, "CON": LOREM}),
        ),
        "stored, not packed": (
            "a.zip",
            lambda: archives.zipped({"a.txt": LOREM}, method=zipfile.ZIP_STORED),
        ),
        "a gzip bomb": ("a.tar.gz", lambda: archives.gzip_bomb(400)),
        "a sparse file": ("a.tar", packages.sparse_tar),
        "a long header": ("a.tar", packages.tar_with_long_header),
        "a tar that repeats": ("a.tar", lambda: archives.tarred({"a.txt": LOREM}) * 200),
        "a gzip of nothing": ("a.gz", lambda: archives.gzipped(b"")),
        "a gzip of a gzip": ("a.tgz", lambda: archives.gzipped(archives.gzipped(LOREM))),
    }
    for label, (name, make) in made.items():
        yield Hostile(f"archive: {label}", name, make())
    for label, name, data in packages.office_files():
        yield Hostile(f"office: {label}", name, data)
    ole = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + struct.pack("<24I", *range(24)) * 100
    yield Hostile("an OLE file of nonsense", "a.doc", ole)
