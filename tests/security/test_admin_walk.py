"""The generated walk: every registered admin, every page and action, as another organisation's
owner.

A new admin is walked without editing this file: the pages come from the registry, the rows from
`admin_world`, which has to furnish every registered model.
"""

from __future__ import annotations

import itertools
import re
import uuid
from typing import Any

import pytest
from django.contrib.admin import helpers
from django.db import connection, models
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import Membership, Organization, Role
from kaizen.kernel.admin import site
from tests import factories as make
from tests.security.admin_world import House, build_house, furnish, snapshot

pytestmark = pytest.mark.django_db
MODELS = sorted(site._registry, key=lambda model: model._meta.label)
IDS = [model._meta.label_lower for model in MODELS]
UNSTABLE = re.compile(r'(csrfmiddlewaretoken" value=|nonce=)"[^"]+"')
every_model = pytest.mark.parametrize("model", MODELS, ids=IDS)


@pytest.fixture
def home() -> House:
    """The caller's own organisation."""
    return build_house("home")


@pytest.fixture
def foreign() -> House:
    """The other one."""
    return build_house("foreign")


@pytest.fixture
def owner(client: Client, home: House) -> Client:
    """Signed in as the owner of `home`."""
    client.force_login(home.owner.user)
    return client


def base(house: House, model: type[models.Model]) -> str:
    """The address of a model's list."""
    return f"/o/{house.organization.slug}/admin/{model._meta.app_label}/{model._meta.model_name}/"


def public_id(row: Any) -> str:
    """What stands in addresses for `row`."""
    return str(getattr(row, site._registry[type(row)].public_id))


def row_of(house: House, model: type[models.Model]) -> Any:
    """A row of `model` in `house`; fails for a model the world doesn't furnish."""
    assert house.rows.get(model), f"furnish {model._meta.label} in tests/security/admin_world.py"
    return house.rows[model][-1]


def check_silent(response: Any, *houses: House) -> str:
    """The answer holds no canary of `houses`, in body or headers, and is no server error."""
    text = response.content.decode() + str(response.headers) + response.cookies.output()
    assert response.status_code < 500
    for house in houses:
        found = [canary for canary in (*house.shown, *house.content) if canary in text]
        assert found == []
    return text


def check_no_content(text: str, *houses: House) -> None:
    """No title, message, passage, argument or secret stands in `text`."""
    for house in houses:
        assert [canary for canary in house.content if canary in text] == []


@every_model
def test_own_rows_are_shown_and_foreign_ones_are_not(
    owner: Client, home: House, foreign: House, model: type[models.Model]
) -> None:
    """List, popup, add form, change form and history: the rightful owner sees them, of
    home only.
    """
    row = row_of(home, model)
    address = base(home, model)
    listed = owner.get(address, follow=True)
    assert listed.status_code == 200
    text = check_silent(listed, foreign)
    check_no_content(text, home)
    if model is not Organization:
        assert public_id(row) in text  # the positive control: a link to one's own row
    for query in ("?_popup=1&all=&o=1.-2", "?p=9999", "?q=cnryforeign"):
        check_no_content(check_silent(owner.get(address + query), foreign), home)
    check_silent(owner.get(f"{address}add/"), foreign)
    check_silent(owner.get(f"{address}add/?_popup=1"), foreign)
    for page in ("change", "history"):
        response = owner.get(f"{address}{public_id(row)}/{page}/")
        assert response.status_code == 200
        check_no_content(check_silent(response, foreign), home)
    deletion = owner.get(f"{address}{public_id(row)}/delete/")
    assert deletion.status_code == (200 if site._registry[model].deletable else 403)
    check_no_content(check_silent(deletion, foreign), home)


@every_model
def test_a_foreign_id_is_an_unknown_id(
    owner: Client, home: House, foreign: House, model: type[models.Model]
) -> None:
    """K10: 404 with the same body for another organisation's id and for a random one; nothing
    changes.
    """
    before = snapshot(foreign.organization)
    for page, method in itertools.product(
        ("change", "history", "delete"), ("get", "post", "put", "patch", "delete")
    ):
        bodies = set()
        nonsense = ("nonsense", "7") if method == "get" else ()
        for identity in (public_id(row_of(foreign, model)), str(uuid.uuid4()), *nonsense):
            address = f"{base(home, model)}{identity}/{page}/"
            response = getattr(owner, method)(address, {"post": "yes"})
            check_silent(response, foreign)
            assert response.status_code == 404, (page, method, identity)
            bodies.add(UNSTABLE.sub("", response.content.decode()))
        assert len(bodies) == 1
    assert snapshot(foreign.organization) == before


@every_model
def test_autocomplete_offers_own_rows_only(
    owner: Client, home: House, foreign: House, model: type[models.Model]
) -> None:
    """Every relation of every admin: foreign names are never offered, whatever the term."""
    address = f"/o/{home.organization.slug}/admin/autocomplete/"
    for field in model._meta.get_fields():
        if not (field.concrete and field.remote_field):
            continue
        where = {
            "app_label": model._meta.app_label,
            "model_name": model._meta.model_name,
            "field_name": field.name,
        }
        for term in ("", foreign.shown[0], "cnryforeign", "\x00"):
            check_silent(owner.get(address, {**where, "term": term}), foreign)
        target = field.remote_field.model
        admin = site._registry.get(target)
        response = owner.get(address, {**where, "term": home.mark})
        if admin is None or not admin.search_fields or admin.public_id != "id":
            assert response.status_code in (403, 404)
            continue
        offered = {row["id"] for row in response.json()["results"]}
        assert public_id(row_of(home, target)) in offered  # the positive control
        assert not offered & {public_id(row) for row in foreign.rows[target]}


