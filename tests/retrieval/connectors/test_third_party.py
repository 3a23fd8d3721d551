"""A connector from a package of its own: installed, shown in the admin, syncing, its rights and
deletions arriving. Nothing in Kaizen names it.
"""

from __future__ import annotations

import html
import json
import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from accounts.models import Membership
from retrieval.acl import visible_documents
from retrieval.connectors.catalog import find_entry
from retrieval.connectors.connections import sync_now
from retrieval.connectors.sync import Ended, sync_connection
from retrieval.ingest.store import ingest_document
from retrieval.models import Connection, Document
from retrieval.search import search
from tests import factories
from tests.retrieval.conftest import Library

pytestmark = pytest.mark.django_db
PACKAGE = Path(__file__).resolve().parents[2] / "third_party_connector"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's wheel, made by its own build backend, unpacked as an installer does."""
    backend = import_module("flit_core.buildapi")
    out = tmp_path_factory.mktemp("wheel")
    before = os.getcwd()
    os.chdir(PACKAGE)
    try:
        wheel = backend.build_wheel(str(out))
    finally:
        os.chdir(before)
    target = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(out / wheel) as archive:
        archive.extractall(target)
    return target


@pytest.fixture
def installed(built: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package is installed while the test runs."""
    monkeypatch.syspath_prepend(str(built))
    invalidate_caches()
    yield built
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme_notebook"]:
        del sys.modules[name]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., None]:
    """Adds a line to the notebook."""

    def add(**line: Any) -> None:
        with (tmp_path / "notebook.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    return add


def note(name: str, text: str, *readers: str, revision: int = 1) -> dict[str, Any]:
    title = f"Note {name}"
    return {
        "note": name,
        "revision": revision,
        "title": title,
        "text": text,
        "readers": list(readers),
    }


def connect(client: Client, library: Library, folder: Path) -> Connection:
    """Through the admin, as a person would."""
    client.force_login(library.owner.user)
    response = client.post(
        f"/o/{library.organization.slug}/admin/retrieval/connection/add/?connector=acme-notebook",
        {
            "source": str(library.source.pk),
            "config_path": str(folder / "notebook.jsonl"),
            "config_key": "open sesame",
            "config_shelf": "all",
            "config_longest": "500",
            "config_labels": "acme\nnotes",
            "interval_minutes": "60",
            "requests_a_minute": "0",
        },
    )
    assert response.status_code == 302, response.context["adminform"].form.errors
    return Connection.objects.get(source=library.source)


def sync(library: Library, connection: Connection) -> Ended:
    sync_now(library.as_owner, connection=connection)
    ended = sync_connection(connection.pk)
    for document in Document.objects.filter(
        source=library.source, state=Document.State.WAITING, deleted_at=None
    ):
        ingest_document(document.pk)
    return ended


def seen_by(member: Membership) -> list[str]:
    found = visible_documents(factories.authority_of(member))
    return sorted(found.values_list("title", flat=True))


def test_before_it_is_installed_nobody_knows_it(db: None) -> None:
    assert find_entry("acme-notebook") is None


def test_once_installed_it_stands_in_the_admin_with_its_form(
    installed: Path, client: Client, library: Library
) -> None:
    client.force_login(library.owner.user)
    address = f"/o/{library.organization.slug}/admin/retrieval/connection/add/"
    shown = html.unescape(client.get(address).content.decode())
    assert "Acme notebook" in shown
    assert "acme-notebook 1.2.0" in shown
    form = html.unescape(client.get(f"{address}?connector=acme-notebook").content.decode())
    for text in ("What the notebook is locked with.", "Longest note", "Which notes"):
        assert text in form


def test_a_class_that_cannot_be_loaded_is_listed_with_the_reason(
    installed: Path, client: Client, library: Library
) -> None:
    client.force_login(library.owner.user)
    address = f"/o/{library.organization.slug}/admin/retrieval/connection/add/"
    shown = html.unescape(client.get(address).content.decode())
    assert "No module named 'a_library_that_is_not_installed'" in shown


def test_it_syncs_updates_rights_and_deletes(
    installed: Path,
    client: Client,
    library: Library,
    tmp_path: Path,
    write: Callable[..., None],
) -> None:
    people = [
        factories.make_member(library.organization, user=factories.make_user(f"{name}@acme.test"))
        for name in ("ada", "bob")
    ]
    for number in range(4):
        write(**note(str(number), f"The quokka number {number}.", "ada@acme.test"))
    connection = connect(client, library, tmp_path)
    assert sync(library, connection) is Ended.SUCCEEDED
    assert [seen_by(member) for member in people] == [
        ["Note 0", "Note 1", "Note 2", "Note 3"],
        [],
    ]
    found = search(factories.authority_of(people[0]), query="quokka number 2", limit=1)
    assert [hit.title for hit in found.hits] == ["Note 2"]
    document = Document.objects.get(title="Note 2")
    assert (document.tags, document.path) == (["acme", "notes"], "notes/2")

    write(**note("0", "The quokka number 0.", "bob@acme.test"))
    assert sync(library, connection) is Ended.SUCCEEDED
    assert [seen_by(member) for member in people] == [
        ["Note 1", "Note 2", "Note 3"],
        ["Note 0"],
    ]
    assert Document.objects.get(title="Note 0").versions.count() == 1

    write(note="1", torn_out=True)
    assert sync(library, connection) is Ended.SUCCEEDED
    assert seen_by(people[0]) == ["Note 2", "Note 3"]

    line = note("2", "The quokka number 2.", revision=2)
    del line["readers"]
    write(**line)
    assert sync(library, connection) is Ended.FAILED
    assert [seen_by(member) for member in people] == [[], []]


def test_kaizen_does_not_name_it() -> None:
    root = PACKAGE.parents[1]
    apps = ("kaizen", "accounts", "audit", "retrieval", "agents", "conversations", "tasks")
    naming = [
        path
        for app in apps
        for path in (root / app).rglob("*.py")
        if "acme" in path.read_text(encoding="utf-8").lower()
    ]
    assert naming == []
