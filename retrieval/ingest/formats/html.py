"""HTML pages and HTML mail: the text a reader came for, without scripts, styles, menus and hidden
parts.

Never fetches anything and never runs anything; nesting depth doesn't matter, since the tree is
walked, not descended into.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from lxml import etree

from retrieval.ingest.charset import declared_in_markup, decode
from retrieval.ingest.contract import (
    BlockKind,
    BlockList,
    Draft,
    FileToParse,
    ParseFailure,
    ParseLimits,
)
from retrieval.ingest.formats.tables import pipe_table
from retrieval.ingest.links import link_target
from retrieval.ingest.properties import split_tags

_DROPPED = {
    "script", "style", "noscript", "template", "nav", "footer", "svg", "math", "iframe",
    "object", "embed", "head", "button", "select", "option", "datalist", "textarea", "audio",
    "video", "canvas", "dialog", "menu",
}  # fmt: skip
_BREAKING = {
    "p", "div", "section", "article", "main", "header", "aside", "figure", "figcaption",
    "blockquote", "ul", "ol", "dl", "dt", "dd", "form", "fieldset", "address", "details",
    "summary", "hr", "table", "tr", "td", "th", "caption", "body", "html", "center", "legend",
}  # fmt: skip
_AUTHOR_NAMES = ("author", "dc.creator", "dcterms.creator", "citation_author")
_DATE_NAMES = (
    "article:modified_time",
    "og:updated_time",
    "dcterms.modified",
    "last-modified",
    "datemodified",
    "article:published_time",
    "date",
    "dc.date",
    "dcterms.date",
    "dcterms.created",
    "datepublished",
    "citation_publication_date",
)
_MOST_META = 500
_LONGEST_META = 2_000
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_SPACES = re.compile(r"[ \t\r\n\f\u00a0\u200b]+")
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)
_BREAK_MARK = "\x00"


def read(file: FileToParse) -> Draft:
    """The visible blocks of a page."""
    decoded = decode(file.data, declared=[file.charset, *declared_in_markup(file.data)])
    draft = read_markup(decoded.text, file.limits)
    draft.encoding = decoded.encoding
    if decoded.lost:
        draft.warnings = [
            *draft.warnings,
            f"{decoded.lost} places couldn't be read as {decoded.encoding}.",
        ]
    return draft


def read_markup(markup: str, limits: ParseLimits) -> Draft:
    """HTML that is already text."""
    if not markup.strip():
        return Draft("text/html", [])
    # Encoded again, because a declaration inside may name another encoding than the one that was
    # right.
    source = markup.replace("\x00", "\ufffd").encode("utf-8", "replace")
    parser = etree.HTMLParser(
        encoding="utf-8",
        no_network=True,
        remove_comments=True,
        remove_pis=True,
        huge_tree=True,
    )
    try:
        root = etree.fromstring(source, parser)
    except etree.XMLSyntaxError as error:
        raise ParseFailure("corrupt", "This HTML can't be read.") from error
    if root is None:
        return Draft("text/html", [])
    title = _squeeze("".join(next(root.iter("title"), etree.Element("title")).itertext()))
    walker = _Walker(limits)
    walker.walk(_main_part(root))
    warnings = walker.blocks.warnings()
    if any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log):
        warnings.append("The page is nested too deeply; not all of it was read.")
    said = _said_of_itself(root)
    return Draft(
        "text/html",
        walker.blocks.finish(),
        title=title,
        language=(root.get("lang") or "").strip(),
        warnings=warnings,
        author=_first(said, _AUTHOR_NAMES),
        dated=_first(said, _DATE_NAMES),
        tags=split_tags(said.get("keywords", "")),
    )


def _said_of_itself(root: etree._Element) -> dict[str, str]:
    """The page's own `<meta>` lines, by name in lower case; the first of a name counts."""
    said: dict[str, str] = {}
    for meta in itertools.islice(root.iter("meta"), _MOST_META):
        name = (meta.get("name") or meta.get("property") or meta.get("itemprop") or "").lower()
        content = (meta.get("content") or "").strip()
        if name and content:
            said.setdefault(name, content[:_LONGEST_META])
    return said


def _first(said: dict[str, str], names: Iterable[str]) -> str:
    return next((said[name] for name in names if name in said), "")


def _main_part(root: etree._Element) -> etree._Element:
    """`<main>` when it holds text, else the body."""
    for candidate in (*root.iter("main"), *root.iter("body")):
        if any(text.strip() for text in candidate.itertext()):
            return candidate
    return root