@every_model
def test_actions_with_foreign_ids_change_nothing(
    owner: Client, home: House, foreign: House, model: type[models.Model], rf: Any
) -> None:
    """Every action, with a foreign id, a random one and a word for an id, also with "select all"
    off the page.
    """
    before = snapshot(foreign.organization)
    request = rf.get("/")
    request.authority = make.authority_of(home.owner)
    names = ["delete_selected", "nonsense", *site._registry[model].get_actions(request)]
    row = row_of(foreign, model)
    for name in names:
        for across in ("0", "1"):
            response = owner.post(
                base(home, model),
                {
                    "action": name,
                    "select_across": across,
                    "index": "0",
                    "post": "yes",
                    helpers.ACTION_CHECKBOX_NAME: [public_id(row), str(row.pk), "nonsense"],
                },
                follow=True,
            )
            check_silent(response, foreign)
    assert snapshot(foreign.organization) == before


@every_model
def test_filters_name_own_rows_only(
    owner: Client, home: House, foreign: House, model: type[models.Model]
) -> None:
    """A filter by a foreign id is empty, and a lookup that no filter writes is refused."""
    for item in site._registry[model].list_filter:
        if not isinstance(item, str) or not model._meta.get_field(item).is_relation:
            continue
        target = model._meta.get_field(item).remote_field.model
        query = {f"{item}__id__exact": public_id(row_of(foreign, target))}
        check_silent(owner.get(base(home, model), query), foreign)
    for field in model._meta.concrete_fields:
        if model is Organization:
            break
        guess = owner.get(base(home, model), {f"{field.name}__startswith": "c"})
        assert guess.status_code == 400


def test_K79_a_list_costs_the_same_for_ten_rows_and_a_hundred(owner: Client, home: House) -> None:
    """Equal query counts for every list, at most twenty."""
    furnish(home, times=9)
    for model in MODELS:
        owner.get(base(home, model))  # warms what is cached per process
    few = {model._meta.label: _count(owner, base(home, model)) for model in MODELS}
    furnish(home, times=90)
    many = {model._meta.label: _count(owner, base(home, model)) for model in MODELS}
    assert many == few
    assert {label: count for label, count in many.items() if count > 20} == {}


def _count(client: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as queries:
        client.get(address)
    return len(queries)


@every_model
@pytest.mark.parametrize("role", [Role.AUDITOR, Role.MEMBER])
def test_roles_below_admin(
    client: Client, home: House, model: type[models.Model], role: Role
) -> None:
    """An auditor reads the read-only pages and changes nothing; for a member there is no admin."""
    member = make.make_member(home.organization, role=role)
    client.force_login(member.user)
    before = snapshot(home.organization)
    address, row = base(home, model), row_of(home, model)
    readable = role == Role.AUDITOR and site._registry[model].auditors_read
    expected = 200 if readable else (403 if role == Role.AUDITOR else 404)
    if model is not Organization:
        assert client.get(address).status_code == expected
    assert client.get(f"{address}{public_id(row)}/change/").status_code == expected
    assert client.post(f"{address}add/", {"name": "x"}).status_code in (403, 404)
    assert client.post(f"{address}{public_id(row)}/change/", {"name": "x"}).status_code in (
        403,
        404,
    )
    assert client.post(f"{address}{public_id(row)}/delete/", {"post": "yes"}).status_code in (
        403,
        404,
    )
    assert snapshot(home.organization) == before


def test_site_wide_pages(owner: Client, home: House, foreign: House) -> None:
    """Front page, app pages, the theme's search, the shortcut to any object, passwords: own things
    or nothing.
    """
    front = f"/o/{home.organization.slug}/admin/"
    assert owner.get(front).status_code == 200
    for path in (
        "",
        "accounts/",
        "agents/",
        "search/?s=cnryforeign&extended=1",
        "r/1/1/",
        "password_change/",
        "jsi18n/",
        "nowhere/",
        "login/",
    ):
        check_silent(owner.get(front + path), foreign)
    assert owner.get(f"{front}search/?s=source").status_code == 404
    assert owner.get(f"{front}r/1/1/").status_code == 404
    assert owner.get(f"/o/{foreign.organization.slug}/admin/").status_code == 404
    membership = Membership.objects.get(user=home.owner.user)
    assert membership.organization_id == home.organization.pk


def test_every_registered_admin_stands_on_the_scoped_base() -> None:
    """No model reaches the admin on Django's own base, and no table of Django's or guardian's is
    registered.
    """
    from kaizen.kernel.admin import OrganizationAdmin

    assert [m for m, a in site._registry.items() if not isinstance(a, OrganizationAdmin)] == []
    assert {model._meta.app_label for model in MODELS} == {
        "accounts",
        "agents",
        "audit",
        "conversations",
        "retrieval",
        "tasks",
    }
    assert "accounts.user" not in IDS
