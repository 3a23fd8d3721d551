"""Files to read: pages of made-up prose, and one file a format, as large as people's are."""

from __future__ import annotations

import io
from collections.abc import Callable
from email.message import EmailMessage

import numpy as np
from docx import Document
from openpyxl import Workbook
from pptx import Presentation

from tests.bench.material import vocabulary
from tests.bench.shape import BUILD_SEED
from tests.retrieval.ingest import samples


class Prose:
    """Sentences out of the world's words."""

    def __init__(self, seed: int = BUILD_SEED) -> None:
        self._dice = np.random.default_rng(seed)
        self._words, self._shares = vocabulary()

    def words(self, count: int) -> str:
        """So many words."""
        ranks = np.searchsorted(self._shares, self._dice.random(count))
        return " ".join(self._words[rank] for rank in ranks.tolist())

    def paragraph(self, count: int = 90) -> str:
        """So many words in sentences of fifteen."""
        parts = [self.words(15).capitalize() for _ in range(max(1, count // 15))]
        return ". ".join(parts) + "."


def pages(count: int) -> list[bytes]:
    """Markdown documents of ten sections each."""
    prose = Prose()
    return [
        "\n\n".join(
            f"{'#' if at == 0 else '##'} {prose.words(3)}\n\n{prose.paragraph()}"
            for at in range(10)
        ).encode()
        for _ in range(count)
    ]


def make(*, scale: float = 1.0) -> dict[str, bytes]:
    """A file of each format, by name; `scale` makes all smaller."""
    prose = Prose(BUILD_SEED + 9)
    makers: dict[str, Callable[[Prose, int], bytes]] = {
        "page.md": _markdown,
        "plain.txt": _text,
        "page.html": _html,
        "table.csv": _csv,
        "mail.eml": _mail,
        "report.pdf": _pdf,
        "report.docx": _docx,
        "slides.pptx": _pptx,
        "sheet.xlsx": _xlsx,
    }
    return {name: maker(prose, max(3, round(200 * scale))) for name, maker in makers.items()}


def _markdown(prose: Prose, size: int) -> bytes:
    return "\n\n".join(f"## {prose.words(3)}\n\n{prose.paragraph()}" for _ in range(size)).encode()


def _text(prose: Prose, size: int) -> bytes:
    return "\n\n".join(prose.paragraph() for _ in range(size)).encode()


def _html(prose: Prose, size: int) -> bytes:
    body = "".join(
        f"<section><h2>{prose.words(3)}</h2><p class='x'>{prose.paragraph()}</p>"
        f"<ul><li><a href='/{at}'>{prose.words(4)}</a></li></ul></section>"
        for at in range(size)
    )
    head = f"<title>{prose.words(3)}</title><style>p{{margin:0}}</style>"
    return f"<!doctype html><html><head>{head}</head><body>{body}</body></html>".encode()


def _csv(prose: Prose, size: int) -> bytes:
    rows = [",".join(prose.words(1) for _ in range(8)) for _ in range(10 * size)]
    return "\n".join(["a,b,c,d,e,f,g,h", *rows]).encode()


def _mail(prose: Prose, size: int) -> bytes:
    message = EmailMessage()
    message["Subject"] = prose.words(4)
    message["From"], message["To"] = "a@example.org", "b@example.org"
    message["Date"] = "Mon, 02 Nov 2026 10:00:00 +0100"
    message.set_content("\n\n".join(prose.paragraph() for _ in range(size)))
    return message.as_bytes()


def _pdf(prose: Prose, size: int) -> bytes:
    def page() -> str:
        return "\n".join(prose.words(10) for _ in range(40))

    return samples.pdf(*(page() for _ in range(max(2, size // 5))), title="Report")


def _docx(prose: Prose, size: int) -> bytes:
    document = Document()
    for _ in range(size):
        document.add_heading(prose.words(3), level=2)
        document.add_paragraph(prose.paragraph())
    table = document.add_table(rows=max(2, size // 10), cols=4)
    for row in table.rows:
        for cell in row.cells:
            cell.text = prose.words(2)
    return _saved(document.save)


def _pptx(prose: Prose, size: int) -> bytes:
    presentation = Presentation()
    for _ in range(max(2, size // 4)):
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = prose.words(3)
        slide.placeholders[1].text = "\n".join(prose.words(8) for _ in range(6))
    return _saved(presentation.save)


def _xlsx(prose: Prose, size: int) -> bytes:
    workbook = Workbook()
    sheet = workbook.active
    for _ in range(10 * size):
        sheet.append([prose.words(1) for _ in range(6)] + [1.5, 7])
    return _saved(workbook.save)


def _saved(save: Callable[[io.BytesIO], object]) -> bytes:
    stream = io.BytesIO()
    save(stream)
    return stream.getvalue()
