"""Web addresses as identities of documents: one spelling for what is one page, and a file name.

Promises: what visitors are tracked by, fragments, default ports and escapes make no second
document; the order of a query's members stays, since it may mean something. Not for: judging
whether an address may be fetched (`kaizen.kernel.egress`).
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote, urlsplit

from kaizen.kernel.egress import read_url
from kaizen.kernel.errors import Invalid
from kaizen.kernel.text import shown_file_name

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})

_OFFICE = "application/vnd.openxmlformats-officedocument."
FILE_ENDINGS = {
    "application/pdf": ".pdf",
    "text/plain": ".txt",
    "text/markdown": ".md",
    "text/csv": ".csv",
    f"{_OFFICE}wordprocessingml.document": ".docx",
    f"{_OFFICE}presentationml.presentation": ".pptx",
    f"{_OFFICE}spreadsheetml.sheet": ".xlsx",
}
"""The files that can be read, beside pages, with their usual ending."""

_TRACKING = re.compile(
    r"(?:utm_\w+|mtm_\w+|pk_(?:campaign|kwd|source|medium|content)|fbclid|gclid|dclid|gbraid"
    r"|wbraid|msclkid|yclid|twclid|ttclid|igshid|mc_[ce]id|_ga|_gl|_hs(?:enc|mi)|vero_id|wickedid)",
    re.I,
)
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})")
_UNRESERVED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")


def normal_url(url: str) -> str:
    """The one spelling of a web address. Raises Refused for what is none."""
    target = read_url(url)
    path, mark, query = target.path.partition("?")
    origin = f"{target.scheme}://{target.authority}"
    path = _without_dots(normal_escapes(path))
    kept = "&".join(part for part in query.split("&") if part and not _tracks(part))
    return f"{origin}{path}{mark if kept else ''}{normal_escapes(kept)}"


def normal_escapes(text: str) -> str:
    """Escapes in upper case, and none where the character itself may stand."""

    def settle(match: re.Match[str]) -> str:
        character = chr(int(match[1], 16))
        return character if character in _UNRESERVED else f"%{match[1].upper()}"

    return _ESCAPE.sub(settle, text)


def media_type_of(content_type: str) -> str:
    """The bare media type of a Content-Type header."""
    return content_type.partition(";")[0].strip().lower()


def path_of(url: str) -> str:
    """The path of an address as people read it, without the first slash."""
    return unquote(urlsplit(url).path, errors="replace").strip("/")


def file_name_of(url: str, content_type: str = "") -> str:
    """A file name for what an address gives, with the ending of its type."""
    parts = urlsplit(url)
    last = unquote(parts.path, errors="replace").rstrip("/").rpartition("/")[2]
    name = last or parts.hostname or "page"
    media_type = media_type_of(content_type)
    wanted = ".html" if media_type in HTML_TYPES else FILE_ENDINGS.get(media_type, "")
    has = {".html", ".htm", ".xhtml"} if wanted == ".html" else {wanted}
    if wanted and not any(name.lower().endswith(ending) for ending in has):
        name += wanted
    try:
        return shown_file_name(name)
    except Invalid:
        return f"page{wanted}"


def _without_dots(path: str) -> str:
    """A path without its `.` and `..`, as RFC 3986 resolves them."""
    kept: list[str] = []
    parts = path.split("/")[1:]
    for part in parts:
        if part == "..":
            kept = kept[:-1]
        elif part != ".":
            kept.append(part)
    if parts and parts[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _tracks(part: str) -> bool:
    """Whether a member of a query only tells where the visitor came from."""
    pairs = parse_qsl(part, keep_blank_values=True)
    return bool(pairs) and _TRACKING.fullmatch(pairs[0][0]) is not None
