"""YAML front matter of Markdown files, as far as it describes the file: plain values and lists."""

from __future__ import annotations

import re

from retrieval.ingest.properties import split_tags

_FRONT_LINE = re.compile(r"([A-Za-z_][\w-]{0,40})[ \t]*:[ \t]*(.*)$")
_FRONT_ITEM = re.compile(r"[ \t]*-[ \t]+(\S.*)$")
_FRONT_KEYS = {
    "title": "title",
    "redirect_to": "redirect_to",
    "author": "author",
    "authors": "author",
    "date": "date",
    "updated": "updated",
    "last_modified": "updated",
    "last_modified_at": "updated",
    "lastmod": "updated",
    "tags": "tags",
    "keywords": "tags",
    "categories": "tags",
}


def split_front_matter(text: str) -> tuple[dict[str, list[str]], str]:
    """What YAML front matter says, as far as it is known here, as lists of plain values, and the
    text after it.
    """
    if not re.match(r"---[ \t]*\n", text):
        return {}, text
    end = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE).search(text, 4)
    if end is None or end.start() > 20_000:
        return {}, text
    found: dict[str, list[str]] = {}
    key = ""
    for line in text[4 : end.start()].splitlines():
        if (item := _FRONT_ITEM.match(line)) is not None and key:
            found[key].append(_unquoted(item[1]))
        elif (match := _FRONT_LINE.match(line)) is not None:
            key = _FRONT_KEYS.get(match[1].lower(), "")
            if key in found:
                key = ""
            elif key:
                found[key] = _values(match[2].strip(), is_list=key == "tags")
    return {key: values for key, values in found.items() if any(values)}, text[end.end() :]


def _values(text: str, *, is_list: bool) -> list[str]:
    if text.startswith("[") and text.endswith("]"):
        return [_unquoted(value) for value in text[1:-1].split(",")]
    if is_list:
        return split_tags(text)
    return [_unquoted(text)] if text else []


def _unquoted(text: str) -> str:
    value = text.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1].strip()
    return value
