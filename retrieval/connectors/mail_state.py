"""What a mailbox held when it was last read: the checkpoint of the mailbox connector.

Promises: text that can be stored and read back; anything else, or one that was made for other
settings, reads as "nothing known". Holds no names, subjects or addresses, only numbers and digests.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

_LARGEST = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class Known:
    """A message that was seen. `identity` is empty for one that is left out."""

    identity: str
    parts: tuple[str, ...] = ()

    def external_ids(self, folder: str) -> Iterator[str]:
        """What the message and its attachments are called."""
        if self.identity:
            yield external_id(folder, self.identity)
            for part in self.parts:
                yield external_id(folder, self.identity, part)


@dataclass(slots=True)
class FolderState:
    """One folder: the number of its numbering, its messages by their number in it, and what is no
    longer there but wasn't told yet.
    """

    validity: int
    messages: dict[int, Known] = field(default_factory=dict)
    vanished: list[Known] = field(default_factory=list)

    def forget(self, uids: Iterable[int]) -> None:
        """These messages are no longer there."""
        self.vanished += [self.messages.pop(uid) for uid in list(uids)]

    def gone(self, name: str) -> set[str]:
        """The items that vanished and that no other message brought again."""
        left = {item for known in self.messages.values() for item in known.external_ids(name)}
        return {item for known in self.vanished for item in known.external_ids(name)} - left


@dataclass(slots=True)
class State:
    """All folders. `is_listing` until the first reading of them came to its end."""

    mark: str
    is_listing: bool
    folders: dict[str, FolderState] = field(default_factory=dict)

    def count(self) -> int:
        """How many messages are known."""
        return sum(len(folder.messages) for folder in self.folders.values())


def external_id(folder: str, identity: str, part: str = "") -> str:
    """The lasting name of a message, or of a file attached to it."""
    return f"{folder}/{identity}" + (f"#{part}" if part else "")


def write_state(state: State) -> str:
    """The state as a checkpoint."""
    told = {
        name: [
            folder.validity,
            [[uid, known.identity, *known.parts] for uid, known in folder.messages.items()],
            [[known.identity, *known.parts] for known in folder.vanished],
        ]
        for name, folder in state.folders.items()
    }
    whole = {"mark": state.mark, "listing": state.is_listing, "folders": told}
    return b64encode(zlib.compress(json.dumps(whole).encode(), 6)).decode()


def read_state(checkpoint: str | None, *, mark: str) -> State | None:
    """The state of a checkpoint, None where there is none for these settings."""
    if not checkpoint:
        return None
    try:
        unpacker = zlib.decompressobj()
        told: Any = json.loads(unpacker.decompress(b64decode(checkpoint, validate=True), _LARGEST))
        if told["mark"] != mark:
            return None
        folders = {
            str(name): FolderState(
                int(validity),
                {int(uid): _known(values) for uid, *values in messages},
                [_known(values) for values in vanished],
            )
            for name, (validity, messages, vanished) in told["folders"].items()
        }
        return State(mark=mark, is_listing=bool(told["listing"]), folders=folders)
    except (ValueError, TypeError, KeyError, AttributeError, zlib.error):
        return None


def _known(values: list[str]) -> Known:
    identity, *parts = values
    return Known(str(identity), tuple(map(str, parts)))
