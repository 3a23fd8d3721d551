"""What the model server is told to answer, free of any dialect, and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

StopReason = Literal["", "end", "tool_use", "length", "refusal", "stop"]
Ending = Literal["end", "hang", "cut"]
# Errors by meaning; each dialect has its own word for them.
ErrorWord = Literal[
    "", "overloaded", "limited", "quota", "refused_key", "bad_request", "too_long", "failed"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """A thinking block. With `redacted`, `text` is the opaque data and there is no signature."""

    text: str
    signature: str = "c2lnbmF0dXJl"
    redacted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call; `arguments` is sent as it stands, valid or not."""

    id: str
    name: str
    arguments: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The usage to report. `output` defaults to the number of pieces."""

    input: int = 10
    output: int | None = None
    cached: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One answer: thinking, then text pieces, then calls, then an ending.

    `wait` passes before the first byte, `delay` before each piece (a text delta or a raw chunk).
    `status` other than 200 answers with `error` as a body; with 200, `error` is sent inside the
    stream after the pieces. `ending` "hang" and "cut" come after the pieces, instead of the end.
    `raw` replaces the whole body, one network write per item. `usage` None reports none.
    """

    text: tuple[str, ...] = ()
    thinking: tuple[Thinking, ...] = ()
    calls: tuple[Call, ...] = ()
    stop: StopReason = ""
    usage: Counted | None = field(default_factory=Counted)
    wait: float = 0.0
    delay: float = 0.0
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    error: ErrorWord = ""
    error_message: str = "Scripted error"
    ending: Ending = "end"
    raw: tuple[bytes, ...] = ()

    @property
    def stop_reason(self) -> StopReason:
        """Why the answer ends, derived when the script does not say."""
        return self.stop or ("tool_use" if self.calls else "end")

    @property
    def output_tokens(self) -> int:
        """The output to report: as scripted, else a token a piece."""
        given = self.usage.output if self.usage else None
        return given if given is not None else len(self.text) + len(self.calls)

    def to_json(self) -> dict[str, Any]:
        """A form that `from_json` reads back; raw chunks are hex."""
        data = asdict(self)
        data["headers"] = dict(self.headers)
        data["raw"] = [chunk.hex() for chunk in self.raw]
        return data


def text_script(text: str, *, piece: int = 12, **settings: Any) -> Script:
    """`text` cut into pieces of `piece` characters."""
    pieces = tuple(text[at : at + piece] for at in range(0, len(text), piece))
    return Script(text=pieces, **settings)


def call_script(name: str, arguments: str, *, id: str, **settings: Any) -> Script:
    """One tool call."""
    return Script(calls=(Call(id=id, name=name, arguments=arguments),), **settings)


def file_script(path: Path, **settings: Any) -> Script:
    """A recorded stream body, sent as it is in one write."""
    return Script(raw=(path.read_bytes(),), **settings)


def cut_script(body: bytes, *, at: int) -> Script:
    """`body` in two network writes, cut before byte `at`."""
    return Script(raw=tuple(chunk for chunk in (body[:at], body[at:]) if chunk))


def from_json(data: Mapping[str, Any]) -> Script:
    """The script in `data`: a string for `text` is one piece; unknown names are an error."""
    values = dict(data)
    text = values.pop("text", ())
    usage = values.pop("usage", {})
    return Script(
        text=(text,) if isinstance(text, str) else tuple(text),
        thinking=tuple(Thinking(**item) for item in values.pop("thinking", ())),
        calls=tuple(Call(**item) for item in values.pop("calls", ())),
        usage=None if usage is None else Counted(**usage),
        raw=tuple(bytes.fromhex(chunk) for chunk in values.pop("raw", ())),
        **values,
    )
