"""A document by its web address, by form and API: what is stored, what is refused, what is told."""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from accounts.models import Membership
from accounts.permissions import Verb
from audit.models import AuditEvent
from kaizen.kernel.egress import Network, Refused
from kaizen.kernel.errors import Missing
from retrieval.ingest.store import Ended, ingest_document
from retrieval.models import Document
from retrieval.web.documents import add_by_url
from tests import factories
from tests.retrieval.conftest import Library, make_library
from tests.security.walk_world import make_key
from tests.spellings import INSIDE
from tests.websites import Listener, Served, Site, listener, website

REFUSAL = Refused.default_message
PAGE = "<title>The tide table</title><h1>Tides</h1><p>High water is at noon.</p>"


@pytest.fixture
def site(settings: Any) -> Iterator[Site]:
    with website() as running:
        settings.EGRESS_ALLOW = (running.allowed,)
        yield running


class Doors:
    """The two ways in, for one member."""

    def __init__(self, library: Library, membership: Membership) -> None:
        self.base = f"/o/{library.organization.slug}/"
        self.source = library.source
        self.browser = Client()
        self.browser.force_login(membership.user)
        _, secret = make_key(membership)
        self.headers = {"Authorization": f"Bearer {secret}"}

    def form(self, url: str) -> Any:
        return self.browser.post(f"{self.base}sources/{self.source.pk}/url/", {"url": url})

    def api(self, url: str, **more: str) -> Any:
        return Client().post(
            f"{self.base}api/v1/sources/{self.source.pk}/documents/url/",
            json.dumps({"url": url, **more}),
            content_type="application/json",
            headers=self.headers,
        )

    def told_by_form(self, url: str) -> tuple[int, str]:
        """Status and the sentence beside the field."""
        answer = self.form(url)
        shown = re.search(r'id="url-wrong">.*?</svg>(.*?)</p>', answer.content.decode(), re.S)
        assert shown is not None, answer.content.decode()[:500]
        return answer.status_code, html.unescape(shown[1])

    def told_by_api(self, url: str) -> tuple[int, str]:
        answer = self.api(url)
        return answer.status_code, answer.json()["detail"]


@pytest.fixture
def doors(library: Library) -> Doors:
    return Doors(library, library.owner)


# --- what is stored


def test_a_page_is_added_by_the_form_and_has_its_own_title(
    library: Library, doors: Doors, site: Site
) -> None:
    site.serve("/tides/?utm_source=mail", PAGE)
    site.serve("/tides/", PAGE)
    answer = doors.form(f"{site.origin}/tides/?utm_source=mail#today")
    assert (answer.status_code, answer["Location"]) == (
        302,
        f"{doors.base}sources/{library.source.pk}/",
    )
    document = Document.objects.get(source=library.source)
    assert (document.url, document.external_id) == (f"{site.origin}/tides/",) * 2
    assert (document.file_name, document.path) == ("tides.html", "tides")
    assert document.uploaded_by == library.owner.user
    assert ingest_document(document.pk).ended is Ended.INDEXED
    document.refresh_from_db()
    assert (document.title, document.media_type) == ("The tide table", "text/html")
    assert AuditEvent.objects.filter(action="retrieval.document_added").count() == 1


def test_a_file_is_added_by_the_api_with_a_title(
    library: Library, doors: Doors, site: Site
) -> None:
    site.serve("/notes.md", b"# Notes\n\nText.", media_type="text/markdown")
    answer = doors.api(f"{site.origin}/notes.md", title="My notes")
    assert answer.status_code == 201, answer.content
    body = answer.json()
    assert (body["title"], body["file_name"], body["state"]) == ("My notes", "notes.md", "waiting")
    assert body["external_id"] == f"{site.origin}/notes.md"
    assert Document.objects.get(pk=body["id"]).url == f"{site.origin}/notes.md"


def test_the_same_address_again_updates_the_same_document(
    library: Library, doors: Doors, site: Site
) -> None:
    site.serve("/", PAGE)
    first = doors.api(f"{site.origin}").json()["id"]
    same = doors.api(f"{site.origin}/#x").json()["id"]
    site.serve("/", PAGE + "<p>And at midnight.")
    again = doors.api(f"{site.origin}/?utm_campaign=y").json()["id"]
    # What it is tracked by isn't even sent.
    assert site.paths() == ["/", "/", "/"]
    assert first == same == again
    document = Document.objects.get(pk=first)
    assert document.versions.count() == 2
    assert Document.objects.filter(source=library.source).count() == 1


