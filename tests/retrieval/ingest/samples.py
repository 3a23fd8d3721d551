"""Small real files, made by the libraries that write such files."""

from __future__ import annotations

import io
import zipfile
from email.message import EmailMessage

from docx import Document
from openpyxl import Workbook
from pptx import Presentation
from pptx.util import Cm
from pypdf import PdfReader, PdfWriter

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00\x00\x00\rIHDR" + bytes(range(256))


def pdf(*pages: str, title: str = "", content: bytes | None = None) -> bytes:
    """A PDF with one line of text a line of each page, or with the page content given."""
    streams = [content] if content is not None else [_page_content(page) for page in pages]
    objects = [b"<</Type/Catalog/Pages 2 0 R>>"]
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(streams)))
    objects.append(f"<</Type/Pages/Kids[{kids}]/Count {len(streams)}>>".encode())
    objects.append(b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>")
    for at, stream in enumerate(streams):
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents {5 + 2 * at} 0 R"
            "/Resources<</Font<</F 3 0 R>>>>>>".encode()
        )
        objects.append(b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream))
    objects.append(f"<</Title({title})>>".encode())
    out = bytearray(b"%PDF-1.4\n")
    places = []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj%s\nendobj\n" % (number, body)
    xref = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer<</Size %d/Root 1 0 R/Info %d 0 R>>\n" % (len(objects) + 1, len(objects))
    out += b"startxref\n%d\n%%%%EOF" % xref
    return bytes(out)


def _page_content(text: str) -> bytes:
    lines = b"".join(b"(%s) Tj T*\n" % line.encode("cp1252") for line in text.split("\n"))
    return b"BT /F 12 Tf 14 TL 50 800 Td\n" + lines + b"ET"


def encrypted_pdf(*, user_password: str) -> bytes:
    """A one-page PDF; with an empty user password it is locked against changes only."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf("The vault code is 4471."))))
    writer.encrypt(user_password=user_password, owner_password="owner", algorithm="AES-256")
    return _saved(writer.write)


def docx() -> bytes:
    document = Document()
    document.core_properties.title = "Travel rules"
    document.add_heading("Booking", level=1)
    document.add_paragraph("Book trains two weeks ahead.")
    document.add_heading("Hotels", level=2)
    document.add_paragraph("Keep the bill", style="List Bullet")
    document.add_paragraph("Send it to accounting", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for at, text in enumerate(["City", "Limit", "Zürich", "180 | night"]):
        table.cell(at // 2, at % 2).text = text
    document.add_paragraph("After the table.")
    return _saved(document.save)


def pptx() -> bytes:
    presentation = Presentation()
    presentation.core_properties.title = "Quarterly review"
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    slide.shapes.title.text = "Results"
    slide.placeholders[1].text = "Revenue rose\nCosts fell"
    slide.notes_slide.notes_text_frame.text = "Thank the team."
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = "Regions"
    table = slide.shapes.add_table(2, 2, Cm(2), Cm(5), Cm(10), Cm(3)).table
    for at, text in enumerate(["Region", "Share", "North", "40 %"]):
        table.cell(at // 2, at % 2).text = text
    return _saved(presentation.save)


def xlsx() -> bytes:
    workbook = Workbook()
    sheet = workbook.active
    sheet.title = "Stock"
    sheet.append(["Item", "Count", "Since", "Fresh"])
    sheet.append(["Copper valve", 3.0, None, True])
    sheet.append([])
    sheet.append(["Gasket", 0.25])
    workbook.create_sheet("Nothing here")
    return _saved(workbook.save)


def eml(*, html_only: bool = False) -> bytes:
    message = EmailMessage()
    message["Subject"] = "Möbel für Raum 12"
    message["From"] = "Ana <ana@example.org>"
    message["To"] = "team@example.org"
    message["Date"] = "Mon, 02 Nov 2026 10:00:00 +0100"
    if html_only:
        message.set_content(
            "<p>Desks arrive <b>Tuesday</b>.</p><script>x()</script>", subtype="html"
        )
    else:
        message.set_content("Desks arrive Tuesday.\n\nPlease clear the room.\n")
        message.add_alternative("<p>Desks arrive Tuesday.</p>", subtype="html")
    message.add_attachment(PNG, maintype="image", subtype="png", filename="plan.png")
    return message.as_bytes()


def zip_of(**entries: bytes) -> bytes:
    """An archive; `__` in a name stands for a slash, `_dot_` for a dot."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name.replace("__", "/").replace("_dot_", "."), content)
    return stream.getvalue()


def _saved(save: object) -> bytes:
    stream = io.BytesIO()
    assert callable(save)
    save(stream)
    return stream.getvalue()
