"""The chain: sealed in order, and every kind of tampering is named."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from uuid import UUID

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction

from audit import chain
from audit.chain import GENESIS, seal, seal_all, verify
from audit.jobs import seal as seal_job
from audit.models import AuditEvent, AuditLink, AuditPending, AuditPersonal
from audit.record import record_platform, record_system
from kaizen.embedded.environment import OWNER_ROLE
from kaizen.kernel.clock import now
from kaizen.kernel.models import uuid7
from tests import factories, servers


def make(count: int = 3, *, personal: bool = False) -> UUID:
    """An organisation of its own with so many events."""
    organization = factories.make_organization().id
    for number in range(count):
        record_system(organization, "conversations.run_finished", data={"number": number})
    return organization


def numbers(organization: UUID) -> list[int]:
    """The events' numbers in the order of their links."""
    links = AuditLink.objects.filter(organization_id=organization).order_by("seq")
    return [AuditEvent.objects.get(pk=link.event_id).data["number"] for link in links]


# --- sealing


@pytest.mark.django_db
def test_sealing_links_what_waits_and_hashes_each_after_the_last() -> None:
    organization = make(3)
    assert verify(organization).unsealed == 3
    assert seal(organization) == 3
    links = list(AuditLink.objects.filter(organization_id=organization).order_by("seq"))
    assert [link.seq for link in links] == [1, 2, 3]
    assert [link.previous for link in links] == [GENESIS, links[0].hash, links[1].hash]
    for link in links:
        event = AuditEvent.objects.get(pk=link.event_id)
        assert link.hash == chain.event_hash(event, seq=link.seq, previous=link.previous)
    assert AuditPending.objects.filter(organization_id=organization).count() == 0
    assert seal(organization) == 0
    verdict = verify(organization)
    assert (verdict.sealed, verdict.unsealed, verdict.fault) == (3, 0, None)
    assert verdict.head == links[-1].hash


@pytest.mark.django_db
def test_sealing_goes_on_where_it_ended() -> None:
    organization = make(2)
    seal(organization)
    record_system(organization, "conversations.run_finished", data={"number": 9})
    verdict = verify(organization)
    assert (verdict.sealed, verdict.unsealed, verdict.fault) == (2, 1, None)
    assert seal(organization) == 1
    assert sorted(numbers(organization)) == [0, 1, 9]
    assert verify(organization).fault is None


@pytest.mark.django_db
def test_each_organisation_and_the_platform_has_its_own_chain() -> None:
    one, two = make(2), make(1)
    record_platform("accounts.sign_in_failed")
    assert seal_all() == 4
    assert seal_all() == 0
    assert [verify(one).sealed, verify(two).sealed] == [2, 1]
    assert verify(one).head != verify(two).head


@pytest.mark.django_db
def test_batches_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "BATCH", 2)
    organization = make(5)
    assert [seal(organization) for _ in range(4)] == [2, 2, 1, 0]
    verdict = verify(organization)
    assert (verdict.sealed, verdict.fault) == (5, None)


@pytest.mark.django_db
def test_an_empty_chain_is_whole() -> None:
    verdict = verify(factories.make_organization().id)
    assert (verdict.sealed, verdict.unsealed, verdict.fault, verdict.head) == (0, 0, None, GENESIS)


def test_a_second_sealer_at_once_does_nothing(committed_db: str) -> None:
    organization = make(3)
    sealed: list[int] = []

    def work() -> None:
        sealed.append(seal(organization))
        connection.close()

    with transaction.atomic():
        assert seal(organization) == 3
        other = threading.Thread(target=work)
        other.start()
        other.join(10)
    assert sealed == [0]
    assert verify(organization).fault is None


def test_the_job_shouts_when_an_event_waits_for_over_a_minute(
    committed_db: str, caplog: pytest.LogCaptureFixture
) -> None:
    organization = make(1)
    with psycopg.connect(servers.database_url(committed_db)) as other:
        other.execute(  # Somebody holds the sealing lock and doesn't get on.
            "SELECT pg_advisory_xact_lock(hashtextextended('audit ' || %s, 0))",
            [str(organization)],
        )
        seal_job()
        assert caplog.text == ""
        AuditPending.objects.update(at=now() - timedelta(seconds=61))
        seal_job()
    assert "1 audit events have been unsealed for over a minute" in caplog.text
    caplog.clear()
    seal_job()
    assert (caplog.text, verify(organization).sealed) == ("", 1)


# --- tampering: as the owner, past the triggers


@pytest.mark.django_db
def test_a_fork_is_impossible() -> None:
    organization = make(2)
    seal(organization)
    first = AuditLink.objects.get(organization_id=organization, seq=1)
    with pytest.raises(IntegrityError, match="no_fork"), transaction.atomic():
        AuditLink.objects.create(
            organization_id=organization,
            seq=3,
            event_id=uuid7(),
            previous=first.previous,
            hash="x" * 64,
        )
    with pytest.raises(IntegrityError, match="audit_link_once"), transaction.atomic():
        AuditLink.objects.create(
            organization_id=organization,
            seq=2,
            event_id=uuid7(),
            previous="y" * 64,
            hash="x" * 64,
        )
    with pytest.raises(IntegrityError, match="event_id"), transaction.atomic():
        AuditLink.objects.create(
            organization_id=organization,
            seq=3,
            event_id=first.event_id,
            previous="y" * 64,
            hash="x" * 64,
        )


