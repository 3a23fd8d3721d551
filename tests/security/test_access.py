"""Who may ask who can see what, over HTTP and in the admin: every kind of question, as each role,
with foreign ids, and that an answer shows no content.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from django.test import Client

from accounts.models import Membership, Role, Team
from accounts.permissions import Verb
from audit.models import AuditEvent
from retrieval.access.serializers import KINDS
from retrieval.models import Document, Source
from tests import factories as make
from tests.security.admin_world import House, build_house, snapshot

pytestmark = pytest.mark.django_db


@pytest.fixture
def home() -> House:
    return build_house("home")


@pytest.fixture
def foreign() -> House:
    return build_house("foreign")


def sign_in(client: Client, house: House, role: Role) -> Client:
    client.force_login(make.make_member(house.organization, role=role).user)
    return client


def row(house: House, model: type) -> Any:
    return house.rows[model][-1]


def kinds(house: House) -> dict[str, dict[str, Any]]:
    """One change of every kind, with ids of `house`."""
    member, team = row(house, Membership), row(house, Team)
    source, document = row(house, Source), row(house, Document)
    return {
        "grant": {
            "act": "remove",
            "principal": "team",
            "principal_id": str(team.uuid),
            "verb": "use",
            "type": "source",
            "object": str(source.pk),
        },
        "team_member": {"act": "remove", "team": str(team.uuid), "member": str(member.pk)},
        "team_parent": {"team": str(team.uuid), "parent": None},
        "source_project": {"source": str(source.pk), "project": None},
        "acl_state": {"document": str(document.pk), "state": "unknown"},
        "member_state": {"member": str(member.pk), "state": "suspended"},
    }


def ask(client: Client, slug: str, body: dict[str, Any]) -> Any:
    return client.post(
        f"/o/{slug}/api/v1/access/what-if/", json.dumps(body), content_type="application/json"
    )


def explain(client: Client, slug: str, **query: Any) -> Any:
    return client.get(f"/o/{slug}/api/v1/access/explain/", query)


def test_an_admin_is_told_the_way(client: Client, home: House) -> None:
    member, source, document = (row(home, model) for model in (Membership, Source, Document))
    answer = explain(
        sign_in(client, home, Role.ADMIN), "home", member=member.pk, document=document.pk
    )
    assert answer.status_code == 200
    found = answer.json()
    assert found["visible"] is True
    assert found["missing"] is None
    assert {"type": "document", "id": str(document.pk), "name": document.title} == found["document"]
    direct = found["paths"][0]
    assert (direct["principal"], direct["verb"], direct["origin"]) == ("person", "view", "manual")
    assert [path["things"][0]["type"] for path in found["paths"]] == [
        *("document", "document", "source", "source", "project", "project")
    ]
    assert {"type": "source", "id": str(source.pk), "name": source.name} in found["paths"][2][
        "things"
    ]
    assert "cache-control" in {name.lower() for name in answer.headers}


def test_what_is_missing_is_told(client: Client, home: House) -> None:
    stranger = make.make_member(home.organization)
    document = row(home, Document)
    answer = explain(
        sign_in(client, home, Role.OWNER), "home", member=stranger.pk, document=document.pk
    )
    assert answer.json()["missing"] == {
        "link": "no_grant",
        "sentence": f"No grant on the document, its source or its project is for "
        f"{stranger.user.email}.",
        "nearest": None,
    }


def test_as_in_a_run_that_may_use_no_other_source(client: Client, home: House) -> None:
    member, document = row(home, Membership), row(home, Document)
    other = make.make_source(home.organization)
    answer = explain(
        sign_in(client, home, Role.OWNER),
        "home",
        member=member.pk,
        document=document.pk,
        only_source=other.pk,
    )
    assert answer.json()["missing"]["link"] == "outside_the_run"


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_change_is_answered_and_changes_nothing(
    client: Client, home: House, name: str
) -> None:
    sign_in(client, home, Role.OWNER)
    body = kinds(home)[name]
    before = snapshot(home.organization)
    answer = ask(client, "home", {"change": name, **body})
    assert answer.status_code == 200, answer.content
    assert set(answer.json()) == {"reached", "compared", "gained", "lost", "people"}
    if name in ("acl_state", "member_state"):
        lost = [person["email"] for person in answer.json()["people"] if person["lost"] == 1]
        assert lost == [row(home, Membership).user.email]
    after = snapshot(home.organization)
    assert {table for table in before if before[table] != after[table]} == {
        "audit.AuditEvent",
        "audit.AuditPending",
    }


@pytest.mark.parametrize(
    ("role", "explained", "thought"),
    [
        (Role.OWNER, 200, 200),
        (Role.ADMIN, 200, 200),
        (Role.AUDITOR, 200, 403),
        (Role.MEMBER, 403, 403),
    ],
)
def test_which_role_may_ask_what(
    client: Client, home: House, role: Role, explained: int, thought: int
) -> None:
    sign_in(client, home, role)
    ids = {"member": row(home, Membership).pk, "document": row(home, Document).pk}
    assert explain(client, "home", **ids).status_code == explained
    for name, body in kinds(home).items():
        assert ask(client, "home", {"change": name, **body}).status_code == thought


def test_a_member_is_answered_alike_for_ids_that_are_there_and_that_are_not(
    client: Client, home: House
) -> None:
    sign_in(client, home, Role.MEMBER)
    real = {"member": row(home, Membership).pk, "document": row(home, Document).pk}
    made_up = {"member": uuid.uuid4(), "document": uuid.uuid4()}
    answers = {explain(client, "home", **ids).content for ids in (real, made_up)}
    assert len(answers) == 1
    bodies = [
        {"change": "acl_state", "state": "unknown", "document": str(ids["document"])}
        for ids in (real, made_up)
    ]
    assert len({ask(client, "home", body).content for body in bodies}) == 1


def test_foreign_ids_are_unknown_ids(client: Client, home: House, foreign: House) -> None:
    sign_in(client, home, Role.OWNER)
    before = snapshot(foreign.organization)
    own = {"member": row(home, Membership).pk, "document": row(home, Document).pk}
    for name, model in (("member", Membership), ("document", Document)):
        answers = set()
        for identity in (row(foreign, model).pk, uuid.uuid4()):
            answer = explain(client, "home", **{**own, name: identity})
            assert answer.status_code == 404
            answers.add(answer.content)
        assert len(answers) == 1
    for name, body in kinds(foreign).items():
        for key, value in body.items():
            if not _is_id(value):
                continue
            bodies = set()
            for identity in (value, str(uuid.uuid4())):
                mixed = {"change": name, **kinds(home)[name], key: identity}
                answer = ask(client, "home", mixed)
                assert answer.status_code in (400, 404), (name, key)
                bodies.add(answer.content)
            assert len(bodies) == 1, (name, key)
    assert snapshot(foreign.organization) == before


def _is_id(value: Any) -> bool:
    try:
        uuid.UUID(value)
    except (TypeError, ValueError):
        return False
    return True


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"change": "nothing"},
        {"change": "grant"},
        {"change": "acl_state", "document": str(uuid.uuid4()), "state": "suspended"},
        {"change": "member_state", "member": "7", "state": "active"},
        [],
        "text",
    ],
)
def test_what_is_no_change_is_refused(client: Client, home: House, body: Any) -> None:
    answer = ask(sign_in(client, home, Role.OWNER), "home", body)
    assert (answer.status_code, answer.json()["status"]) == (400, 400)


# --- the page


def page(client: Client, query: dict[str, Any] | None = None, slug: str = "home") -> Any:
    return client.get(f"/o/{slug}/admin/access/", query or {})


def test_the_page_explains_in_words(client: Client, home: House) -> None:
    sign_in(client, home, Role.ADMIN)
    member, document = row(home, Membership), row(home, Document)
    answer = page(client, {"member": member.pk, "document": document.pk, "verb": "view"})
    text = answer.content.decode()
    assert answer.status_code == 200
    assert f"{member.user.name} was granted this in person." in text
    assert "The grant is “view” on the document itself" in text
    assert [canary for canary in home.content if canary in text] == []
    assert AuditEvent.objects.filter(action="retrieval.access_explained").count() == 1


def test_the_page_stands_in_the_sidebar_of_who_may_ask(client: Client, home: House) -> None:
    for role, status in ((Role.OWNER, 200), (Role.AUDITOR, 200), (Role.MEMBER, 404)):
        sign_in(client, home, role)
        answer = page(client)
        assert answer.status_code == status
        assert ('href="/o/home/admin/access/"' in answer.content.decode()) == (status == 200)


def test_an_auditor_asks_by_email_and_id_and_sees_no_change_form(
    client: Client, home: House
) -> None:
    sign_in(client, home, Role.AUDITOR)
    member, document = row(home, Membership), row(home, Document)
    query = {"member": member.user.email, "document": document.pk, "verb": "view"}
    text = page(client, query).content.decode()
    assert f"{member.user.name} was granted this in person." in text
    assert document.title not in text
    assert row(home, Source).name not in text
    assert 'method="post" action="?change' not in text
    answer = client.post("/o/home/admin/access/?change=acl-state", {"document": document.pk})
    assert "impact" not in answer.content.decode()
    assert not AuditEvent.objects.filter(action="retrieval.what_if_asked").exists()


def test_the_page_never_offers_or_takes_foreign_rows(
    client: Client, home: House, foreign: House
) -> None:
    sign_in(client, home, Role.OWNER)
    theirs, document = row(foreign, Membership), row(foreign, Document)
    asked = page(client, {"member": theirs.pk, "document": document.pk, "verb": "view"})
    texts = [asked.content.decode()]
    for kind, form in _forms(foreign).items():
        texts.append(page(client, {"change": kind}).content.decode())
        sent = client.post(f"/o/home/admin/access/?change={kind}", form)
        texts.append(sent.content.decode())
        assert 'id="impact"' not in texts[-1]
    typed = theirs.user.email  # comes back in the box where the caller wrote it
    for text in texts:
        found = [c for c in (*foreign.shown, *foreign.content) if c in text]
        assert [canary for canary in found if canary not in typed] == []
    assert AuditEvent.objects.filter(action__startswith="retrieval.what").count() == 0


def test_each_form_of_the_page_shows_the_impact(client: Client, home: House) -> None:
    sign_in(client, home, Role.OWNER)
    before = snapshot(home.organization)
    for kind, form in _forms(home).items():
        answer = client.post(f"/o/home/admin/access/?change={kind}", form)
        assert answer.status_code == 200
        assert 'id="impact"' in answer.content.decode(), (kind, answer.content.decode()[-3000:])
    after = snapshot(home.organization)
    assert {table for table in before if before[table] != after[table]} == {
        "audit.AuditEvent",
        "audit.AuditPending",
    }


def test_the_impact_names_who_loses_what(client: Client, home: House) -> None:
    sign_in(client, home, Role.OWNER)
    document, member = row(home, Document), row(home, Membership)
    answer = client.post(
        "/o/home/admin/access/?change=acl-state", {"document": document.pk, "state": "unknown"}
    )
    text = answer.content.decode()
    assert "1 person. Documents gained: 0, lost: 1." in text
    assert f"− {document.title}" in text
    assert member.user.email in text


def test_a_refusal_of_the_service_is_told_on_the_page(client: Client, home: House) -> None:
    sign_in(client, home, Role.ADMIN)
    answer = client.post(
        "/o/home/admin/access/?change=member-state",
        {"member": home.owner.pk, "state": "suspended"},
    )
    assert answer.status_code == 200
    assert "Only an owner may do this to an owner." in answer.content.decode()


def _forms(house: House) -> dict[str, dict[str, Any]]:
    """What each form of the page sends, with rows of `house`."""
    member, team = row(house, Membership), row(house, Team)
    source, document = row(house, Source), row(house, Document)
    return {
        "grant": {
            "act": "remove",
            "who": member.user.email,
            "verb": Verb.VIEW,
            "source": source.pk,
        },
        "team-member": {"member": member.pk, "act": "remove", "team": team.uuid},
        "team-parent": {"team": team.uuid, "parent": ""},
        "source-project": {"source": source.pk, "project": ""},
        "acl-state": {"document": document.pk, "state": "restricted"},
        "member-state": {"member": member.pk, "state": "suspended"},
    }


def test_without_an_organisation_there_is_no_page(client: Client, home: House) -> None:
    make.make_organization("elsewhere")
    sign_in(client, home, Role.OWNER)
    assert page(client, slug="elsewhere").status_code == 404
