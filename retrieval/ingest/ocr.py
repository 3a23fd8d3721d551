"""Text recognition for scanned pages, by an engine from another package, if one is installed.

An engine is a class announced under the entry point group `kaizen.ocr`; `KAIZEN_OCR` names the one
to use. It runs in the parser process, in that process' limits: no network is promised, no file may
be written, memory and time are bounded. Promises: what it raises costs that page only. No Django.
"""

from __future__ import annotations

import time
from importlib.metadata import entry_points
from typing import Protocol

GROUP = "kaizen.ocr"
SECONDS = 100.0
"""How long a file may take with recognition; below what makes a reader count as silent."""
_ENOUGH = 0.8


class OcrEngine(Protocol):
    """What a package offers: a class that is made once per file, without arguments."""

    def recognise(self, pdf: bytes, *, page: int) -> str:
        """The text of one page of a PDF, counted from 1; empty where there is none."""
        ...


def list_engines() -> list[str]:
    """The names of the engines that are installed."""
    return sorted({point.name for point in entry_points(group=GROUP)})


class Recogniser:
    """One file's use of an engine: page by page, within its time."""

    def __init__(self, name: str, pdf: bytes, *, seconds: float) -> None:
        """Raises LookupError when there is no such engine."""
        found = [point for point in entry_points(group=GROUP) if point.name == name]
        if not found:
            raise LookupError(name)
        self._pdf = pdf
        self._until = time.monotonic() + seconds * _ENOUGH
        self._engine: OcrEngine = found[0].load()()
        self.recognised: list[int] = []
        self.failed: list[int] = []
        self.skipped: list[int] = []

    def read(self, page: int) -> str:
        """The text of a page, empty where the engine found none, broke, or ran out of time."""
        if time.monotonic() > self._until:
            self.skipped.append(page)
            return ""
        try:
            text = self._engine.recognise(self._pdf, page=page)
            text = text if isinstance(text, str) else ""
        except Exception:  # noqa: BLE001 - foreign code may raise anything
            self.failed.append(page)
            return ""
        if text.strip():
            self.recognised.append(page)
        return text

    def warnings(self) -> list[str]:
        """What a reader of the text should know."""
        said = []
        for pages, sentence in (
            (self.recognised, "were read by text recognition, which makes mistakes"),
            (self.failed, "couldn't be read by text recognition"),
            (self.skipped, "were left out, since text recognition took too long"),
        ):
            if pages:
                what = "page" if len(pages) == 1 else "pages"
                verb = sentence.replace("were", "was", 1) if len(pages) == 1 else sentence
                said.append(f"{len(pages)} {what} {verb}.")
        return said
