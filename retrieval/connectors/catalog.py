"""Which connectors there are: those of Kaizen and those of installed packages, found at run time.

Promises: a package that can't be loaded, or whose class doesn't keep the contract, is listed with
the reason and disturbs nobody; the first to claim a slug keeps it, our own before all others.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from retrieval.connectors.border import guarded
from retrieval.connectors.contract import Connector, ConnectorError
from retrieval.connectors.fields import find_unsupported, load

logger = logging.getLogger(__name__)

GROUP = "kaizen.connectors"
BUNDLED = (
    "retrieval.connectors.folder:FolderConnector",
    "retrieval.connectors.website:WebsiteConnector",
    "retrieval.connectors.feed:FeedConnector",
    "retrieval.connectors.git:GitConnector",
    "retrieval.connectors.mailbox:MailboxConnector",
)
_SLUG = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_METHODS = ("check", "list_changes", "fetch", "close")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One connector, or what is left of one that can't be used: then `problem` says why."""

    slug: str
    title: str
    description: str
    origin: str
    mirrors_acl: bool = False
    connector: type[Connector] | None = None
    problem: str = ""


def list_entries() -> list[Entry]:
    """Every connector, ours first, then by title. Packages installed meanwhile are found too."""
    taken: dict[str, Entry] = {}
    broken: list[Entry] = []
    for entry in _found():
        if entry.connector is not None and entry.slug not in taken:
            taken[entry.slug] = entry
        elif entry.connector is None:
            broken.append(entry)
        else:
            problem = f"The name “{entry.slug}” is taken by {taken[entry.slug].origin}."
            broken.append(_broken(entry.slug, entry.origin, problem))
    return [*taken.values(), *broken]


def find_entry(slug: str) -> Entry | None:
    """The usable connector of this slug; a broken one of that name; or None."""
    return next((entry for entry in list_entries() if entry.slug == slug), None)


def get_connector(slug: str) -> type[Connector]:
    """The class of this slug. Raises ConnectorError when it isn't installed or can't be used."""
    entry = find_entry(slug)
    if entry is None:
        raise ConnectorError(f"The connector “{slug}” isn't installed.", retry=False)
    if entry.connector is None:
        message = f"The connector “{slug}” can't be used: {entry.problem}"
        raise ConnectorError(message, retry=False)
    return entry.connector


def open_connector(slug: str, *, opened: Mapping[str, Any], hidden: str) -> Connector:
    """A connector with its stored configuration. Raises ConnectorError."""
    kind = get_connector(slug)
    try:
        config = load(kind.Config, opened, hidden)
    except ValidationError as error:
        message = "Its settings don't fit the connector any more. Open them and save them again."
        raise ConnectorError(message, retry=False) from error
    with guarded(slug):
        return kind(config)


def _found() -> Iterator[Entry]:
    for place in BUNDLED:
        module, _, name = place.partition(":")
        yield _load(module.rpartition(".")[2], "Kaizen", partial(_import, module, name))
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        yield _load(point.name, _origin(point), point.load)


def _import(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def _origin(point: EntryPoint) -> str:
    if point.dist is None:
        return point.value
    return f"{point.dist.name} {point.dist.version}"


def _load(name: str, origin: str, load: Callable[[], Any]) -> Entry:
    """Load one class. Whatever foreign code raises on import stays with its entry."""
    try:
        loaded = load()
    except Exception as error:
        logger.exception("connector %s of %s can't be loaded", name, origin)
        return _broken(name, origin, f"{type(error).__name__}: {error}"[:300])
    problem = _find_problem(loaded)
    if problem:
        return _broken(name, origin, problem)
    connector = cast("type[Connector]", loaded)
    return Entry(
        slug=connector.slug,
        title=connector.title,
        description=connector.description,
        origin=origin,
        mirrors_acl=connector.mirrors_acl,
        connector=connector,
    )


def _broken(name: str, origin: str, problem: str) -> Entry:
    return Entry(slug=name, title=name, description="", origin=origin, problem=problem)


def _find_problem(loaded: Any) -> str:
    """In which way something doesn't keep the contract; empty if it does."""
    if not isinstance(loaded, type):
        return "It isn't a class."
    if not _SLUG.fullmatch(str(getattr(loaded, "slug", ""))):
        return "Its slug must be lower case letters, digits, - and _, at most 40."
    for name in ("title", "description"):
        if not isinstance(getattr(loaded, name, None), str):
            return f"It has no {name}."
    if not isinstance(getattr(loaded, "mirrors_acl", None), bool):
        return "It doesn't say whether it mirrors rights (mirrors_acl)."
    missing = [name for name in _METHODS if not callable(getattr(loaded, name, None))]
    if missing:
        return f"It lacks {', '.join(missing)}."
    config = getattr(loaded, "Config", None)
    if not (isinstance(config, type) and issubclass(config, BaseModel)):
        return "Its Config isn't a pydantic model."
    unsupported = find_unsupported(config)
    return f"No form can be made for {', '.join(unsupported)}." if unsupported else ""
