"""What a server says of its tools, as values: read, bounded, and with a digest to notice changes.

Everything here was written by somebody outside: names, descriptions and hints are data to decide
about. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from kaizen.kernel.models import exact_json
from kaizen.kernel.text import make_storable
from retrieval.live.wire import header_value

LONGEST_SCHEMA = 8_000
LONGEST_DESCRIPTION = 2_000
LONGEST_TITLE = 200

_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_ANNOTATION = "x-mcp-header"
_HEADER_TYPES = frozenset({"string", "integer", "boolean"})


class _Unusable(Exception):
    """A schema that breaks the protocol's rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A tool that a server offers. `read_only` is what it says of itself."""

    name: str
    title: str
    description: str
    schema: dict[str, Any]
    read_only: bool
    # Which arguments are repeated in which header, as the protocol demands.
    headers: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def digest(self) -> str:
        """Of what decides whether it may be called: name, arguments, and what it says it does."""
        judged = [self.name, self.schema, self.read_only]
        text = json.dumps(judged, sort_keys=True, separators=(",", ":"))
        return sha256(text.encode()).hexdigest()

    def argument_headers(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        """The headers that repeat `arguments`; absent ones and null are left out."""
        found: dict[str, str] = {}
        for name, path in self.headers:
            value = _value_at(arguments, path)
            if isinstance(value, bool):
                found[name] = "true" if value else "false"
            elif isinstance(value, int | str):
                found[name] = header_value(str(value))
        return found


def read_offer(data: object) -> Offer | None:
    """A tool of a server's list, or None for one that isn't well-formed or is out of bounds."""
    if not isinstance(data, dict):
        return None
    name, schema = data.get("name"), data.get("inputSchema")
    if not (isinstance(name, str) and _NAME.fullmatch(name) and isinstance(schema, dict)):
        return None
    if schema.get("type") != "object" or not isinstance(schema.get("properties", {}), dict):
        return None
    try:
        if len(exact_json(schema)) > LONGEST_SCHEMA:
            return None
        headers = tuple(_find_headers(schema))
    except (_Unusable, ValueError, RecursionError):
        return None
    return Offer(
        name=name,
        title=_text(data.get("title"), LONGEST_TITLE),
        description=_text(data.get("description"), LONGEST_DESCRIPTION),
        schema=schema,
        read_only=_says_read_only(data.get("annotations")),
        headers=headers,
    )


def _says_read_only(annotations: object) -> bool:
    return (
        isinstance(annotations, dict)
        and annotations.get("readOnlyHint") is True
        and annotations.get("destructiveHint") is not True
    )


def _find_headers(schema: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The annotated properties. Raises _Unusable when one breaks the rules."""
    taken: set[str] = set()
    for name, path in _annotated(schema, (), reachable=True):
        if name.lower() in taken:
            raise _Unusable
        taken.add(name.lower())
        yield f"mcp-param-{name.lower()}", path


def _annotated(
    node: object, path: tuple[str, ...], *, reachable: bool
) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(node, list):
        for item in node:
            yield from _annotated(item, path, reachable=False)
    if not isinstance(node, dict):
        return
    if _ANNOTATION in node:
        name = node[_ANNOTATION]
        fine = reachable and path and node.get("type") in _HEADER_TYPES
        if not (fine and isinstance(name, str) and _HEADER.fullmatch(name)):
            raise _Unusable
        yield name, path
    for key, value in node.items():
        if key == "properties" and isinstance(value, dict):
            for name, inner in value.items():
                yield from _annotated(inner, (*path, name), reachable=reachable)
        else:
            yield from _annotated(value, path, reachable=False)


def _value_at(arguments: Mapping[str, Any], path: tuple[str, ...]) -> object:
    value: object = arguments
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def _text(value: object, most: int) -> str:
    return make_storable(value).text[:most] if isinstance(value, str) else ""
