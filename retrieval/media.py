"""Kinds of files as people call them, by their media types."""

from __future__ import annotations

from collections.abc import Iterable

from kaizen.kernel.errors import Invalid

_OFFICE = "application/vnd.openxmlformats-officedocument."
KINDS: dict[str, tuple[str, ...]] = {
    "pdf": ("application/pdf",),
    "document": (f"{_OFFICE}wordprocessingml.document",),
    "slides": (f"{_OFFICE}presentationml.presentation",),
    "sheet": (f"{_OFFICE}spreadsheetml.sheet", "text/csv"),
    "web": ("text/html",),
    "note": ("text/markdown", "text/plain"),
    "mail": ("message/rfc822",),
}
_KIND_OF = {media_type: kind for kind, types in KINDS.items() for media_type in types}


def kind_of(media_type: str) -> str:
    """The kind of a file, "other" when it has none."""
    return _KIND_OF.get(media_type, "other")


def media_types_of(kinds: Iterable[str]) -> list[str]:
    """The media types of these kinds. Raises Invalid for one that isn't known."""
    found: list[str] = []
    for kind in kinds:
        if kind not in KINDS:
            known = ", ".join(KINDS)
            raise Invalid(f"There is no kind of file called {kind!r}. Known are {known}.")
        found += KINDS[kind]
    return found