class _Walker:
    def __init__(self, limits: ParseLimits) -> None:
        self.blocks = BlockList(limits)
        self._limits = limits
        self._text: list[str] = []
        self._kind: BlockKind = "paragraph"
        self._level = 0
        self._depth = 0
        self._pre = 0
        # The words of the link that is open; None outside of one.
        self._label: list[str] | None = None

    def walk(self, root: etree._Element) -> None:
        walk = etree.iterwalk(root, events=("start", "end"))
        for event, element in walk:
            tag = element.tag if isinstance(element.tag, str) else ""
            if event == "end":
                if tag == "a":
                    self._end_link(element.get("href"))
                self._end(tag)
                # The tail of the root itself belongs to its parent.
                if element is not root:
                    self._take(element.tail)
            elif element is not root and _is_hidden(element, tag):
                walk.skip_subtree()
            elif tag == "table" and _is_data_table(element):
                self._flush()
                rows = (_cells(row) for row in element.iter("tr"))
                self.blocks.add(
                    "table", pipe_table(rows, max_characters=self._limits.max_characters)
                )
                walk.skip_subtree()
            else:
                self._start(tag)
                self._take(element.text)
            if self.blocks.is_full:
                return
        self._flush()

    def _start(self, tag: str) -> None:
        if tag == "a":
            self._label = []
        elif tag == "br":
            self._text.append("\n" if self._pre else _BREAK_MARK)
        elif tag in _HEADINGS:
            self._flush()
            self._kind, self._level = "heading", _HEADINGS[tag]
        elif tag == "pre":
            self._flush()
            self._pre += 1
            self._kind = "code"
        elif tag == "li":
            self._flush()
            self._depth += 1
            self._kind = "list"
        elif tag in _BREAKING:
            self._flush_unless_in_item(tag)

    def _end(self, tag: str) -> None:
        if tag in _HEADINGS or tag in ("pre", "li"):
            self._flush()
            if tag == "pre":
                self._pre = max(0, self._pre - 1)
            if tag == "li":
                self._depth = max(0, self._depth - 1)
            self._kind, self._level = "list" if self._depth else "paragraph", 0
        elif tag in _BREAKING:
            self._flush_unless_in_item(tag)

    def _flush_unless_in_item(self, tag: str) -> None:
        """A paragraph inside a list item or heading is a line of it, not a block of its own."""
        if self._kind == "paragraph" or tag in ("table", "ul", "ol"):
            self._flush()
        elif self._text:
            self._text.append("\n" if self._pre else _BREAK_MARK)

    def _take(self, text: str | None) -> None:
        if text:
            self._text.append(text)
            if self._label is not None:
                self._label.append(text)

    def _end_link(self, address: str | None) -> None:
        """Let the address follow the words, unless those ended in a block of their own."""
        label, self._label = "".join(self._label or ()), None
        if self._text:
            self._text.append(link_target(address, _squeeze(label)))

    def _flush(self) -> None:
        raw = "".join(self._text)
        self._text = []
        if self._pre:
            self.blocks.add("code", raw)
            return
        lines = [line for part in raw.split(_BREAK_MARK) if (line := _squeeze(part))]
        if not lines:
            return
        if self._kind == "list":
            lines[0] = f"{'  ' * min(self._depth - 1, 8)}- {lines[0]}"
        text = " ".join(lines) if self._kind == "heading" else "\n".join(lines)
        self.blocks.add(self._kind, text, level=self._level)


def _is_hidden(element: etree._Element, tag: str) -> bool:
    return (
        tag in _DROPPED
        or element.get("hidden") is not None
        or element.get("aria-hidden") == "true"
        or element.get("role") == "navigation"
        or bool(_HIDDEN_STYLE.search(element.get("style") or ""))
    )


def _is_data_table(table: etree._Element) -> bool:
    """Not a frame for layout: no table inside, and two cells beside each other somewhere."""
    if next(table.iterdescendants("table"), None) is not None:
        return False
    return any(sum(cell.tag in ("td", "th") for cell in row) > 1 for row in table.iter("tr"))


def _cells(row: etree._Element) -> list[str]:
    return [_squeeze(" ".join(_visible(cell))) for cell in row if cell.tag in ("td", "th")]


def _visible(cell: etree._Element) -> Iterable[str]:
    walk = etree.iterwalk(cell, events=("start", "end"))
    for event, element in walk:
        tag = element.tag if isinstance(element.tag, str) else ""
        if event == "end":
            if tag == "a":
                yield link_target(element.get("href"), "".join(element.itertext()))
            if element is not cell and element.tail:
                yield element.tail
        elif element is not cell and _is_hidden(element, tag):
            walk.skip_subtree()
        elif element.text:
            yield element.text


def _squeeze(text: str) -> str:
    return _SPACES.sub(" ", text).strip()
