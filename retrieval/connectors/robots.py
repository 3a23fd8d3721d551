"""A site's robots.txt, read as RFC 9309 says: what we may ask for, how often, where its map is.

Promises: the longest rule wins and a tie allows; `*` and `$` count; matching takes linear time
whatever the rules are. `urllib.robotparser` takes the first rule and reads `*` as a letter.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from urllib.parse import quote

from retrieval.web.address import normal_escapes

AGENT = "kaizen"
LARGEST = 500 * 1024
_MOST_RULES = 5_000


@dataclass(frozen=True, slots=True)
class Robots:
    """The rules for us. Without any, everything is allowed."""

    rules: tuple[tuple[str, bool], ...] = ()
    delay: float = 0.0
    sitemaps: tuple[str, ...] = ()

    def may_fetch(self, path: str) -> bool:
        """Whether a path with its query may be asked for."""
        asked = normal_escapes(path)
        best = max(
            ((len(rule), allows) for rule, allows in self.rules if _matches(rule, asked)),
            default=(0, True),
        )
        return best[1]


@dataclass(slots=True)
class _Group:
    agents: list[str] = field(default_factory=list)
    rules: list[tuple[str, bool]] = field(default_factory=list)
    delay: float = 0.0
    is_open: bool = True


def read_robots(data: bytes) -> Robots:
    """The rules for `kaizen`, those for everybody where none name us."""
    groups: list[_Group] = []
    sitemaps: list[str] = []
    for line in data[:LARGEST].decode("utf-8-sig", "replace").splitlines():
        name, colon, value = line.partition("#")[0].partition(":")
        name, value = name.strip().lower(), value.strip()
        if not colon:
            continue
        if name == "sitemap":
            sitemaps.append(value)
        elif name == "user-agent":
            if not groups or not groups[-1].is_open:
                groups.append(_Group())
            groups[-1].agents.append(value.lower())
        elif groups:
            _read_rule(groups[-1], name, value)
    ours = [group for group in groups if AGENT in group.agents]
    ours = ours or [group for group in groups if "*" in group.agents]
    return Robots(
        tuple(rule for group in ours for rule in group.rules)[:_MOST_RULES],
        max((group.delay for group in ours), default=0.0),
        tuple(sitemaps),
    )


def _read_rule(group: _Group, name: str, value: str) -> None:
    if name in ("allow", "disallow"):
        group.is_open = False
        if value:
            safe = "/%:@!$&'()*+,;=~?[]"
            group.rules.append((normal_escapes(quote(value, safe=safe)), name == "allow"))
    elif name == "crawl-delay":
        group.is_open = False
        with contextlib.suppress(ValueError):
            seconds = float(value)
            group.delay = max(0.0, seconds) if math.isfinite(seconds) else 0.0


def _matches(rule: str, path: str) -> bool:
    """Whether a rule is a prefix of a path; `*` stands for anything, a final `$` for the end."""
    at_end = rule.endswith("$")
    first, *others = rule.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    if not others:
        return not at_end or path == first
    at = len(first)
    last = others.pop()
    for part in others:
        found = path.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    if at_end:
        return len(path) - len(last) >= at and path.endswith(last)
    return path.find(last, at) >= 0
