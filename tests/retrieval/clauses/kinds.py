"""What a clause of the relation is, and a condition that is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

PRINCIPALS = "accounts_principals"
SOURCES = "retrieval_visible_sources"
DOCUMENTS = "retrieval_granted_documents"
OWN, TEAM = "accounts.relation:OWN_GRANTS", "accounts.relation:TEAM_GRANTS"
ORGANIZATION = "g.organization_id = p_organization"
LIVE = "(g.expires_at IS NULL OR g.expires_at > now())"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One clause: where it stands, what it reads when taken out, and the test that then fails.

    It may stand in several places that guard the same thing: they are taken out together. `nth` are
    its places among those of the same text, counted from 0.
    """

    name: str
    where: str
    text: str
    test: Callable[..., Any]
    given: Mapping[str, Any] = field(default_factory=dict)
    instead: str = "true"
    nth: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """A condition that decides nothing about rights, and why; at every place if `nth` is None."""

    where: str
    text: str
    why: str
    nth: tuple[int, ...] | None = None
