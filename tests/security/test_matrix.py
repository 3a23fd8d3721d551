"""The access matrix: every route as everybody who may not, with a foreign organisation's ids.

Generated from the URL tables, so a new route is walked without touching this file; one whose
parameters or rightful request aren't known fails. Two organisations alike, every text a canary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.security.walk_probe import Answer, Caller, Worlds, digest, undone
from tests.security.walk_routes import (
    METHODS,
    NOTHING_OF_ITS_OWN,
    SENT,
    Route,
    Sent,
    routes,
    sent_to,
    unknown_parameters,
)
from tests.security.walk_world import World

PLATFORM = [route for route in routes() if route.is_platform]
INSIDE = [route for route in routes() if not route.is_platform]
API = [route for route in INSIDE if route.is_api]
# What every member of an organisation may know of it.
OF_ALL_MEMBERS = frozenset({"organization", "team", "loner-email", "loner-name"})
BOGUS_TOKEN = "c0ffee-0123456789abcdef0123456789abcdef"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One caller of the matrix, where they ask, and what they must be answered."""

    caller: Callable[[Worlds], Caller]
    at: str
    page: int
    api: int
    known: frozenset[str] = frozenset()
    changes: tuple[str, ...] = ()
    only_api: bool = False


ROWS = {
    "anonymous": Row(caller=lambda w: Caller("anonymous"), at="foreign", page=302, api=401),
    "stranger": Row(caller=lambda w: w.stranger, at="foreign", page=404, api=404),
    "member-of-another-organisation": Row(
        caller=lambda w: Caller("home member", w.home.member.user),
        at="foreign",
        page=404,
        api=404,
    ),
    "admin-of-another-organisation": Row(
        caller=lambda w: Caller("home admin", w.home.owner.user), at="foreign", page=404, api=404
    ),
    "revoked-member": Row(
        caller=lambda w: Caller("suspended", w.foreign.suspended.user),
        at="foreign",
        page=404,
        api=404,
        known=frozenset({"suspended-email", "suspended-name"}),
    ),
    "key-of-another-organisation": Row(
        caller=lambda w: Caller("home key", secret=w.home.secret),
        at="foreign",
        page=302,
        api=401,
        only_api=True,
    ),
    "key-of-a-revoked-member": Row(
        caller=lambda w: Caller("suspended key", secret=w.foreign.suspended_secret),
        at="foreign",
        page=302,
        api=401,
        only_api=True,
    ),
    "unknown-key": Row(
        caller=lambda w: Caller("unknown key", secret="kz_" + "x" * 43),
        at="foreign",
        page=302,
        api=401,
        only_api=True,
    ),
}


def test_every_parameter_of_every_route_is_known_to_the_walk() -> None:
    assert unknown_parameters() == []


def test_what_the_rightful_member_sends_names_routes_that_exist() -> None:
    patterns = {route.pattern for route in routes()}
    assert [key for key in SENT if key[1] not in patterns] == []


def test_the_walk_finds_the_routes_of_every_app() -> None:
    patterns = {route.pattern for route in routes()}
    assert {
        "healthz",
        "chat/<uuid:conversation_id>/",
        "documents/<uuid:document_id>/",
        "tasks/<uuid:task_id>/",
        "api/v1/agents/<uuid:agent_id>/",
        "api/v1/conversations/<uuid:conversation_id>/events/",
    } <= patterns
    assert not [pattern for pattern in patterns if pattern.startswith("admin")]


@pytest.mark.parametrize("route", routes(), ids=lambda route: route.pattern or "front")
def test_the_rightful_member_is_served(worlds: Worlds, route: Route) -> None:
    """The positive control: each method a route has succeeds for who may, and shows their own."""
    caller = Caller("rightful", worlds.home.owner.user)
    served = []
    for method in METHODS:
        with undone():
            sent = sent_to(route, method, worlds.home)
            answer = caller.ask(method, _rightful_address(route, worlds.home), sent)
        caller.sign_in()
        if answer.status == 405:
            assert (method, route.pattern) not in SENT, "what is sent there is never asked for"
            continue
        assert 200 <= answer.status < 400, f"{method}: {answer.status} {answer.body[:500]}"
        assert not worlds.foreign.canaries.found_in(answer.text)
        served.append((method, answer))
    assert served, "a route without a positive control"
    for method, answer in served:
        if method == "GET" and answer.status == 200 and route.pattern not in NOTHING_OF_ITS_OWN:
            assert _shows_own(answer, route, worlds.home), answer.body[:500]


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_who_has_no_place_there_is_told_nothing(
    worlds: Worlds, row: Row, caplog: pytest.LogCaptureFixture
) -> None:
    """Every route, every method: one and the same answer for foreign and for unused ids."""
    foreign = worlds.foreign
    caller = row.caller(worlds)
    before = digest(foreign, but=row.changes)
    faults: list[str] = []
    for route in API if row.only_api else INSIDE:
        ids = route.ids_of(foreign)
        unused = route.unused_ids()
        for method in METHODS:
            sent = sent_to(route, method, foreign)
            answer = caller.ask(method, route.address(row.at, ids), sent)
            wanted = row.api if route.is_api else row.page
            where = f"{method} {route.pattern}"
            if answer.status != wanted:
                faults.append(f"{where}: {answer.status}, not {wanted} {answer.crash}")
            if route.is_api and answer.media_type != "application/problem+json":
                faults.append(f"{where}: {answer.media_type}")
            faults += [f"{where} shows {place}" for place in _leaks(row, foreign, answer, sent)]
            if not ids or method not in ("GET", "POST"):
                continue
            other = caller.ask(method, route.address(row.at, unused), sent)
            if answer.shape(ids.values()) != other.shape(unused.values()):
                faults.append(f"{where}: foreign and unused ids are told apart")
    assert faults == []
    assert digest(foreign, but=row.changes) == before
    assert foreign.canaries.found_in(caplog.text, but=row.known) == []


