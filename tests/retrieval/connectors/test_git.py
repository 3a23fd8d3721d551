"""The Git connector against a real Git server."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from dulwich.objects import Tree
from pydantic import ValidationError

from retrieval.connectors.contract import ConnectorError, Fetched, Gone, Item, Page
from retrieval.connectors.git import GitConfig, GitConnector
from retrieval.connectors.git_tree import address_of
from tests.retrieval.connectors.servers.git_server import (
    GitProgram,
    GitServer,
    Repository,
    serving,
)


@dataclass
class World:
    """One repository behind a server, and connectors that read it."""

    repository: Repository
    server: GitServer
    opened: list[GitConnector]

    def connect(self, path: str = "/team/wiki.git", **more: Any) -> GitConnector:
        made = GitConnector(GitConfig(url=self.server.base + path, **more))
        self.opened.append(made)
        return made

    def sync(self, checkpoint: str | None = None, **more: Any) -> Synced:
        """One whole reading by a connector of its own."""
        connector = self.connect(**more)
        pages = list(connector.list_changes(checkpoint))
        connector.close()
        return Synced(pages)


@dataclass
class Synced:
    pages: list[Page]

    @property
    def checkpoint(self) -> str:
        return self.pages[-1].checkpoint

    @property
    def items(self) -> dict[str, Item]:
        return {item.external_id: item for item in self._changes if isinstance(item, Item)}

    @property
    def gone(self) -> list[str]:
        return [change.external_id for change in self._changes if isinstance(change, Gone)]

    @property
    def _changes(self) -> list[Item | Gone]:
        return [change for page in self.pages for change in page.changes]


@pytest.fixture
def world(tmp_path: Path, settings: Any) -> Iterator[World]:
    repository = Repository(tmp_path / "origin")
    settings.KAIZEN_HOME = tmp_path / "home"
    with serving({"/team/wiki.git": repository}) as server:
        settings.EGRESS_ALLOW = (f"127.0.0.1:{server.port}",)
        made = World(repository, server, [])
        yield made
        for connector in made.opened:
            connector.close()
    repository.close()


def test_the_first_sync_lists_every_file(world: World) -> None:
    world.repository.commit({"readme.md": "# Hello", "docs/guide.md": "# Guide"})

    synced = world.sync()

    assert sorted(synced.items) == ["docs/guide.md", "readme.md"]
    assert [page.is_listing for page in synced.pages] == [True]
    assert (
        synced.checkpoint.split(" ")[0] == world.repository.repo.refs[b"refs/heads/main"].decode()
    )


def test_an_item_tells_content_path_author_and_date(world: World) -> None:
    world.repository.commit({"docs/guide.md": "# Guide"}, author="Grace Hopper <g@example.org>")

    assert world.sync().items["docs/guide.md"] == Item(
        external_id="docs/guide.md",
        revision="b5aaad7d6dda27ea24335cdd4722c8129113f4cd",
        file_name="guide.md",
        path="docs/guide.md",
        author="Grace Hopper",
        dated_at=datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
    )


def test_fetch_gives_the_bytes_of_a_file(world: World) -> None:
    world.repository.commit({"readme.md": "# Hello"})
    connector = world.connect()
    [page] = connector.list_changes(None)

    assert connector.fetch(page.changes[0]) == Fetched(b"# Hello")


def test_a_later_sync_lists_only_what_was_added_changed_and_deleted(world: World) -> None:
    world.repository.commit({"same.md": "1", "changed.md": "1", "deleted.md": "1"})
    first = world.sync()
    world.repository.commit({"same.md": "1", "changed.md": "2", "added.md": "1"})

    second = world.sync(first.checkpoint)

    assert sorted(second.items) == ["added.md", "changed.md"]
    assert second.gone == ["deleted.md"]
    assert [page.is_listing for page in second.pages] == [False]


def test_a_sync_without_news_loads_nothing(world: World) -> None:
    world.repository.commit({"readme.md": "# Hello"})
    first = world.sync()
    world.server.requests.clear()

    second = world.sync(first.checkpoint)

    assert second.pages == [Page(changes=(), checkpoint=first.checkpoint)]
    assert [method for method, _, _ in world.server.requests] == ["GET"]


def test_a_later_sync_loads_only_the_new_objects(world: World) -> None:
    big = os.urandom(200_000)
    world.repository.commit({"big.txt": big})
    first = world.sync()
    before = world.server.bytes_sent
    world.repository.commit({"big.txt": big, "small.md": "new"})

    world.sync(first.checkpoint)

    assert before > 200_000
    assert world.server.bytes_sent - before < 5_000


def test_a_renamed_file_is_gone_and_a_new_item_with_the_same_content(world: World) -> None:
    world.repository.commit({"old.md": "text"})
    first = world.sync()
    world.repository.commit({"new.md": "text"})

    second = world.sync(first.checkpoint)

    assert second.gone == ["old.md"]
    assert second.items["new.md"].revision == first.items["old.md"].revision


def test_a_rewritten_branch_is_compared_with_what_was_read_before(world: World) -> None:
    world.repository.commit({"same.md": "1", "dropped.md": "1"})
    first = world.sync()
    world.repository.commit({"same.md": "1", "other.md": "1"}, parents=[])

    second = world.sync(first.checkpoint)

    assert (sorted(second.items), second.gone) == (["other.md"], ["dropped.md"])


def test_a_commit_that_is_unknown_here_leads_to_a_whole_listing(world: World) -> None:
    world.repository.commit({"readme.md": "1"})
    mark = world.sync().checkpoint.split(" ")[1]

    synced = world.sync(f"{'0' * 39}1 {mark}")

    assert sorted(synced.items) == ["readme.md"]
    assert [page.is_listing for page in synced.pages] == [True]


def test_other_patterns_lead_to_a_whole_listing(world: World) -> None:
    world.repository.commit({"a.md": "1", "b.rst": "1"})
    first = world.sync(include=["*.md"])

    second = world.sync(first.checkpoint, include=["*.rst"])

    assert sorted(second.items) == ["b.rst"]
    assert [page.is_listing for page in second.pages] == [True]


def test_only_the_last_page_of_many_moves_the_checkpoint(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.connectors.git.PAGE_SIZE", 2)
    world.repository.commit({"z.md": "0"})
    first = world.sync()
    world.repository.commit({"z.md": "0", **{f"{number}.md": "1" for number in range(5)}})

    second = world.sync(first.checkpoint)

    assert [len(page.changes) for page in second.pages] == [2, 2, 1]
    assert [page.checkpoint == first.checkpoint for page in second.pages] == [True, True, False]


def test_patterns_and_folder_choose_the_files(world: World) -> None:
    world.repository.commit(
        {
            "docs/a.md": "1",
            "docs/deep/b.md": "1",
            "docs/draft/c.md": "1",
            "d.md": "1",
            "docs/e.py": "1",
        }
    )

    synced = world.sync(folder="/docs/", include=["*.md"], exclude=["docs/draft/*"])

    assert sorted(synced.items) == ["docs/a.md", "docs/deep/b.md"]


def test_a_folder_that_is_not_there_is_refused(world: World) -> None:
    world.repository.commit({"a.md": "1"})

    with pytest.raises(ConnectorError) as caught:
        world.sync(folder="docs")

    assert (caught.value.message, caught.value.retry) == (
        "The folder docs isn't in the repository.",
        False,
    )


def test_a_folder_that_vanished_takes_its_files_with_it(world: World) -> None:
    world.repository.commit({"docs/a.md": "1", "b.md": "1"})
    first = world.sync(folder="docs")
    world.repository.commit({"b.md": "1"})

    assert world.sync(first.checkpoint, folder="docs").gone == ["docs/a.md"]


def test_links_and_submodules_are_no_files(world: World) -> None:
    world.repository.commit(
        {
            "real.md": "1",
            "link.md": (0o120000, b"/etc/passwd"),
            "module.md": (0o160000, b"1" * 40),
        }
    )

    assert sorted(world.sync().items) == ["real.md"]


def test_a_file_that_became_a_link_is_gone(world: World) -> None:
    world.repository.commit({"a.md": "1"})
    first = world.sync()
    world.repository.commit({"a.md": (0o120000, b"b.md")})

    second = world.sync(first.checkpoint)

    assert (second.gone, second.items) == (["a.md"], {})


def test_files_above_the_limit_are_left_out_and_gone_when_they_grow(world: World) -> None:
    world.repository.commit({"grows.md": "small", "large.md": b"x" * 1_048_577})
    first = world.sync(largest_file_mb=1)
    world.repository.commit({"grows.md": b"y" * 1_048_577, "large.md": b"x" * 1_048_577})

    second = world.sync(first.checkpoint, largest_file_mb=1)

    assert sorted(first.items) == ["grows.md"]
    assert second.gone == ["grows.md"]


def test_another_branch_can_be_read(world: World) -> None:
    world.repository.commit({"main.md": "1"})
    world.repository.commit({"next.md": "1"}, branch="release/2")

    assert sorted(world.sync(branch="release/2").items) == ["next.md"]


def test_a_branch_that_is_not_there_is_refused(world: World) -> None:
    world.repository.commit({"a.md": "1"})

    with pytest.raises(ConnectorError) as caught:
        world.connect(branch="gone").check()

    assert (caught.value.message, caught.value.retry) == (
        "The repository has no branch gone.",
        False,
    )


def test_an_empty_repository_is_refused(world: World) -> None:
    with pytest.raises(ConnectorError) as caught:
        world.connect().check()

    assert caught.value.message == "The repository is empty, or it has no default branch."


def test_author_and_date_are_of_the_last_commit_that_changed_the_file(world: World) -> None:
    world.repository.commit({"a.md": "1", "b.md": "1"}, author="Ada <ada@example.org>")
    world.repository.commit({"a.md": "1", "b.md": "2"}, author="Bo <bo@example.org>")

    items = world.sync().items

    assert [(items[name].author, items[name].dated_at) for name in ("a.md", "b.md")] == [
        ("Ada", datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
        ("Bo", datetime(2023, 11, 14, 22, 14, 20, tzinfo=UTC)),
    ]


def test_a_file_older_than_the_loaded_history_has_no_author(world: World) -> None:
    for number in range(4):
        world.repository.commit({"a.md": "1", "b.md": str(number)})

    item = world.sync(history=2).items["a.md"]

    assert (item.author, item.dated_at) == ("", datetime(2023, 11, 14, 22, 15, 20, tzinfo=UTC))


@pytest.mark.parametrize(
    ("path", "identity", "file_name"),
    [
        ("Übersicht 上海.md".encode(), "Übersicht 上海.md", "Übersicht 上海.md"),
        (b"caf\xe9.md", "caf%E9.md", "caf\ufffd.md"),
        (b"100%.md", "100%25.md", "100%.md"),
        (b"line\nbreak.md", "line%0Abreak.md", "line\nbreak.md"),
        (b"caf%E9.md", "caf%25E9.md", "caf%E9.md"),
    ],
)
def test_odd_names_stay_apart(world: World, path: bytes, identity: str, file_name: str) -> None:
    world.repository.commit({path: "text"})

    [item] = world.sync().items.values()

    assert (item.external_id, item.file_name) == (identity, file_name)


def test_two_long_paths_have_two_identities_of_at_most_1000_characters(world: World) -> None:
    folder = "/".join(["f" * 200] * 6)
    world.repository.commit({f"{folder}/a.md": "1", f"{folder}/b.md": "1"})

    assert [len(identity) for identity in world.sync().items] == [1000, 1000]


def test_a_file_is_found_again_when_the_local_copy_is_lost(world: World, tmp_path: Path) -> None:
    world.repository.commit({"d/caf\udce9 a.md".encode("utf-8", "surrogateescape"): "text"})
    [item] = world.sync().items.values()
    shutil.rmtree(tmp_path / "home")

    assert world.connect().fetch(item) == Fetched(b"text")


def test_a_file_that_is_gone_meanwhile_has_no_bytes(world: World, tmp_path: Path) -> None:
    world.repository.commit({"a.md": "text"})
    item = world.sync().items["a.md"]
    shutil.rmtree(tmp_path / "home")
    world.repository.commit({"b.md": "other"}, parents=[])

    assert world.connect().fetch(item) is None


def test_a_pointer_of_git_lfs_is_refused(world: World) -> None:
    world.repository.commit(
        {"a.pdf": "version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n"}
    )
    connector = world.connect()
    [page] = connector.list_changes(None)

    with pytest.raises(ConnectorError, match="kept in Git LFS") as caught:
        connector.fetch(page.changes[0])

    assert caught.value.retry is False


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
    monkeypatch.setattr("retrieval.connectors.git_tree.MOST_ENTRIES", 5_000)
    tree = Tree()
    world.repository.add(tree)
    for _level in range(40):
        above = Tree()
        above.add(b"a", 0o040000, tree.id)
        above.add(b"b", 0o040000, tree.id)
        world.repository.add(above)
        tree = above
    world.repository.commit_tree(tree.id)

    with pytest.raises(ConnectorError, match="more than 5000 files and folders"):
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
    "url", ["https://user:secret@github.com/o/r", "file:///etc", "https://", "x"]
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
