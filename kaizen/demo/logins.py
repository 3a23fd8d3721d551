"""The demo's log-ins, as they are printed where it is started. Pure: told from the story alone."""

from __future__ import annotations

from collections.abc import Iterable

from kaizen.demo.shape import DemoGrant, DemoOrganization
from kaizen.demo.story import DEMO_PASSWORD, ORGANIZATIONS


def list_logins() -> list[str]:
    """One line for each member: e-mail, password, organisation, and what they may see."""
    rows = [
        (member.email, DEMO_PASSWORD, story.name, _describe_sight(story, member.email))
        for story in ORGANIZATIONS
        for member in story.members
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        "  ".join([*(row[column].ljust(widths[column]) for column in range(3)), row[3]])
        for row in rows
    ]


def _describe_sight(story: DemoOrganization, email: str) -> str:
    member = next(member for member in story.members if member.email == email)
    parents = {team.name: team.parent for team in story.teams}
    teams = {name for team in member.teams for name in (team, parents[team])}

    def is_granted(grants: Iterable[DemoGrant]) -> bool:
        return any(given.name in teams for given in grants if given.kind == "team")

    more = [source.name for source in story.sources if is_granted(source.grants)]
    more += [
        restricted.file
        for source in story.sources
        for restricted in source.restricted
        if is_granted(restricted.grants)
    ]
    sees = f"what all see, and {' and '.join(more)}" if more else "what all see"
    return f"{sees}; sets things up" if member.role in ("owner", "admin") else sees
