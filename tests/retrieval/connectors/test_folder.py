"""The folder connector: folders below the allowed ones, links that lead nowhere, buckets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from retrieval.connectors import folder as folder_module
from retrieval.connectors.connections import create_connection, sync_now
from retrieval.connectors.contract import ConnectorError, Item, Page
from retrieval.connectors.folder import FolderConfig, FolderConnector
from retrieval.connectors.sync import Ended, sync_connection
from retrieval.models import Document
from tests.retrieval.conftest import Library
from tests.retrieval.connectors import object_store
from tests.retrieval.connectors.object_store import ACCESS_KEY, BUCKET, ObjectStore


@pytest.fixture
def root(tmp_path: Path, settings: Any) -> Path:
    """A folder that the operator allows, with a few files."""
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    settings.KAIZEN_FOLDER_ROOTS = (str(allowed),)
    for name in ("a.md", "b/c.md", "b/d/e.md", "f.md", ".hidden/x.md", "~$f.md"):
        path = allowed / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n\nThe text of {name}.\n")
    return allowed


def reader(root: Path, **more: Any) -> FolderConnector:
    return FolderConnector(FolderConfig(folder=str(root), **more))


def items_of(pages: Iterator[Page]) -> list[Item]:
    return [item for page in pages for item in page.changes if isinstance(item, Item)]


def names(connector: FolderConnector, checkpoint: str | None = None) -> list[str]:
    return [item.external_id for item in items_of(connector.list_changes(checkpoint))]


def test_it_names_what_is_there_and_skips_what_it_should(root: Path) -> None:
    assert names(reader(root)) == ["a.md", "b/c.md", "b/d/e.md", "f.md"]
    assert names(reader(root, skip=["b", "*.txt"])) == [".hidden/x.md", "a.md", "f.md", "~$f.md"]
    assert names(reader(root, prefix="b")) == ["c.md", "d/e.md"]


def test_it_goes_on_after_any_page(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "PAGE", 1)
    pages = list(reader(root).list_changes(None))
    assert [page.is_listing for page in pages] == [True] * 4
    assert pages[-1].checkpoint == ""
    for number, page in enumerate(pages[:-1]):
        rest = [item.external_id for page in pages[number + 1 :] for item in page.changes]
        assert names(reader(root), page.checkpoint) == rest


def test_an_empty_folder_is_a_listing_of_nothing(root: Path) -> None:
    pages = list(reader(root, prefix="b/d", skip=["*"]).list_changes(None))
    assert [(page.changes, page.is_listing) for page in pages] == [([], True)]


def test_it_fetches_the_bytes_and_knows_what_is_gone(root: Path) -> None:
    connector = reader(root, prefix="b")
    item = items_of(connector.list_changes(None))[0]
    fetched = connector.fetch(item)
    assert fetched is not None
    assert fetched.data == b"# b/c.md\n\nThe text of b/c.md.\n"
    (root / "b" / "c.md").unlink()
    assert connector.fetch(item) is None


def test_a_changed_file_has_another_revision(root: Path) -> None:
    before = items_of(reader(root).list_changes(None))[0].revision
    os.utime(root / "a.md", ns=(1, 1))
    assert items_of(reader(root).list_changes(None))[0].revision != before


@pytest.mark.parametrize("place", ["/etc", "/", "/nowhere/at/all"])
def test_a_folder_outside_of_the_allowed_ones_is_refused(root: Path, place: str) -> None:
    with pytest.raises(ValidationError, match="isn't below one that the operator allows"):
        FolderConfig(folder=place)


def test_no_folder_is_allowed_by_default(root: Path, settings: Any) -> None:
    settings.KAIZEN_FOLDER_ROOTS = ()
    with pytest.raises(ValidationError, match="KAIZEN_FOLDER_ROOTS"):
        FolderConfig(folder=str(root))


def test_a_way_out_of_the_allowed_folder_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (root / "link").symlink_to(tmp_path / "secret")
    for place in (f"{root}/../secret", f"{root}/link"):
        with pytest.raises(ValidationError):
            FolderConfig(folder=place)
    with pytest.raises(ValidationError):
        FolderConfig(folder=str(root), prefix="../secret")


def test_links_in_the_folder_lead_nowhere(root: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "s.md").write_text("secret")
    (root / "link.md").symlink_to(secret / "s.md")
    (root / "linked").symlink_to(secret)
    connector = reader(root)
    assert names(connector) == ["a.md", "b/c.md", "b/d/e.md", "f.md"]
    for name in ("link.md", "linked/s.md", "../secret/s.md"):
        item = Item(external_id=name, revision="1", file_name="s.md")
        assert connector.fetch(item) is None


def test_a_pipe_is_no_file(root: Path) -> None:
    os.mkfifo(root / "pipe.md")
    connector = reader(root)
    assert "pipe.md" not in names(connector)
    assert connector.fetch(Item(external_id="pipe.md", revision="1", file_name="pipe.md")) is None


def test_a_name_that_is_not_text_is_read_too(root: Path) -> None:
    (root / os.fsdecode(b"caf\xe9.md")).write_text("coffee")
    item = next(item for item in items_of(reader(root).list_changes(None)) if "caf" in item.path)
    fetched = reader(root).fetch(item)
    assert fetched is not None
    assert fetched.data == b"coffee"


def test_a_file_that_is_too_large_says_so(root: Path, settings: Any) -> None:
    settings.KAIZEN_UPLOAD_LIMIT = 10
    item = items_of(reader(root).list_changes(None))[0]
    with pytest.raises(ConnectorError, match="larger than"):
        reader(root).fetch(item)


@pytest.mark.django_db
def test_a_folder_is_synced_and_a_moved_file_stays_itself(root: Path, library: Library) -> None:
    connection = create_connection(
        library.as_owner,
        source=library.source,
        connector="folder",
        config=FolderConfig(folder=str(root)),
    )
    assert sync_connection(connection.pk) is Ended.SUCCEEDED
    before = Document.objects.get(external_id="b/c.md")
    (root / "b" / "c.md").rename(root / "moved.md")
    (root / "a.md").unlink()
    sync_now(library.as_owner, connection=connection)
    assert sync_connection(connection.pk) is Ended.SUCCEEDED
    living = Document.objects.filter(source=library.source, deleted_at=None)
    assert sorted(living.values_list("external_id", flat=True)) == ["b/d/e.md", "f.md", "moved.md"]
    assert living.get(external_id="moved.md").pk == before.pk


# --- buckets


@pytest.fixture
def store(settings: Any) -> Iterator[ObjectStore]:
    with object_store.serve() as running:
        settings.EGRESS_ALLOW = (f"127.0.0.1:{running.port}",)
        for name in ("a.md", "docs/b c.md", "docs/ü+&.md", "docs/d/e.md", "z.md"):
            running.objects[name] = f"The text of {name}.".encode()
        running.objects["docs/d/"] = b""
        yield running


def bucket(store: ObjectStore, **more: Any) -> FolderConnector:
    fields = {"access_key": ACCESS_KEY, "secret_key": SecretStr("s" * 20), **more}
    return FolderConnector(
        FolderConfig(place="bucket", bucket=BUCKET, endpoint=store.endpoint, **fields)
    )


def test_a_bucket_is_listed_across_its_pages(store: ObjectStore) -> None:
    assert names(bucket(store)) == ["a.md", "docs/b c.md", "docs/d/e.md", "docs/ü+&.md", "z.md"]
    assert names(bucket(store, prefix="docs")) == ["b c.md", "d/e.md", "ü+&.md"]


def test_a_bucket_is_gone_on_with_after_any_page(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "PAGE", 2)
    first = next(iter(bucket(store).list_changes(None)))
    assert names(bucket(store), first.checkpoint) == ["docs/d/e.md", "docs/ü+&.md", "z.md"]


def test_an_object_is_read_by_its_whole_key(store: ObjectStore) -> None:
    connector = bucket(store, prefix="docs")
    for item in items_of(connector.list_changes(None)):
        fetched = connector.fetch(item)
        assert fetched is not None
        assert fetched.data == f"The text of docs/{item.external_id}.".encode()
    gone = Item(external_id="gone.md", revision="1", file_name="gone.md")
    assert connector.fetch(gone) is None


def test_a_wrong_key_is_told_as_the_store_tells_it(store: ObjectStore) -> None:
    with pytest.raises(ConnectorError, match="AccessDenied") as caught:
        bucket(store, access_key="stranger").check()
    assert caught.value.retry is False


def test_a_bucket_goes_through_the_one_door_out(store: ObjectStore, settings: Any) -> None:
    settings.EGRESS_ALLOW = ()
    with pytest.raises(ConnectorError):
        bucket(store).check()
    assert store.asked == []


def test_the_operators_own_keys_are_never_used(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s" * 20)
    with pytest.raises(ValidationError, match="A bucket needs this"):
        FolderConfig(place="bucket", bucket=BUCKET, endpoint=store.endpoint)
    with pytest.raises(ConnectorError, match="AccessDenied"):
        bucket(store, access_key="stranger").check()
