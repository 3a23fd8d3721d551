"""Inline Markdown as its reader sees it: words without marks, web links as `label <address>`.

Every pattern has bounded repeats, so that no line, however odd, takes more than linear time.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

from retrieval.ingest.links import link_target

_CODE_SPAN = re.compile(r"(?<!`)(`{1,4})(?!`)(.{1,300}?)(?<!`)\1(?!`)", re.S)
_LINK = re.compile(
    r"(!?)\[([^\[\]]{0,500})\]\(([^()\n]{0,1000}|[^()\n]{0,500}\([^()\n]{0,200}\)[^()\n]{0,500})\)"
)
_REFERENCE = re.compile(r"(!?)\[([^\[\]^]{1,500})\]\[([^\[\]]{0,200})\]")
# Private characters stand in for the angles of kept addresses while tags are taken out.
_ANGLES = str.maketrans({"\ue002": "<", "\ue003": ">"})
_AUTOLINK = re.compile(r"<((?:https?://|mailto:)[^<>\s]{1,2000}|[\w.+-]{1,100}@[\w.-]{1,200})>")
_STRONG = re.compile(
    r"(?<![\w\\])(\*\*|__|~~)(?=\S)(.{1,200}?)(?<=\S)\1(?!\w)|(?<!\\)\*\*(?=\S)(.{1,200}?)(?<=\S)\*\*",
    re.S,
)
_EMPHASIS = re.compile(
    r"(?<![\w*\\])\*(?=[^\s*])([^*\n]{1,200})(?<=\S)\*(?![\w*])|(?<![\w\\])_(?=[^\s_])([^_\n]{1,200})(?<=\S)_(?!\w)"
)
_COMMENT = re.compile(
    r"<!--.{0,400}?-->|\{%-?\s*comment\s*-?%\}.{0,400}?\{%-?\s*endcomment\s*-?%\}", re.S
)
# Templates of static sites: `{% name "argument" %}` shows its argument, unless that names a file
# or a page.
_TEMPLATE = re.compile(r"\{%-?\s*(\w{1,40})\s*(?:\"([^\"\n{}%]{0,200})\")?[^{}\n]{0,300}?-?%\}")
_TAGS = (
    "a abbr article aside b blockquote button caption center cite code dd del details div dl dt em "
    "figcaption figure font footer form h1 h2 h3 h4 h5 h6 header hr i iframe img input ins kbd "
    "label li main mark nav ol p pre q s section small span strike strong sub summary sup table "
    "tbody td tfoot th thead tr tt u ul video"
)
_TAG = re.compile(rf"</?(?:{'|'.join(_TAGS.split())})(?:\s[^<>]{{0,1000}})?/?>", re.I)
_BREAK_TAG = re.compile(r"<br\s*/?>|</(?:p|div|li|tr|h[1-6]|summary|details)\s*>", re.I)
_CELL_TAG = re.compile(r"</t[dh]\s*>", re.I)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_SPACES = re.compile(r"[ \t]{2,}")
_MAY_HOLD_MARKS = re.compile(r"[\[\]<>*_`~&{}\\\n]|  ")
# Private characters stand in for code spans while the rest is worked on.
_HOLD, _RELEASE = "\ue000", "\ue001"
_HELD = re.compile(f"{_HOLD}(\\d+){_RELEASE}")


def plain(text: str, targets: Mapping[str, str] | None = None) -> str:
    """The visible text of inline Markdown; code spans keep their content as it stands.

    `targets` are the addresses that labels in brackets stand for, by label in lower case.
    """
    if not _MAY_HOLD_MARKS.search(text):
        return text.strip()
    spans: list[str] = []

    def keep(match: re.Match[str]) -> str:
        spans.append(match.group(2))
        return f"{_HOLD}{len(spans) - 1}{_RELEASE}"

    held = text if _HOLD in text else _CODE_SPAN.sub(keep, text)
    shown = _without_marks(held, targets or {}).translate(_ANGLES)
    if spans:
        shown = _HELD.sub(lambda match: spans[int(match.group(1))], shown)
    return shown.strip()


def _without_marks(text: str, targets: Mapping[str, str]) -> str:
    text = _COMMENT.sub("", text)
    # Twice, since a picture may stand inside a link.
    text = _LINK.sub(_link, _LINK.sub(_link, text))
    text = _REFERENCE.sub(lambda match: _referenced(match, targets), text)
    text = _TEMPLATE.sub(_template_argument, text)
    text = _AUTOLINK.sub(lambda match: match.group(1).removeprefix("mailto:"), text)
    if "<" in text:
        text = _CELL_TAG.sub(" | ", _BREAK_TAG.sub("\n", text))
        text = _TAG.sub("", text)
    text = _without_emphasis(text)
    text = _ESCAPE.sub(r"\1", text)
    if "&" in text:
        text = html.unescape(text)
    return "\n".join(_SPACES.sub(" ", line.strip()) for line in text.split("\n") if line.strip())


def _link(match: re.Match[str]) -> str:
    address = match[3].strip().split(" ", 1)[0].strip("<>")
    return match[2] + ("" if match[1] else _kept(address, match[2]))


def _referenced(match: re.Match[str], targets: Mapping[str, str]) -> str:
    address = targets.get((match[3] or match[2]).strip().lower(), "")
    return match[2] + ("" if match[1] else _kept(address, match[2]))


def _kept(address: str, label: str) -> str:
    """The address as it follows its label; marks inside it are no marks."""
    target = link_target(address, label)
    if not target or _HOLD in target:
        return ""
    escaped = re.sub(r"([\\*_~`\[\]])", r"\\\1", target[2:-1]).replace("&", "&amp;")
    return f" \ue002{escaped}\ue003"


def _without_emphasis(text: str) -> str:
    text = _STRONG.sub(lambda match: match.group(2) or match.group(3), text)
    return _EMPHASIS.sub(lambda match: match.group(1) or match.group(2), text)


def _template_argument(match: re.Match[str]) -> str:
    argument = match.group(2) or ""
    return "" if "/" in argument or "." in argument else argument