@pytest.fixture
def tamper(committed_db: str) -> Callable[[str], None]:
    """Run SQL as the tables' owner with the append-only triggers out of the way."""

    def run(statement: str) -> None:
        with psycopg.connect(servers.database_url(committed_db, role=OWNER_ROLE)) as owner:
            for table in ("audit_auditevent", "audit_auditlink"):
                owner.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")  # type: ignore[arg-type]
            owner.execute(statement)  # type: ignore[arg-type]
            for table in ("audit_auditevent", "audit_auditlink"):
                owner.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")  # type: ignore[arg-type]

    return run


SECOND = "(SELECT event_id FROM audit_auditlink WHERE seq = 2)"


@pytest.mark.parametrize(
    "change",
    [
        "data = '{\"number\":7}'",
        "data = '{\"number\": 1}'",
        "action = 'conversations.read'",
        "at = at + interval '1 microsecond'",
        "actor_id = gen_random_uuid()",
        "channel = 'key'",
        "run_id = gen_random_uuid()",
        "object_type = 'run'",
        "object_id = 'x'",
        "personal_digest = 'x'",
    ],
)
def test_a_changed_event_is_found(tamper: Callable[[str], None], change: str) -> None:
    organization = make(3)
    seal(organization)
    tamper(f"UPDATE audit_auditevent SET {change} WHERE id = {SECOND}")
    second = AuditLink.objects.get(seq=2)
    fault = verify(organization).fault
    if change == "data = '{\"number\": 1}'":
        assert fault is None  # The same value in another spelling is the same event.
    else:
        assert fault == f"event {second.event_id} of link 2 was changed"


def test_what_is_taken_out_or_moved_is_found(tamper: Callable[[str], None]) -> None:
    cases = {
        f"DELETE FROM audit_auditevent WHERE id = {SECOND}": "event {event} of link 2 is gone",
        "DELETE FROM audit_auditlink WHERE seq = 2": "link 2 is missing",
        "UPDATE audit_auditlink SET seq = 7 WHERE seq = 3": "link 3 is missing",
        "UPDATE audit_auditlink SET previous = 'x' WHERE seq = 2": ("link 2 doesn't follow link 1"),
        "UPDATE audit_auditlink SET hash = repeat('0', 64) WHERE seq = 2": (
            "event {event} of link 2 was changed"
        ),
        "DELETE FROM audit_auditlink WHERE seq = 3": "1 events stand outside the chain",
        "INSERT INTO audit_auditevent (id, organization_id, at, action, channel, object_type, "
        "object_id, data, personal_digest) SELECT gen_random_uuid(), organization_id, at, action, "
        f"channel, '', '', '{{}}', '' FROM audit_auditevent WHERE id = {SECOND}": (
            "1 events stand outside the chain"
        ),
    }
    for statement, fault in cases.items():
        organization = make(3)
        seal(organization)
        event = AuditLink.objects.get(organization_id=organization, seq=2).event_id
        mine = statement.replace(
            SECOND,
            "(SELECT event_id FROM audit_auditlink WHERE seq = 2 "
            f"AND organization_id = '{organization}')",
        )
        if "audit_auditlink SET" in mine or "FROM audit_auditlink WHERE seq" in mine[:50]:
            mine += f" AND organization_id = '{organization}'"
        tamper(mine)
        assert verify(organization).fault == fault.format(event=event), statement


def test_the_owners_triggers_stand_again_after_all_that(
    tamper: Callable[[str], None], committed_db: str
) -> None:
    make(1)
    tamper("SELECT 1")
    with (
        psycopg.connect(servers.database_url(committed_db, role=OWNER_ROLE)) as owner,
        pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"),
    ):
        owner.execute("UPDATE audit_auditevent SET channel = 'x'")


# --- personal values


@pytest.mark.django_db
def test_erased_personal_values_leave_the_chain_whole_and_changed_ones_do_not() -> None:
    organization = factories.make_organization().id
    event = record_platform("accounts.sign_in_failed", personal={"email": "a@example.org"})
    platform = AuditEvent.objects.get(pk=event).organization_id
    seal(platform)
    assert verify(platform).fault is None
    AuditPersonal.objects.update(data={"email": "b@example.org"})
    assert verify(platform).fault == f"the personal values of event {event} were changed"
    AuditPersonal.objects.all().delete()
    assert verify(platform).fault is None
    assert verify(organization).fault is None


# --- the command


@pytest.mark.django_db
def test_the_command_names_each_chain() -> None:
    one, two = make(2), make(1)
    seal(one)
    out = StringIO()
    call_command("audit_verify", stdout=out)
    lines = dict(line.split("  ", 1) for line in out.getvalue().splitlines())
    assert lines[str(one)] == f"valid  2 sealed, 0 not yet  head {verify(one).head}"
    assert lines[str(two)] == f"valid  0 sealed, 1 not yet  head {GENESIS}"
    out = StringIO()
    call_command("audit_verify", organization=two, stdout=out)
    assert len(out.getvalue().splitlines()) == 1


def test_the_command_fails_on_a_broken_chain(tamper: Callable[[str], None]) -> None:
    organization = make(2)
    seal(organization)
    tamper("DELETE FROM audit_auditlink WHERE seq = 1")
    out = StringIO()
    with pytest.raises(CommandError, match="1 of 1 chains are broken"):
        call_command("audit_verify", stdout=out)
    assert f"{organization}  BROKEN: link 1 is missing  1 sealed" in out.getvalue()
