"""What a connector is: a form to configure it, and three readings of a source system.

A connector reads; it writes nothing and knows no organisation, document or grant. The engine
(`retrieval.connectors.sync`) calls it, in a worker and outside any transaction, keeps its
checkpoint, and turns what it yields into documents and rights. Third-party packages import this
module alone and announce their class under the entry point group `kaizen.connectors`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Protocol

from pydantic import BaseModel


class ConnectorError(Exception):
    """The source system can't be read. `message` is shown to admins, so it holds no secret.

    `retry` tells whether the same call may succeed later; `retry_after` how many seconds later at
    the earliest, where the system said so.
    """

    def __init__(
        self, message: str, *, retry: bool = True, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retry = retry
        self.retry_after = retry_after


class AclUnknown(ConnectorError):
    """The rights can't be read. What they belong to is visible to nobody until they can."""


class PrincipalKind(StrEnum):
    """Whom an entry of a foreign list of rights names."""

    EMAIL = "email"
    TEAM = "team"
    EVERYONE = "everyone"


@dataclass(frozen=True, slots=True)
class Principal:
    """One reader upstream: a person by e-mail address, a team by its label here, or every member.

    Names that nobody here bears stay without effect until somebody does.
    """

    kind: PrincipalKind
    name: str = ""


@dataclass(frozen=True, slots=True)
class Acl:
    """Who may read an item upstream. An empty list is nobody."""

    readers: tuple[Principal, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Something that exists upstream.

    Attributes:
        external_id: its lasting identity there; a move keeps it if the system can tell.
        revision: changes when its content or details do; fetched again only then.
        acl: its own rights; None means that it follows the source's grants here.
    """

    external_id: str
    revision: str
    file_name: str
    title: str = ""
    path: str = ""
    url: str = ""
    author: str = ""
    tags: tuple[str, ...] = ()
    dated_at: datetime | None = None
    media_type: str = ""
    acl: Acl | None = None


@dataclass(frozen=True, slots=True)
class Gone:
    """An item that no longer exists upstream."""

    external_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One stretch of changes and where to go on after it.

    Attributes:
        checkpoint: given back to `list_changes` once this page is safely stored.
        is_listing: the pages of this call name everything that exists, so that the engine may
            delete, at the end, what none of them named.
    """

    changes: Sequence[Item | Gone]
    checkpoint: str
    is_listing: bool = False


@dataclass(frozen=True, slots=True)
class Fetched:
    """The bytes of an item."""

    data: bytes
    media_type: str = ""


class Connector(Protocol):
    """A configured reader of one source system.

    Class attributes:
        slug: its lasting name, lower case; title, description: one line each, for the admin.
        Config: a pydantic model with a `title` and `description` per field; `SecretStr` fields
            are stored encrypted and never shown again.
        mirrors_acl: whether items carry rights. If so, an item without any is visible to nobody.
    """

    slug: ClassVar[str]
    title: ClassVar[str]
    description: ClassVar[str]
    Config: ClassVar[type[BaseModel]]
    mirrors_acl: ClassVar[bool]

    def __init__(self, config: BaseModel) -> None: ...

    def check(self) -> None:
        """Connect once, read as little as possible. Raises ConnectorError."""
        ...

    def list_changes(self, checkpoint: str | None) -> Iterator[Page]:
        """What changed since `checkpoint`, None meaning everything; the last page ends it.

        Raises ConnectorError, and AclUnknown when the rights of the whole can't be read.
        """
        ...

    def fetch(self, item: Item) -> Fetched | None:
        """The bytes of an item, None when it is gone meanwhile. Raises ConnectorError."""
        ...

    def close(self) -> None:
        """Let go of what was opened. Called once, whatever happened."""
        ...