@pytest.mark.parametrize("who", ["member", "owner"])
def test_foreign_ids_at_ones_own_organisation_are_as_good_as_unused_ones(
    worlds: Worlds, who: str, caplog: pytest.LogCaptureFixture
) -> None:
    """K10, as a member and as an admin of another organisation."""
    caller = Caller(who, getattr(worlds.home, who).user)
    before = digest(worlds.foreign)
    faults = _walk_ids(caller, worlds.foreign, at="home", but=())
    assert faults == []
    assert digest(worlds.foreign) == before
    assert worlds.foreign.canaries.found_in(caplog.text) == []


@pytest.mark.parametrize("kind", ["session", "key"])
def test_a_member_without_grants_finds_nothing_by_any_id(
    worlds: Worlds, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    foreign = worlds.foreign
    caller = Caller("loner", foreign.loner.user)
    if kind == "key":
        caller = Caller("loner's key", secret=foreign.loner_secret)
    # Reading about oneself is audited, and a key remembers its last use.
    but = ("audit_", "accounts_apikey")
    before = digest(foreign, but=but)
    faults = _walk_ids(caller, foreign, at="foreign", but=OF_ALL_MEMBERS, only_api=kind == "key")
    assert faults == []
    assert digest(foreign, but=but) == before
    assert foreign.canaries.found_in(caplog.text, but=OF_ALL_MEMBERS) == []


@pytest.mark.parametrize("name", ["anonymous", "stranger", "member", "owner", "suspended"])
def test_the_platforms_own_pages_tell_nobody_anything(worlds: Worlds, name: str) -> None:
    """Signing in, choosing an organisation, links, health: no 500 and nothing foreign."""
    users = {
        "anonymous": None,
        "stranger": worlds.stranger.user,
        "member": worlds.home.member.user,
        "owner": worlds.home.owner.user,
        "suspended": worlds.foreign.suspended.user,
    }
    own = {"suspended-email", "suspended-name"} if name == "suspended" else set()
    before = digest(worlds.foreign)
    for route in PLATFORM:
        ids = route.ids_of(worlds.foreign)
        if "token" in ids:
            ids["token"] = BOGUS_TOKEN
        for method in METHODS:
            sent = sent_to(route, method, worlds.home)
            with undone():
                answer = Caller(name, users[name]).ask(method, route.address("", ids), sent)
            where = f"{method} {route.pattern}"
            assert answer.status < 500, f"{where}: {answer.crash}"
            assert worlds.foreign.canaries.found_in(answer.text, but=own) == [], where
    assert _without_logins(digest(worlds.foreign)) == _without_logins(before)


def test_an_organisation_that_does_not_exist_answers_as_a_foreign_one(worlds: Worlds) -> None:
    for route in INSIDE:
        ids = route.ids_of(worlds.foreign)
        there = worlds.stranger.ask("GET", route.address("foreign", ids))
        nowhere = worlds.stranger.ask("GET", route.address("nowhere", ids))
        assert there.shape(["foreign"]) == nowhere.shape(["nowhere"]), route.pattern


def _walk_ids(
    caller: Caller,
    foreign: World,
    *,
    at: str,
    but: frozenset[str] | tuple[str, ...],
    only_api: bool = False,
) -> list[str]:
    """Walk as somebody with a place at `at`: ids of what they may not see are unknown ids."""
    faults: list[str] = []
    for route in API if only_api else INSIDE:
        ids, unused = route.ids_of(foreign), route.unused_ids()
        for method in METHODS if route.parameters else ("GET",):
            # What they send is fine in itself, so that only the id decides.
            sent = sent_to(route, method, foreign) if route.parameters else Sent()
            answer = caller.ask(method, route.address(at, ids), sent)
            where = f"{method} {route.pattern}"
            if answer.status >= 500:
                faults.append(f"{where}: {answer.status} {answer.crash}")
            faults += [
                f"{where} shows {place}"
                for place in foreign.canaries.found_in(answer.text, but=but)
            ]
            if not route.parameters or answer.status == 405:
                continue
            if answer.status != 404:
                faults.append(f"{where}: {answer.status} {answer.body[:200]}")
            other = caller.ask(method, route.address(at, unused), sent)
            if answer.shape(ids.values()) != other.shape(unused.values()):
                faults.append(f"{where}: foreign and unused ids are told apart")
    return faults


def _leaks(row: Row, foreign: World, answer: Answer, sent: Sent) -> list[str]:
    """The canaries in an answer; what the caller sent in the address may come back."""
    known = set(row.known)
    if sent.query:  # The way back after signing in quotes the address.
        known.add("passage")
    return foreign.canaries.found_in(answer.text, but=known)


def _rightful_address(route: Route, world: World) -> str:
    return route.address(world.slug, route.ids_of(world))


def _shows_own(answer: Answer, route: Route, world: World) -> bool:
    if world.canaries.found_in(answer.text):
        return True
    if any(str(value) in answer.body for value in route.ids_of(world).values()):
        return True
    return f"/o/{world.slug}" in answer.body


def _without_logins(found: dict[str, tuple[int, str]]) -> dict[str, tuple[int, str]]:
    return {name: value for name, value in found.items() if not name.startswith("accounts_user")}
