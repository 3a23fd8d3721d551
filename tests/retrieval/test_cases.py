"""Failures seen elsewhere, each named after its case, asked over the API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from accounts.models import Membership
from accounts.permissions import Verb, delete_grant
from tests import factories
from tests.retrieval.conftest import Library
from tests.retrieval.worlds import index_document

pytestmark = pytest.mark.django_db


def ask(member: Membership, path: str, **query: object) -> tuple[int, Any]:
    client = Client()
    client.force_login(member.user)
    answer = client.get(f"/o/{member.organization.slug}/api/v1/{path}", query)
    return answer.status_code, answer.json() if answer.content else None


def test_K01_a_source_that_may_not_be_read_is_like_one_that_does_not_exist(
    library: Library,
) -> None:
    payroll = factories.make_source(library.organization, name="Payroll")
    index_document(payroll, title="Bands", of="salary band 7 on page")
    nothing = "01a22f00-0000-7000-8000-000000000000"
    for more in ({}, {"facets": "true"}, {"mode": "lexical"}, {"mode": "semantic"}):
        existing, missing = (
            ask(library.member, "search/", q="salary band", source=source, **more)
            for source in (payroll.pk, nothing)
        )
        assert existing == missing
        assert existing[0] == 200
        assert existing[1]["results"] == []
        assert not existing[1]["visible"]


def test_K01_another_organisations_source_is_like_one_that_does_not_exist(
    library: Library,
) -> None:
    foreign = factories.make_source(factories.make_organization(), name="Payroll")
    index_document(foreign, title="Bands", of="salary band 7 on page")
    status, body = ask(library.owner, "search/", q="salary band", source=foreign.pk)
    assert (status, body["results"]) == (200, [])
    assert "Payroll" not in json.dumps(body)


def test_K11_another_tenants_file_is_not_there_by_any_way(library: Library) -> None:
    document = library.add("# Plan\n\nA plan of ours.", "plan.md")
    stranger = factories.make_member(factories.make_organization())
    unused = "01a22f00-0000-7000-8000-000000000000"
    for path in ("", "content/", "passages/"):
        for member in (stranger, library.member):
            theirs, none = (
                ask(member, f"documents/{identity}/{path}") for identity in (document.pk, unused)
            )
            assert theirs[0] == none[0] == 404
            assert {**theirs[1], "instance": ""} == {**none[1], "instance": ""}
    for member in (stranger, library.member):
        assert ask(member, f"sources/{library.source.pk}/documents/")[0] == 404
    assert ask(library.member, "sources/")[1]["results"] == []


def test_K11_a_file_is_gone_for_whoever_lost_the_grant(library: Library) -> None:
    document = library.add("# Plan\n\nA plan of ours.", "plan.md")
    factories.grant(library.member, Verb.VIEW, document)
    assert ask(library.member, f"documents/{document.pk}/")[0] == 200
    client = Client()
    client.force_login(library.member.user)
    address = f"/o/{library.organization.slug}/api/v1/documents/{document.pk}/content/"
    assert client.get(address).status_code == 200
    delete_grant(library.member.user, Verb.VIEW, document)
    assert client.get(address).status_code == 404
