"""A source system made for tests, and the connector that reads it: in this process, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from pydantic import BaseModel, Field, SecretStr

from retrieval.connectors.contract import (
    Acl,
    ConnectorError,
    Fetched,
    Gone,
    Item,
    Page,
    Principal,
    PrincipalKind,
)

SYSTEMS: dict[str, Upstream] = {}


@dataclass
class Upstream:
    """What is there, how it is told, and what goes wrong.

    A system that `lists` names everything each time, in pages; the other kind tells its log.
    """

    lists: bool = True
    page_size: int = 2
    items: dict[str, Item] = field(default_factory=dict)
    data: dict[str, bytes] = field(default_factory=dict)
    log: list[Item | Gone] = field(default_factory=list)
    list_errors: list[ConnectorError] = field(default_factory=list)
    fail_after: int | None = None
    fetch_errors: dict[str, Exception] = field(default_factory=dict)
    on_fetch: Callable[[str], None] | None = None
    # What was asked.
    asked: list[str | None] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    closed: int = 0

    def put(self, name: str, text: str = "", *, revision: str = "1", **more: object) -> Item:
        """Add or change an item."""
        file_name = str(more.pop("file_name", f"{name}.md"))
        item = Item(external_id=name, revision=revision, file_name=file_name, **more)  # type: ignore[arg-type]
        self.items[name] = item
        self.data[name] = (text or f"# {name}\n\nThe text of {name}.\n").encode()
        self.log.append(item)
        return item

    def drop(self, name: str) -> None:
        """Remove an item."""
        del self.items[name], self.data[name]
        self.log.append(Gone(name))

    def pages(self, checkpoint: str | None) -> Iterator[Page]:
        """The pages of one call."""
        self.asked.append(checkpoint)
        if self.list_errors:
            raise self.list_errors.pop(0)
        start = int(checkpoint or 0)
        changes = [*self.items.values()] if self.lists else self.log
        for told, at in enumerate(range(start, len(changes), self.page_size)):
            if self.fail_after is not None and told == self.fail_after:
                raise ConnectorError("The line broke.")
            end = min(at + self.page_size, len(changes))
            last = end == len(changes)
            after = "" if self.lists and last else str(end)
            yield Page(changes=changes[at:end], checkpoint=after, is_listing=self.lists)
        if self.lists and not changes:
            yield Page(changes=(), checkpoint="", is_listing=True)


class UpstreamConfig(BaseModel):
    """Which system."""

    system: str = Field(description="Its name.")
    token: SecretStr | None = Field(default=None, description="Its key.")


class UpstreamConnector:
    """Reads one."""

    slug: ClassVar[str] = "upstream"
    title: ClassVar[str] = "Upstream"
    description: ClassVar[str] = "A system made for tests."
    Config: ClassVar[type[BaseModel]] = UpstreamConfig
    mirrors_acl: ClassVar[bool] = False

    def __init__(self, config: BaseModel) -> None:
        assert isinstance(config, UpstreamConfig)
        self.system = SYSTEMS[config.system]

    def check(self) -> None:
        if self.system.list_errors:
            raise self.system.list_errors[0]

    def list_changes(self, checkpoint: str | None) -> Iterator[Page]:
        return self.system.pages(checkpoint)

    def fetch(self, item: Item) -> Fetched | None:
        self.system.fetched.append(item.external_id)
        if self.system.on_fetch is not None:
            self.system.on_fetch(item.external_id)
        if item.external_id in self.system.fetch_errors:
            raise self.system.fetch_errors[item.external_id]
        data = self.system.data.get(item.external_id)
        return None if data is None else Fetched(data)

    def close(self) -> None:
        self.system.closed += 1


class MirroringConnector(UpstreamConnector):
    """Reads one with its rights."""

    slug: ClassVar[str] = "mirroring"
    mirrors_acl: ClassVar[bool] = True


def readers(*names: str) -> Acl:
    """Rights: an e-mail address, `everyone`, or a team's name."""
    found = []
    for name in names:
        if name == "everyone":
            found.append(Principal(PrincipalKind.EVERYONE))
        else:
            kind = PrincipalKind.EMAIL if "@" in name else PrincipalKind.TEAM
            found.append(Principal(kind, name))
    return Acl(tuple(found))
