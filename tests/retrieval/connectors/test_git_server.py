"""The Git connector and the server: signing in, refusals, limits, the local copy."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from dulwich.objects import Tree
from pydantic import ValidationError

from retrieval.connectors.connections import create_connection, sync_now
from retrieval.connectors.contract import ConnectorError
from retrieval.connectors.git import GitConnector
from retrieval.connectors.git_config import GitConfig
from retrieval.connectors.git_pack import check_pack
from retrieval.connectors.git_tree import address_of
from retrieval.connectors.sync import Ended, sync_connection
from retrieval.models import Document
from tests.retrieval.conftest import Library
from tests.retrieval.connectors.servers.certificates import make_certificate, serving_context
from tests.retrieval.connectors.servers.git_server import GitProgram, Repository, serving
from tests.retrieval.connectors.servers.git_world import World, git_world


@pytest.fixture
def world(tmp_path: Path, settings: Any) -> Iterator[World]:
    with git_world(tmp_path, settings) as made:
        yield made


def test_the_token_opens_a_private_repository(world: World) -> None:
    world.repository.commit({"a.md": "1"})
    world.server.password = ("reader", "token-of-the-reader")

    synced = world.sync(user="reader", token="token-of-the-reader")

    assert sorted(synced.items) == ["a.md"]


def test_a_wrong_token_is_a_final_error_without_the_token(world: World) -> None:
    world.repository.commit({"a.md": "1"})
    world.server.password = ("reader", "right")

    with pytest.raises(ConnectorError) as caught:
        world.connect(user="reader", token="wrong-token").check()

    assert (caught.value.message, caught.value.retry) == (
        "127.0.0.1 refused the user name or the token for this repository.",
        False,
    )


def test_a_path_without_a_repository_is_a_final_error(world: World) -> None:
    world.server.answers["/nothing"] = ("404 Not Found", [], b"")

    with pytest.raises(ConnectorError) as caught:
        world.connect("/nothing").check()

    assert (caught.value.message, caught.value.retry) == (
        "There is no repository at this address, or the token may not read it.",
        False,
    )


def test_a_busy_server_is_asked_again_when_it_says(world: World) -> None:
    world.server.answers["/"] = ("429 Too Many Requests", [("Retry-After", "90")], b"")

    with pytest.raises(ConnectorError) as caught:
        world.connect().check()

    assert (caught.value.retry, caught.value.retry_after) == (True, 90.0)


def test_a_web_page_is_no_repository(world: World) -> None:
    world.server.answers["/"] = ("200 OK", [("Content-Type", "text/html")], b"<html>")

    with pytest.raises(ConnectorError, match="doesn't answer as a Git server"):
        world.connect().check()


def test_a_redirect_is_followed_within_the_server(world: World) -> None:
    world.repository.commit({"a.md": "1"})
    target = f"{world.server.base}/team/wiki.git/info/refs?service=git-upload-pack"
    world.server.answers["/old"] = ("301 Moved Permanently", [("Location", target)], b"")
    connector = world.connect("/old", token="t")

    [page] = connector.list_changes(None)

    assert [change.external_id for change in page.changes] == ["a.md"]


def test_the_token_does_not_follow_a_redirect_to_another_origin(
    world: World, settings: Any
) -> None:
    world.repository.commit({"a.md": "1"})
    with serving({"/team/wiki.git": world.repository}) as other:
        settings.EGRESS_ALLOW = ("127.0.0.1/32",)
        target = f"{other.base}/team/wiki.git/info/refs?service=git-upload-pack"
        world.server.answers["/old"] = ("302 Found", [("Location", target)], b"")

        world.connect("/old", token="secret-token").check()

        assert [credentials for _, _, credentials in other.requests] == [""]
    assert world.server.requests[0][2] != ""


def test_a_redirect_to_an_inner_address_is_refused(world: World, settings: Any) -> None:
    with serving({}) as inner:
        target = f"{inner.base}/x.git/info/refs?service=git-upload-pack"
        world.server.answers["/"] = ("302 Found", [("Location", target)], b"")

        with pytest.raises(ConnectorError, match="may not be reached") as caught:
            world.connect().check()

        assert (inner.requests, caught.value.retry) == ([], False)


def test_an_inner_address_is_refused(world: World, settings: Any) -> None:
    settings.EGRESS_ALLOW = ()

    with pytest.raises(ConnectorError, match="may not be reached") as caught:
        world.connect().check()

    assert (world.server.requests, caught.value.retry) == ([], False)


def test_a_server_that_is_away_is_asked_again(world: World) -> None:
    connector = world.connect()
    world.server.stop()

    with pytest.raises(ConnectorError) as caught:
        connector.check()

    assert caught.value.retry is True


def test_a_repository_above_the_limit_is_not_kept(world: World, tmp_path: Path) -> None:
    world.repository.commit({"a.txt": os.urandom(1_200_000)})

    with pytest.raises(ConnectorError) as caught:
        world.sync(largest_repository_mb=1)

    packs = list((tmp_path / "home").rglob("*.pack"))
    assert (caught.value.message, caught.value.retry, packs) == (
        "The repository is larger than 1 MB, the most that this connection may load.",
        False,
        [],
    )


def test_a_repository_that_unpacks_to_too_much_is_refused(world: World) -> None:
    world.repository.commit({f"{number}.txt": bytes([number]) * 8_000_000 for number in range(4)})

    with pytest.raises(ConnectorError) as caught:
        world.sync(largest_repository_mb=1)

    assert caught.value.message == "The repository unpacks to more than can be read here."


def test_folders_without_end_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrieval.connectors.git_tree.MOST_ENTRIES", 1_000)
    monkeypatch.setattr("retrieval.connectors.git_tree.MOST_LOOKS", 1_000)
    tree = Tree()
    world.repository.add(tree)
    for _level in range(40):
        above = Tree()
        above.add(b"a", 0o040000, tree.id)
        above.add(b"b", 0o040000, tree.id)
        world.repository.add(above)
        tree = above
    world.repository.commit_tree(tree.id)

    with pytest.raises(ConnectorError, match="more than 1000 files and folders"):
        world.sync()


def test_a_damaged_copy_is_loaded_anew_by_the_next_sync(world: World, tmp_path: Path) -> None:
    world.repository.commit({"a.md": "1"})
    world.sync()
    [pack] = (tmp_path / "home").rglob("*.pack")
    pack.chmod(0o600)
    pack.write_bytes(b"PACK" + b"\x00" * 100)
    world.repository.commit({"a.md": "2"})

    with pytest.raises(ConnectorError) as caught:
        world.sync()

    assert caught.value.retry is True
    assert sorted(world.sync().items) == ["a.md"]


def test_other_credentials_never_meet_the_copy_of_the_first(world: World, tmp_path: Path) -> None:
    world.repository.commit({"a.md": "1"})
    world.sync(token="one")
    world.sync(token="two")

    assert len(list((tmp_path / "home").rglob("*.pack"))) == 2


def test_copies_that_nobody_asks_for_are_removed(world: World, tmp_path: Path) -> None:
    world.repository.commit({"a.md": "1"})
    world.sync(token="one")
    [lock] = (tmp_path / "home").rglob("*.lock")
    os.utime(lock, (0, 0))
    world.sync(token="two")

    assert lock.with_suffix("").exists() is False
    assert len(list((tmp_path / "home").rglob("*.pack"))) == 1


def test_a_copy_that_is_being_loaded_is_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.connectors.git_store._LOCK_SECONDS", 0.0)
    world.repository.commit({"a.md": "1"})
    reader = world.connect()
    list(reader.list_changes(None))

    with pytest.raises(ConnectorError) as caught:
        world.sync()

    assert (caught.value.message, caught.value.retry_after) == (
        "Another worker is loading this repository.",
        60,
    )


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("github.com", "https://github.com/o/r/blob/main/docs/a%20b.md"),
        ("gitlab.example.org", "https://gitlab.example.org/o/r/-/blob/main/docs/a%20b.md"),
        ("codeberg.org", "https://codeberg.org/o/r/src/branch/main/docs/a%20b.md"),
        ("bitbucket.org", "https://bitbucket.org/o/r/src/main/docs/a%20b.md"),
        ("git.example.org", ""),
    ],
)
def test_known_servers_show_a_file_at_an_address(host: str, address: str) -> None:
    assert address_of(f"https://{host}/o/r.git", "main", b"docs/a b.md") == address


@pytest.mark.parametrize(
    "url", ["git@github.com:o/r.git", "ssh://git@github.com/o/r.git", "git://github.com/o/r.git"]
)
def test_ssh_is_refused_with_what_to_do(url: str) -> None:
    with pytest.raises(ValidationError, match="use its https:// address and an access token"):
        GitConfig(url=url)


@pytest.mark.parametrize(
    "url",
    [
        "https://user:secret@github.com/o/r",
        "file:///etc",
        "https://",
        "x",
        "https://github.com/o/r?x=1",
    ],
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        GitConfig(url=url)


@pytest.mark.skipif(not GitProgram.PROGRAM.exists(), reason="git itself isn't installed here")
def test_the_second_protocol_leaves_large_files_on_the_server(
    tmp_path: Path, settings: Any
) -> None:
    repository = Repository(tmp_path / "origin")
    settings.KAIZEN_HOME = tmp_path / "home"
    large = os.urandom(1_100_000)
    repository.commit({"a.md": "1", "large.txt": large})
    with serving({}, GitProgram(tmp_path)) as server:
        settings.EGRESS_ALLOW = (f"127.0.0.1:{server.port}",)
        world = World(repository, server, [])
        first = world.sync(path="/origin", largest_file_mb=1)
        repository.commit({"a.md": "2", "b.md": "3", "large.txt": large})
        second = world.sync(first.checkpoint, path="/origin", largest_file_mb=1)

    assert (sorted(first.items), sorted(second.items)) == (["a.md"], ["a.md", "b.md"])
    assert server.bytes_sent < 20_000
    repository.close()


def test_the_certificate_of_the_server_is_checked(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = make_certificate(tmp_path)
    settings.KAIZEN_HOME = tmp_path / "home"
    repository = Repository(tmp_path / "origin")
    repository.commit({"a.md": "1"})
    with serving({"/x": repository}, tls=serving_context(certificate)) as server:
        settings.EGRESS_ALLOW = (f"localhost:{server.port}",)
        connector = GitConnector(GitConfig(url=f"https://localhost:{server.port}/x"))

        with pytest.raises(ConnectorError) as caught:
            connector.check()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        connector.check()

    assert (caught.value.message, caught.value.retry) == (
        "The certificate of localhost isn't valid.",
        False,
    )
    repository.close()


def test_a_pack_that_is_cut_off_is_damaged_wherever_it_ends(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "origin")
    for number in range(3):
        repository.commit({"a.md": f"{'line' * 50}\n{number}", "b.md": "text"})
    repository.repo.object_store.pack_loose_objects()
    [path] = (tmp_path / "origin").rglob("*.pack")
    whole = path.read_bytes()
    repository.close()

    damaged = 0
    for end in range(1, len(whole)):
        with file_of(tmp_path / "cut", whole[:end]) as file, pytest.raises(ConnectorError):
            check_pack(file, most_bytes=10_000)
        damaged += 1

    with file_of(tmp_path / "cut", whole) as file:
        check_pack(file, most_bytes=10_000)
    assert damaged == len(whole) - 1


def test_a_small_delta_with_a_large_result_is_refused(tmp_path: Path) -> None:
    # Header of a delta against a name: base of 1 byte, result of 2 GiB.
    delta = zlib.compress(b"\x01" + b"\x80\x80\x80\x80\x08" + b"\x01x")
    pack = b"PACK\0\0\0\2\0\0\0\1" + bytes([0x78]) + b"\0" * 20 + delta + b"\0" * 20

    with (
        file_of(tmp_path / "pack", pack) as file,
        pytest.raises(ConnectorError, match="unpacks to more"),
    ):
        check_pack(file, most_bytes=10_000_000)


@pytest.mark.django_db
def test_a_connected_repository_becomes_documents_and_follows_its_branch(
    world: World, library: Library
) -> None:
    world.repository.commit({"a.md": "# One", "b.md": "# Two"})
    connection = create_connection(
        library.as_owner,
        source=library.source,
        connector="git",
        config=GitConfig(url=f"{world.server.base}/team/wiki.git", token="of-the-reader"),
    )
    assert sync_connection(connection.pk) is Ended.SUCCEEDED
    world.repository.commit({"b.md": "# Two, changed", "c.md": "# Three"})
    sync_now(library.as_owner, connection=connection)
    assert sync_connection(connection.pk) is Ended.SUCCEEDED

    found = Document.objects.filter(source=library.source, deleted_at=None).order_by("external_id")

    assert [(document.external_id, document.author) for document in found] == [
        ("b.md", "Ada Lovelace"),
        ("c.md", "Ada Lovelace"),
    ]
    assert [document.versions.count() for document in found] == [2, 1]
    connection.refresh_from_db()
    assert "of-the-reader" not in str(connection.config)


def file_of(path: Path, data: bytes) -> BinaryIO:
    path.write_bytes(data)
    return path.open("r+b")