def test_a_redirect_is_followed_and_the_address_that_was_typed_counts(
    library: Library, doors: Doors, site: Site
) -> None:
    site.redirect("/short", "/long/paper")
    site.serve("/long/paper", b"%PDF-1.4 x", media_type="application/pdf")
    doors.api(f"{site.origin}/short")
    document = Document.objects.get(source=library.source)
    assert (document.url, document.file_name) == (f"{site.origin}/short", "paper.pdf")


# --- who may


def test_who_may_not_change_the_source_fetches_nothing(library: Library, site: Site) -> None:
    site.serve("/", PAGE)
    doors = Doors(library, library.member)
    assert doors.form(f"{site.origin}/").status_code == 404
    assert doors.api(f"{site.origin}/").status_code == 404
    factories.grant(library.member, Verb.USE, library.source)
    assert doors.form(f"{site.origin}/").status_code == 403
    assert doors.api(f"{site.origin}/").status_code == 403
    address = f"{doors.base}sources/{library.source.pk}/url/"
    assert doors.browser.get(address).status_code == 403
    assert site.asked == []
    assert not Document.objects.exists()


def test_the_source_page_shows_the_form_to_who_may_change_it(library: Library) -> None:
    address = f"/o/{library.organization.slug}/sources/{library.source.pk}/"
    field = 'name="url"'
    factories.grant(library.member, Verb.VIEW, library.source)
    assert field in Doors(library, library.owner).browser.get(address).content.decode()
    assert field not in Doors(library, library.member).browser.get(address).content.decode()


def test_a_key_without_the_scope_is_refused(library: Library, site: Site) -> None:
    doors = Doors(library, library.owner)
    _, secret = make_key(library.owner, scopes=("search",))
    doors.headers = {"Authorization": f"Bearer {secret}"}
    assert doors.api(f"{site.origin}/").status_code == 403
    assert site.asked == []


# --- what is refused


@pytest.fixture
def inner() -> Iterator[list[Listener]]:
    """Somebody listens at 127.0.0.1, at the ports of the case's list where they are free."""
    with ExitStack() as stack:
        listening = [stack.enter_context(listener())]
        for port in (80, 443, 5432, 6379, 8000):
            try:
                listening.append(stack.enter_context(listener(port=port)))
            except OSError:
                continue
        yield listening


def test_K75_inner_addresses_are_refused_by_form_and_api(
    shared_data: Path, library: Library, doors: Doors, inner: list[Listener]
) -> None:
    lines = (shared_data / "cases" / "fetch-urls-refuse.txt").read_text().split()
    assert len(lines) == 10
    port = str(inner[0].port)
    further = [url.replace("{port}", port) for url in INSIDE if url.strip()]
    assert len(further) >= 60
    told = set()
    for url in [*lines, *further]:
        told |= {doors.told_by_form(url), doors.told_by_api(url)}
    assert told == {(400, REFUSAL)}
    assert sum(listening.connections for listening in inner) == 0
    assert not Document.objects.exists()


def test_K75_redirects_to_the_inside_are_refused_alike(
    library: Library, doors: Doors, site: Site, inner: list[Listener]
) -> None:
    for location in (
        f"http://127.0.0.1:{inner[0].port}/",
        f"http://localhost:{inner[0].port}/",
        "http://169.254.169.254/latest/meta-data/",
        "file:///etc/passwd",
    ):
        site.redirect("/", location)
        assert doors.told_by_form(f"{site.origin}/") == (400, REFUSAL)
        assert doors.told_by_api(f"{site.origin}/") == (400, REFUSAL)
    assert sum(listening.connections for listening in inner) == 0


