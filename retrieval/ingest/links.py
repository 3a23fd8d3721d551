"""Links in a text: kept as `label <address>`, for readers and answers; left out where a text is
measured and embedded.

Promises: only absolute web and mail addresses are kept, none that the label shows already, none
longer than 300 characters. No Django.
"""

from __future__ import annotations

import re

LONGEST_ADDRESS = 300
_ADDRESS = re.compile(r"(?:https?://|mailto:)[^<>\s\x00-\x1f\x7f]+", re.I)
_TARGET = re.compile(r" ?<(?:https?://|mailto:)[^<>\s]{1,300}>", re.I)


def link_target(address: str | None, label: str) -> str:
    """What follows a label: ` <address>`, or nothing where that would say no more."""
    target = (address or "").strip()
    if len(target) > LONGEST_ADDRESS or not _ADDRESS.fullmatch(target) or not label.strip():
        return ""
    bare = target.partition(":")[2].lstrip("/").rstrip("/")
    return "" if bare.lower() in label.lower() else f" <{target}>"


def without_targets(text: str) -> str:
    """The text as its reader says it: labels without their addresses."""
    return _TARGET.sub("", text) if "<" in text else text
