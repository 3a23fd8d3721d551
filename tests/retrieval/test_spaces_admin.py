"""The admin of embedding and rerank models: forms, keys, checks, and a change as a whole."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from audit.models import AuditEvent
from retrieval.models import EmbeddingModel, EmbeddingSpace, RerankModel
from retrieval.spaces.build import Built, build_space
from tests import factories
from tests.providers.vectors import Failure, VectorServer, serve_vectors
from tests.retrieval.conftest import Library

pytestmark = pytest.mark.django_db
SECRET = "sk-canary-0123456789"


@pytest.fixture
def server(settings: Any) -> Iterator[VectorServer]:
    """A provider that this installation may reach."""
    with serve_vectors() as running:
        settings.EGRESS_ALLOW = (running.allowed,)
        yield running


@pytest.fixture
def page(client: Client, library: Library) -> Client:
    """Signed in as the library's owner."""
    client.force_login(library.owner.user)
    return client


def address(library: Library, model: type[Any], end: str = "") -> str:
    name = model._meta.model_name
    return f"/o/{library.organization.slug}/admin/retrieval/{name}/{end}"


def text_of(response: Any) -> str:
    assert response.status_code == 200
    return " ".join(html.unescape(response.content.decode()).split())


def fields(server: VectorServer, **more: str) -> dict[str, str]:
    return {
        "label": "Remote",
        "kind": "compatible",
        "name": "embed-3",
        "base_url": f"{server.url}/",
        "dimension": "384",
        "sizing": "asked",
        "batch": "64",
        "price": "20000",
        "new_api_key": SECRET,
        **more,
    }


def add(page: Client, library: Library, server: VectorServer, **more: str) -> EmbeddingModel:
    """Fill in the form."""
    response = page.post(address(library, EmbeddingModel, "add/"), fields(server, **more))
    assert response.status_code == 302, text_of(response)
    return EmbeddingModel.objects.get(label=more.get("label", "Remote"))


def act(page: Client, library: Library, row: Any, action: str, **more: str) -> str:
    """Choose an action; the page that follows."""
    data = {"action": action, "_selected_action": str(row.pk), "index": "0", **more}
    return text_of(page.post(address(library, type(row)), data, follow=True))


def actions(library: Library) -> list[str]:
    rows = AuditEvent.objects.filter(organization_id=library.organization.pk).order_by("at", "id")
    return [row.action for row in rows if not row.action.startswith("retrieval.document")]


def test_a_key_is_written_and_never_read_back(
    page: Client, library: Library, server: VectorServer
) -> None:
    model = add(page, library, server, query_prefix="query: ")
    assert (model.api_key, model.base_url, model.query_prefix) == (SECRET, server.url, "query: ")
    change = address(library, EmbeddingModel, f"{model.pk}/change/")
    for where in (change, address(library, EmbeddingModel), change.replace("change", "history")):
        assert SECRET not in page.get(where).content.decode()
    kept = fields(server, query_prefix="query: ", new_api_key="", label="Renamed")
    assert page.post(change, kept).status_code == 302
    model.refresh_from_db()
    assert (model.api_key, model.label, model.digest != "") == (SECRET, "Renamed", True)
    assert page.post(change, {**kept, "forget_api_key": "on"}).status_code == 302
    model.refresh_from_db()
    assert model.api_key == ""
    assert SECRET not in str(list(AuditEvent.objects.values()))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"dimension": "768"}, "vectors of 768 numbers, and this deployment's index holds 384"),
        ({"base_url": "ftp://example.org"}, "That address can't be fetched."),
        ({"base_url": ""}, "This kind of model needs it."),
        ({"name": ""}, "This kind of model needs it."),
        ({"new_api_key": "two words"}, "A key holds no spaces"),
        ({"batch": "0"}, "greater than or equal to 1"),
    ],
)
def test_what_can_not_be_used_is_refused_at_the_form(
    page: Client, library: Library, server: VectorServer, wrong: dict[str, str], said: str
) -> None:
    response = page.post(address(library, EmbeddingModel, "add/"), fields(server, **wrong))
    assert said in text_of(response)
    assert not EmbeddingModel.objects.exists()


def test_the_same_model_twice_is_an_error_on_the_form(
    page: Client, library: Library, server: VectorServer
) -> None:
    add(page, library, server)
    again = page.post(address(library, EmbeddingModel, "add/"), fields(server, label="Again"))
    assert "This model is there already" in text_of(again)
    built_in = {"kind": "local", "label": "Built in", "dimension": "384", "sizing": "asked"}
    built_in |= {"batch": "64", "price": "0", "name": "whatever"}
    assert page.post(address(library, EmbeddingModel, "add/"), built_in).status_code == 302
    model = EmbeddingModel.objects.get(kind="local")
    assert (model.name, model.base_url) == ("all-MiniLM-L6-v2-int8", "")


def test_checking_says_what_came_back(page: Client, library: Library, server: VectorServer) -> None:
    model = add(page, library, server)
    assert "Remote: It answers with vectors of 384 numbers" in act(page, library, model, "try_out")
    server.size = 128
    server.takes_dimensions = False
    model = add(page, library, server, label="Small", sizing="own")
    assert "vectors of 128 numbers" in act(page, library, model, "try_out")
    server.failures.append(Failure(status=401))
    assert "refuses the key" in act(page, library, model, "try_out")


