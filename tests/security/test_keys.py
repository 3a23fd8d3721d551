"""API keys: they die with their member, and every route asks them for a scope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pytest
from django.test import override_settings
from pytest_django.plugin import DjangoDbBlocker

from accounts.models import ApiKey, Membership
from tests import factories, servers
from tests.conftest import connected_to
from tests.security.walk_probe import Caller, undone
from tests.security.walk_routes import METHODS, Route, routes, sent_to
from tests.security.walk_world import SCOPES, World, build, make_key
from tests.websites import website

ME = "/o/{}/api/v1/me/"
# What any key may ask: who it is, where it is, and how the API works.
OPEN = frozenset({"api/v1/me/", "api/v1/organization/", "api/v1/schema/", "api/v1/docs/"})


def _person(membership: Membership, *, active: bool) -> None:
    membership.user.is_active = active
    membership.user.save()


def _place(membership: Membership, *, active: bool) -> None:
    membership.state = Membership.State.ACTIVE if active else Membership.State.SUSPENDED
    membership.save()


@pytest.mark.django_db
@pytest.mark.parametrize("switch", [_person, _place], ids=["person", "membership"])
def test_K19_a_key_stops_with_its_owner_and_looks_like_an_unknown_one(
    switch: Callable[..., None],
) -> None:
    membership = factories.make_member(factories.make_organization())
    address = ME.format(membership.organization.slug)
    key, secret = make_key(membership)
    caller = Caller("key", secret=secret)
    assert caller.ask("GET", address).status == 200
    key.refresh_from_db()
    used = key.last_used_at
    assert used is not None

    switch(membership, active=False)
    refused = caller.ask("GET", address)
    assert refused.status == 401
    unknown = Caller("unknown", secret="kz_" + "u" * 43).ask("GET", address)
    assert (refused.body, refused.headers) == (unknown.body, unknown.headers)
    key.refresh_from_db()
    assert key.last_used_at == used

    switch(membership, active=True)
    assert caller.ask("GET", address).status == 200
    key.refresh_from_db()
    assert key.last_used_at is not None
    assert key.last_used_at >= used


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[World]:
    name = servers.create_database()
    with website() as site, override_settings(EGRESS_ALLOW=(site.allowed,)):
        site.serve("/page", "<title>A page of the walk</title><p>Of the walk.")
        with connected_to(name, django_db_blocker):
            world = build("keys")
            world.page_url = f"{site.origin}/page"
            yield world
    servers.drop_database(name)


@pytest.fixture(scope="module")
def callers(world: World) -> dict[str, Caller]:
    """A key for each scope alone, of the rightful member."""
    made = {}
    for scope in SCOPES:
        _, secret = make_key(world.owner, name=scope, scopes=[scope])
        made[scope] = Caller(scope, secret=secret)
    return made


@pytest.mark.parametrize(
    "route", [route for route in routes() if route.is_api], ids=lambda route: route.pattern
)
def test_every_route_of_the_api_asks_a_key_for_its_scope(
    world: World, callers: dict[str, Caller], route: Route
) -> None:
    address = route.address(world.slug, route.ids_of(world))
    for method in METHODS:
        allowed, refused = [], []
        for scope, caller in callers.items():
            # Reading is not undone: the events are read on another connection, which would wait for
            # the key's row.
            with nullcontext() if method == "GET" else undone():
                answer = caller.ask(method, address, sent_to(route, method, world))
            if answer.status == 403:
                assert '"code":"scope"' in answer.body.replace(" ", ""), answer.body
                refused.append(scope)
            elif answer.status != 405:
                assert 200 <= answer.status < 300, f"{method} as {scope}: {answer.body[:300]}"
                allowed.append(scope)
        if allowed or route.pattern in OPEN:
            assert bool(refused) is (route.pattern not in OPEN), f"{method}: {allowed} may"


def test_a_revoked_key_is_as_good_as_an_unknown_one(world: World) -> None:
    key, secret = make_key(world.owner, name="gone")
    ApiKey.objects.filter(pk=key.pk).update(revoked_at=key.created_at)
    address = ME.format(world.slug)
    revoked = Caller("revoked", secret=secret).ask("GET", address)
    unknown = Caller("unknown", secret="kz_" + "u" * 43).ask("GET", address)
    assert revoked.status == 401
    assert revoked.body == unknown.body
