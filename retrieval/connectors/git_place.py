"""How far the Git connector has come, as a checkpoint and back."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PLACE = re.compile(
    r"(?P<new>[0-9a-f]{40}) (?P<mark>[0-9a-f]+)(?: (?P<old>[0-9a-f]{40}|-) (?P<seen>\d{1,9}))?"
)


@dataclass(frozen=True, slots=True)
class Place:
    """A commit that is known in whole, or a place in its difference to an older one.

    Attributes:
        old: empty where the commit is listed in whole.
        seen: how many files of the difference are done; None where all are.
    """

    new: bytes
    old: bytes = b""
    seen: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing of this commit is left to do."""
        return self.seen is None


def write_place(place: Place, *, mark: str) -> str:
    """A place as a checkpoint; `mark` stands for the settings it was reached with."""
    whole = f"{place.new.decode()} {mark}"
    return whole if place.is_whole else f"{whole} {place.old.decode() or '-'} {place.seen}"


def read_place(checkpoint: str | None, *, mark: str) -> Place | None:
    """The place of a checkpoint, None where there is none for these settings."""
    found = _PLACE.fullmatch(checkpoint or "")
    if found is None or found.group("mark") != mark:
        return None
    new, old, seen = found.group("new"), found.group("old"), found.group("seen")
    if seen is None:
        return Place(new.encode())
    return Place(new.encode(), b"" if old == "-" else old.encode(), int(seen))
