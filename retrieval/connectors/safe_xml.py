"""XML from outside, read without entities, without fetching, and within limits."""

from __future__ import annotations

from io import BytesIO
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import iterparse

_DEEPEST = 200
_MOST_ELEMENTS = 1_000_000


class NotXml(ValueError):
    """Not well-formed, or not harmless."""


def parse_xml(data: bytes) -> Element:
    """The root element. Raises NotXml."""
    depth = count = 0
    root: Element | None = None
    try:
        for event, element in iterparse(BytesIO(data.lstrip()), events=("start", "end")):
            if event == "end":
                depth -= 1
                continue
            if root is None:
                root = element
            depth, count = depth + 1, count + 1
            if depth > _DEEPEST or count > _MOST_ELEMENTS:
                raise NotXml("too deep or too much")
    except (ParseError, DefusedXmlException, LookupError, ValueError) as error:
        raise NotXml(str(error)) from None
    if root is None:
        raise NotXml("empty")
    return root


def local_name(element: Element) -> str:
    """The name of an element without its namespace, lower case; empty for a comment."""
    tag = element.tag
    return tag.rpartition("}")[2].lower() if isinstance(tag, str) else ""
