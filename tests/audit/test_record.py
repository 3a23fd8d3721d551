"""Audit events: written with the act or not at all, never changed."""

from __future__ import annotations

import pytest
from django.db import ProgrammingError, transaction

from audit.events import EVENTS
from audit.models import PLATFORM, AuditEvent, AuditLink, AuditPending, AuditPersonal
from audit.record import personal_digest, record, record_platform, record_system
from tests import factories
from tests.conversations.worlds import make_world

pytestmark = pytest.mark.django_db


def test_an_event_says_who_what_and_on_what() -> None:
    world = make_world()
    before = AuditEvent.objects.count()
    identity = record(
        world.authority, "conversations.read", subject=world.agent, data={"z": 1, "a": None}
    )
    event = AuditEvent.objects.get(pk=identity)
    assert (event.organization_id, event.actor_id) == (
        world.organization.id,
        world.member.user.public_id,
    )
    assert (event.action, event.channel, event.run_id) == ("conversations.read", "session", None)
    assert (event.object_type, event.object_id) == ("agent", str(world.agent.pk))
    assert (event.data, list(event.data), event.personal_digest) == (
        {"z": 1, "a": None},
        ["z", "a"],
        "",
    )
    assert AuditPending.objects.get(event_id=identity).at == event.at
    assert AuditEvent.objects.count() == before + 1


def test_personal_values_stand_beside_and_only_their_digest_in_the_event() -> None:
    world = make_world()
    identity = record(world.authority, "retrieval.searched", personal={"query": "Ä\ud83d 4471"})
    event = AuditEvent.objects.get(pk=identity)
    personal = AuditPersonal.objects.get(event_id=identity)
    assert personal.data == {"query": "Ä\ud83d 4471"}
    assert event.personal_digest == personal_digest(personal.salt, personal.data)
    assert len(personal.salt) == 32
    assert "4471" not in str(AuditEvent.objects.filter(pk=identity).values().get())


def test_the_same_personal_value_has_another_digest_each_time() -> None:
    world = make_world()
    events = [
        record(world.authority, "retrieval.searched", personal={"query": "leave"}) for _ in range(2)
    ]
    digests = AuditEvent.objects.filter(pk__in=events).values_list("personal_digest", flat=True)
    assert len(set(digests)) == 2


def test_an_event_of_an_act_that_is_rolled_back_is_gone() -> None:
    world = make_world()
    before = AuditEvent.objects.count(), AuditPending.objects.count()
    with transaction.atomic():
        record(world.authority, "retrieval.searched", personal={"query": "x"})
        transaction.set_rollback(True)
    assert (AuditEvent.objects.count(), AuditPending.objects.count()) == before
    assert AuditPersonal.objects.count() == 0


def test_an_event_that_cannot_be_written_undoes_the_act() -> None:
    world = make_world()
    name = world.organization.name

    @transaction.atomic
    def act() -> None:
        type(world.organization).objects.update(name="Changed")
        record(world.authority, "retrieval.searched", data={"score": float("nan")})

    with pytest.raises(ValueError, match="not JSON compliant"):
        act()
    world.organization.refresh_from_db()
    assert world.organization.name == name


def test_an_action_that_is_not_catalogued_is_refused() -> None:
    world = make_world()
    with pytest.raises(KeyError):
        record(world.authority, "conversations.gossiped")
    with pytest.raises(KeyError):
        record_system(world.organization.id, "")


def test_the_platform_acts_under_its_own_names() -> None:
    organization = factories.make_organization()
    system = AuditEvent.objects.get(pk=record_system(organization.id, "conversations.run_finished"))
    assert (system.channel, system.actor_id) == ("system", None)
    failed = AuditEvent.objects.get(
        pk=record_platform("accounts.sign_in_failed", personal={"email": "a@example.org"})
    )
    assert (failed.organization_id, failed.channel) == (PLATFORM, "platform")


def test_events_and_links_refuse_change() -> None:
    world = make_world()
    record(world.authority, "conversations.read")
    for model in (AuditEvent, AuditLink):
        with pytest.raises(ProgrammingError, match="permission denied"), transaction.atomic():
            model.objects.update(organization_id=PLATFORM)
        with pytest.raises(ProgrammingError, match="permission denied"), transaction.atomic():
            model.objects.all()._raw_delete("default")


def test_names_are_dotted_and_explained() -> None:
    for name, meaning in EVENTS.items():
        app, dot, act = name.partition(".")
        assert dot
        assert app.isidentifier()
        assert act.isidentifier()
        assert len(name) <= 64
        assert meaning.endswith(".")
