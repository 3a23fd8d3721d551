import pytest
from django.db import connection, utils


@pytest.mark.django_db
def test_x():
    from accounts.models import Organization

    o = Organization.objects.create(slug="a", name="A")
    assert o.key > 0
    from audit.record import record_system

    record_system(o.id, "retrieval.searched", subject=o, data={"a": 1})
    from audit.chain import seal_all, verify

    assert seal_all() == 1
    assert verify(o.id).fault is None
    from audit.models import AuditEvent

    with pytest.raises(utils.ProgrammingError):
        AuditEvent.objects.update(action="x")


def test_y(committed_db):
    from accounts.models import Organization

    o = Organization.objects.create(slug="a", name="A")
    with connection.cursor() as c:
        c.execute(
            "select current_user, count(*) from pg_proc where proname like 'retrieval_%%' group by 1"
        )
        print(c.fetchall())
