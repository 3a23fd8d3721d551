"""Plain text: paragraphs are what blank lines or page breaks separate; lines are kept."""

from __future__ import annotations

import re
from collections.abc import Iterator

from retrieval.ingest.charset import decode
from retrieval.ingest.contract import BlockList, Draft, FileToParse

_LINE = re.compile(r"([^\n\f]*)([\n\f]|\Z)")


def read(file: FileToParse) -> Draft:
    """The paragraphs of a plain text file."""
    decoded = decode(file.data, declared=[file.charset])
    blocks = BlockList(file.limits)
    for paragraph in split_paragraphs(decoded.text):
        blocks.add("paragraph", paragraph)
        if blocks.is_full:
            break
    warnings = blocks.warnings()
    if decoded.lost:
        warnings.append(f"{decoded.lost} places couldn't be read as {decoded.encoding}.")
    return Draft("text/plain", blocks.finish(), encoding=decoded.encoding, warnings=warnings)


def split_paragraphs(text: str) -> Iterator[str]:
    """Runs of lines that aren't blank, each as one string."""
    lines: list[str] = []
    for match in _LINE.finditer(text.replace("\r\n", "\n").replace("\r", "\n")):
        line, end = match.group(1).rstrip(), match.group(2)
        if line:
            lines.append(line)
        if lines and (not line or end == "\f"):
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)
