"""The scope of a request: one transaction that knows its organisation, and nothing after it."""

from __future__ import annotations

import pytest
from django.db import connection, transaction

from accounts.models import Organization
from kaizen.kernel.tenancy import organization_scope, scope
from tests import factories


def organization_now() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('kaizen.organization', true)")
        return str(cursor.fetchone()[0] or "")


def test_the_organisation_is_set_inside_and_gone_after(committed_db: str) -> None:
    member = factories.make_member(factories.make_organization())
    authority = factories.authority_of(member)
    assert organization_now() == ""
    with scope(authority):
        assert connection.in_atomic_block
        assert organization_now() == str(member.organization_id)
    assert not connection.in_atomic_block
    assert organization_now() == ""


def test_an_error_undoes_all_that_happened_inside(committed_db: str) -> None:
    organization = factories.make_organization()

    def work() -> None:
        with organization_scope(organization.pk):
            Organization.objects.update(name="Changed")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    organization.refresh_from_db()
    assert organization.name != "Changed"
    assert organization_now() == ""


def test_one_after_the_other_never_mixes(committed_db: str) -> None:
    for organization in [factories.make_organization() for _ in range(3)]:
        with organization_scope(organization.pk):
            assert organization_now() == str(organization.pk)


def test_a_scope_inside_the_same_one_is_a_savepoint(committed_db: str) -> None:
    organization = factories.make_organization()
    with organization_scope(organization.pk):
        with organization_scope(organization.pk):
            Organization.objects.update(name="Inner")
            transaction.set_rollback(True)
        organization.refresh_from_db()
        assert organization.name != "Inner"
        assert organization_now() == str(organization.pk)
