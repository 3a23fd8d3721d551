"""DOCX: paragraphs, headings, lists, tables and footnotes in reading order.

Reads the XML itself, since content controls, links and tracked insertions hold text too; what was
deleted under tracked changes is left out.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator

from lxml import etree

from retrieval.ingest.contract import BlockList, Draft, FileToParse, ParseFailure
from retrieval.ingest.formats.package import core_properties, parse_xml
from retrieval.ingest.formats.tables import pipe_table
from retrieval.ingest.links import link_target

MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
# Containers that group what is inside and say nothing themselves.
_TRANSPARENT = {
    "sdt",
    "sdtContent",
    "customXml",
    "smartTag",
    "ins",
    "moveTo",
    "AlternateContent",
    "Choice",
}
# Word writes text boxes twice, the second time for old readers; moved text stands where it went to.
_UNREAD = {"Fallback", "moveFrom"}


def read(file: FileToParse, package: zipfile.ZipFile, main_part: str) -> Draft:
    """The blocks of a Word document."""
    document = parse_xml(_part(package, main_part, is_needed=True))
    folder, _, part_name = main_part.rpartition("/")
    addresses = _addresses(_part(package, f"{folder}/_rels/{part_name}.rels"))
    _write_out_links(document, addresses)
    styles = _heading_styles(_part(package, f"{folder}/styles.xml"))
    blocks = BlockList(file.limits)
    for body in document.iterchildren("{*}body"):
        _add_all(body, styles, blocks, file)
    notes = _part(package, f"{folder}/footnotes.xml")
    if notes:
        for note in parse_xml(notes).iterchildren("{*}footnote"):
            text = "\n".join(filter(None, (_text(paragraph) for paragraph in note.iter("{*}p"))))
            blocks.add("paragraph", f"Note: {text}" if text else "")
    said = core_properties(package)
    return Draft(
        MEDIA_TYPE,
        blocks.finish(),
        title=said.title,
        language=said.language,
        warnings=blocks.warnings(),
        author=said.author,
        dated=said.dated,
        tags=said.tags,
    )


def _part(package: zipfile.ZipFile, name: str, *, is_needed: bool = False) -> bytes:
    try:
        return package.read(name.lstrip("/"))
    except KeyError as error:
        if is_needed:
            raise ParseFailure(
                "corrupt", "This document is damaged: its main part is missing."
            ) from error
        return b""


def _add_all(
    parent: etree._Element, styles: dict[str, int], blocks: BlockList, file: FileToParse
) -> None:
    for element in _children(parent):
        if blocks.is_full:
            return
        match etree.QName(element).localname:
            case "p":
                _add_paragraph(element, styles, blocks)
            case "tbl":
                rows = (_row(row) for row in element.iter("{*}tr") if _table_of(row) is element)
                blocks.add("table", pipe_table(rows, max_characters=file.limits.max_characters))


def _children(parent: etree._Element) -> Iterator[etree._Element]:
    """Child elements, looking through the transparent containers, without recursion."""
    waiting = [iter(parent)]
    while waiting:
        for child in waiting[-1]:
            if not isinstance(child.tag, str):
                continue
            if etree.QName(child).localname in _TRANSPARENT:
                waiting.append(iter(child))
                break
            yield child
        else:
            waiting.pop()


def _add_paragraph(paragraph: etree._Element, styles: dict[str, int], blocks: BlockList) -> None:
    text = _text(paragraph)
    style = _value(paragraph, "{*}pPr/{*}pStyle")
    level = styles.get(style, 0)
    outline = _value(paragraph, "{*}pPr/{*}outlineLvl")
    if outline.isdigit() and int(outline) < 9:
        level = int(outline) + 1
    if level:
        blocks.add("heading", text, level=min(level, 6))
    elif paragraph.find("{*}pPr/{*}numPr") is not None or style.lower().startswith("list"):
        depth = _value(paragraph, "{*}pPr/{*}numPr/{*}ilvl")
        indent = "  " * min(int(depth), 8) if depth.isdigit() else ""
        blocks.add("list", f"{indent}- {text}" if text.strip() else "")
    else:
        blocks.add("paragraph", text)


def _text(element: etree._Element) -> str:
    """The visible text of one paragraph; text boxes anchored in it included."""
    parts: list[str] = []
    for part in element.iter("{*}t", "{*}tab", "{*}br", "{*}cr", "{*}noBreakHyphen"):
        if any(etree.QName(parent).localname in _UNREAD for parent in part.iterancestors()):
            continue
        match etree.QName(part).localname:
            case "t":
                parts.append(part.text or "")
            case "noBreakHyphen":
                parts.append("-")
            case "tab":
                # The same name also defines tab stops.
                parts.append("\t" if _is_in_run(part) else "")
            case _:
                parts.append("\n")
    return "".join(parts).strip()


def _is_in_run(element: etree._Element) -> bool:
    parent = element.getparent()
    return parent is not None and etree.QName(parent).localname == "r"


def _addresses(source: bytes) -> dict[str, str]:
    """The outside addresses that the document links to, by relationship."""
    if not source:
        return {}
    return {
        relation.get("Id") or "": relation.get("Target") or ""
        for relation in parse_xml(source).iter("{*}Relationship")
        if relation.get("TargetMode") == "External"
    }


def _write_out_links(document: etree._Element, addresses: dict[str, str]) -> None:
    """Let each link's last words be followed by its address."""
    for link in document.iter("{*}hyperlink"):
        key = next((value for name, value in link.attrib.items() if _local(name) == "id"), "")
        words = list(link.iter("{*}t"))
        if words and key in addresses:
            label = "".join(word.text or "" for word in words)
            words[-1].text = (words[-1].text or "") + link_target(addresses[key], label)


def _row(row: etree._Element) -> list[str]:
    cells = [cell for cell in _children(row) if etree.QName(cell).localname == "tc"]
    return [
        "\n".join(filter(None, (_text(paragraph) for paragraph in cell.iter("{*}p"))))
        for cell in cells
    ]


def _table_of(row: etree._Element) -> etree._Element | None:
    return next(row.iterancestors("{*}tbl"), None)


def _heading_styles(source: bytes) -> dict[str, int]:
    """Style id -> heading level. Ids are translated ("berschrift1"), names and outline levels are
    not."""
    levels: dict[str, int] = {}
    for style in parse_xml(source).iter("{*}style") if source else ():
        key = next((value for name, value in style.attrib.items() if _local(name) == "styleId"), "")
        name = _value(style, "{*}name").lower()
        outline = _value(style, "{*}pPr/{*}outlineLvl")
        if name.startswith("heading ") and name[8:].isdigit():
            levels[key] = int(name[8:])
        elif name == "title":
            levels[key] = 1
        elif outline.isdigit() and int(outline) < 9:
            levels[key] = int(outline) + 1
    return levels or {f"Heading{level}": level for level in range(1, 7)}


def _value(element: etree._Element, path: str) -> str:
    found = element.find(path)
    if found is None:
        return ""
    return next((str(value) for name, value in found.attrib.items() if _local(name) == "val"), "")


def _local(name: str | bytes) -> str:
    return str(etree.QName(name).localname)