def test_a_change_shows_what_it_costs_then_begins_and_shows_how_far_it_is(
    page: Client, library: Library, server: VectorServer
) -> None:
    for at in range(3):
        library.add(f"# Page {at}\n\nThe page of thing{at}.", f"page{at}.md")
    model = add(page, library, server, price="5000000000")
    shown = act(page, library, model, "change_over")
    assert '<dt class="font-medium">Passages</dt><dd>3</dd>' in shown
    assert re.search(r"Price, about</dt><dd>0\.\d\d \$</dd>", shown)
    assert f"is sent to {server.url}" in shown
    assert EmbeddingSpace.objects.filter(state="building").count() == 0
    signed = re.search(r'name="shown" value="([^"]+)"', shown)
    assert signed is not None
    begun = act(page, library, model, "change_over", confirmed="yes", shown=signed[1])
    assert "It has begun." in begun
    space = EmbeddingSpace.objects.get(state="building")
    assert "0 of 3 (0 %)" in begun
    assert "Cancel the change" in begun
    assert space.estimate["passages"] == 3
    assert "is under way" in act(page, library, model, "change_over")
    assert build_space(space.pk, seconds=30) is Built.SWITCHED
    done = text_of(page.get(address(library, EmbeddingSpace, f"{space.pk}/change/")))
    assert "3 of 3 (100 %)" in done
    assert "Cancel the change" not in done.split("<section", 1)[1].split("</section>", 1)[0]
    assert actions(library)[-3:] == [
        "retrieval.embedding_model_estimated",
        "retrieval.embedding_change_started",
        "retrieval.embedding_switched",
    ]


def test_an_estimate_of_another_model_or_none_begins_nothing(
    page: Client, library: Library, server: VectorServer
) -> None:
    first = add(page, library, server)
    second = add(page, library, server, label="Second", name="embed-4")
    signed = re.search(r'name="shown" value="([^"]+)"', act(page, library, first, "change_over"))
    assert signed is not None
    for shown in (signed[1], "", "forged:x:y"):
        said = act(page, library, second, "change_over", confirmed="yes", shown=shown)
        assert "That estimate is too old." in said
    assert not EmbeddingSpace.objects.exists()


def test_a_provider_that_fails_is_said_before_anything_begins(
    page: Client, library: Library, server: VectorServer
) -> None:
    model = add(page, library, server)
    server.key = "another"
    assert "refuses the key" in act(page, library, model, "change_over")
    assert not EmbeddingSpace.objects.exists()


def test_cancelling_and_going_on_at_once(
    page: Client, library: Library, server: VectorServer
) -> None:
    library.add("# Page\n\nThe page of thing.", "page.md")
    model = add(page, library, server)
    signed = re.search(r'name="shown" value="([^"]+)"', act(page, library, model, "change_over"))
    assert signed is not None
    act(page, library, model, "change_over", confirmed="yes", shown=signed[1])
    space = EmbeddingSpace.objects.get(state="building")
    server.failures.append(Failure(status=429, headers={"retry-after": "900"}))
    assert build_space(space.pk, seconds=30) is Built.WAITING
    stuck = text_of(page.get(address(library, EmbeddingSpace, f"{space.pk}/change/")))
    assert "The provider is busy (status 429)." in stuck
    assert "It goes on" in act(page, library, space, "retry")
    space.refresh_from_db()
    assert space.retry_at is None
    assert "The index stays as it is." in act(page, library, space, "cancel")
    space.refresh_from_db()
    assert space.state == "retired"
    assert actions(library)[-1] == "retrieval.embedding_change_cancelled"


def test_what_the_index_is_made_with_can_not_change_under_it(
    page: Client, library: Library, server: VectorServer
) -> None:
    model = add(page, library, server)
    EmbeddingSpace.objects.create(
        organization=library.organization,
        model="embed-3",
        embedding_model=model,
        digest=model.digest,
        dimension=384,
    )
    change = address(library, EmbeddingModel, f"{model.pk}/change/")
    refused = page.post(change, fields(server, name="embed-4"))
    assert "Add another model and change over to it." in text_of(refused)
    allowed = fields(server, label="Renamed", price="7", new_api_key="sk-new")
    assert page.post(change, allowed).status_code == 302
    model.refresh_from_db()
    assert (model.name, model.price, model.api_key) == ("embed-3", 7, "sk-new")
    deletion = page.post(address(library, EmbeddingModel, f"{model.pk}/delete/"), {"post": "yes"})
    assert EmbeddingModel.objects.filter(pk=model.pk).exists(), deletion.status_code


def test_a_rerank_model_is_off_until_it_is_ticked_and_one_at_a_time(
    page: Client, library: Library, server: VectorServer
) -> None:
    form = {"label": "R", "wire": "documents", "name": "rerank-3", "base_url": server.url}
    form |= {"seconds": "2.5", "new_api_key": SECRET}
    where = address(library, RerankModel, "add/")
    assert page.post(where, form).status_code == 302
    model = RerankModel.objects.get()
    assert (model.enabled, model.api_key, model.seconds) == (False, SECRET, 2.5)
    assert "R: it answers, with " in act(page, library, model, "try_out")
    server.failures.append(Failure(status=500))
    assert "busy" in act(page, library, model, "try_out")
    assert page.post(where, {**form, "label": "S", "enabled": "on"}).status_code == 302
    third = page.post(where, {**form, "label": "T", "enabled": "on"})
    assert "Another one is used already" in text_of(third)
    missing = page.post(where, {**form, "label": "U", "name": ""})
    assert "This protocol needs it." in text_of(missing)
    assert [name for name in actions(library) if "rerank" in name] == [
        "retrieval.rerank_model_checked"
    ] * 2


def test_auditors_and_members_have_no_part_in_it(
    client: Client, library: Library, server: VectorServer
) -> None:
    member = factories.make_member(library.organization)
    client.force_login(member.user)
    for model in (EmbeddingModel, EmbeddingSpace, RerankModel):
        assert client.get(address(library, model)).status_code == 404
        assert client.post(address(library, model, "add/"), fields(server)).status_code == 404
    assert server.requests == []