def test_K75_a_name_that_changes_its_mind_reaches_nothing_inside(
    library: Library, settings: Any
) -> None:
    answers = [["127.0.0.2"], ["127.0.0.1"]]
    network = Network(resolve=lambda host, port: answers.pop(0) if len(answers) > 1 else answers[0])
    with website(address="127.0.0.2") as outer, listener(port=outer.port) as inside:
        settings.EGRESS_ALLOW = (outer.allowed,)
        outer.serve("/", PAGE)
        url = f"http://rebinding.example:{outer.port}/"
        values: dict[str, Any] = {"source_id": library.source.pk, "url": url, "network": network}
        document = add_by_url(library.as_owner, **values)
        with pytest.raises(Refused):
            add_by_url(library.as_owner, **values)
    assert document.versions.count() == 1
    assert inside.connections == 0


def test_K75_open_and_closed_ports_are_refused_in_the_same_time(
    library: Library, doors: Doors
) -> None:
    with listener() as open_port, listener() as other:
        closed_port = other.port
    with listener(port=open_port.port):

        def seconds(port: int) -> float:
            begun = time.perf_counter()
            for _ in range(20):
                assert doors.told_by_api(f"http://127.0.0.1:{port}/") == (400, REFUSAL)
            return time.perf_counter() - begun

        seconds(closed_port)
        opened, closed = seconds(open_port.port), seconds(closed_port)
    assert opened == pytest.approx(closed, rel=1.0)


@pytest.mark.parametrize(
    ("served", "status", "told"),
    [
        (Served(b"x", 404), 400, "The site has nothing at that address (status 404)."),
        (Served(b"x", 401), 400, "The site wants a sign-in or lets nobody read this (status 401)."),
        (Served(b"x", 500), 503, "The site can't answer just now (status 500). Try again later."),
        (Served(b"x", 300), 400, "The site gives no document (status 300)."),
        (Served(b" "), 400, "The site gives an empty page."),
        (
            Served(headers={"Content-Length": str(51 * 1024 * 1024)}),
            413,
            "What the site sends is larger than the limit of 50 MB.",
        ),
        (
            Served(headers={"Content-Length": "9"}),
            503,
            "127.0.0.1 can't be reached just now.",
        ),
    ],
)
def test_what_the_site_answers_is_told_plainly(
    doors: Doors, site: Site, served: Served, status: int, told: str
) -> None:
    site.pages["/"] = served
    assert doors.told_by_form(f"{site.origin}/") == (status, told)
    assert doors.told_by_api(f"{site.origin}/") == (status, told)
    assert not Document.objects.exists()


def test_what_was_typed_stands_in_the_form_again_harmless(doors: Doors) -> None:
    answer = doors.form('javascript:"><script>alert(1)</script>')
    assert answer.status_code == 400
    assert b"<script>alert" not in answer.content
    assert b"javascript:&quot;&gt;" in answer.content


def test_nothing_typed_is_told(doors: Doors) -> None:
    assert doors.told_by_form("  ") == (400, "Type the address of a page.")
    assert doors.api("").status_code == 400


def test_an_address_longer_than_can_be_kept_is_told(doors: Doors, site: Site) -> None:
    url = f"{site.origin}/{'x' * 1_000}"
    assert doors.told_by_api(url) == (400, "An address may have at most 1,000 characters.")
    assert site.asked == []


# --- how


def test_no_transaction_is_open_while_the_site_is_asked(committed_db: str, settings: Any) -> None:
    library = make_library()
    open_while_asking = []

    def resolve(host: str, port: int) -> list[str]:
        open_while_asking.append(connection.in_atomic_block)
        return ["127.0.0.1"]

    with website() as running:
        settings.EGRESS_ALLOW = (running.allowed,)
        running.serve("/", PAGE)
        url = f"http://wiki.example:{running.port}/"
        network = Network(resolve=resolve)
        add_by_url(library.as_owner, source_id=library.source.pk, url=url, network=network)
    assert open_while_asking == [False]
    assert Document.objects.get().url == url


def test_what_was_revoked_while_the_site_was_asked_counts(library: Library, site: Site) -> None:
    factories.grant(library.member, Verb.CHANGE, library.source)

    def resolve(host: str, port: int) -> list[str]:
        library.source.archived_at = library.source.created_at
        library.source.save()
        return ["127.0.0.1"]

    site.serve("/", PAGE)
    with pytest.raises(Missing):
        add_by_url(
            library.as_member,
            source_id=library.source.pk,
            url=f"http://wiki.example:{site.port}/",
            network=Network(resolve=resolve),
        )
    assert not Document.objects.exists()
