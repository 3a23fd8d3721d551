"""The Git connector against a real Git server: what it lists and fetches."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from retrieval.connectors.contract import ConnectorError, Fetched, Item, Page
from tests.retrieval.connectors.servers.git_world import World, git_world


@pytest.fixture
def world(tmp_path: Path, settings: Any) -> Iterator[World]:
    with git_world(tmp_path, settings) as made:
        yield made


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


def test_a_listing_that_broke_off_goes_on_where_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.connectors.git.PAGE_SIZE", 2)
    world.repository.commit({f"{number}.md": "1" for number in range(5)})
    begun = world.connect()
    [first] = islice(begun.list_changes(None), 1)
    begun.close()
    world.repository.commit({"later.md": "1"})

    rest = world.sync(first.checkpoint)

    assert [change.external_id for change in first.changes] == ["0.md", "1.md"]
    assert list(rest.items) == ["2.md", "3.md", "4.md"]
    assert [page.is_listing for page in (first, *rest.pages)] == [True, True, True]


def test_after_a_listing_that_went_on_the_next_sync_compares(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.connectors.git.PAGE_SIZE", 2)
    world.repository.commit({f"{number}.md": "1" for number in range(5)})
    begun = world.connect()
    [first] = islice(begun.list_changes(None), 1)
    begun.close()
    world.repository.commit({"0.md": "1", "later.md": "1"})

    compared = world.sync(world.sync(first.checkpoint).checkpoint)

    assert list(compared.items) == ["later.md"]
    assert compared.gone == ["1.md", "2.md", "3.md", "4.md"]


def test_a_comparison_that_broke_off_goes_on_where_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.connectors.git.PAGE_SIZE", 2)
    world.repository.commit({"z.md": "0"})
    before = world.sync()
    world.repository.commit({"z.md": "0", **{f"{number}.md": "1" for number in range(5)}})
    begun = world.connect()
    [first] = islice(begun.list_changes(before.checkpoint), 1)
    begun.close()

    rest = world.sync(first.checkpoint)

    assert list(rest.items) == ["2.md", "3.md", "4.md"]
    assert [page.is_listing for page in (first, *rest.pages)] == [False, False, False]


def test_a_listing_that_broke_off_and_lost_its_copy_is_followed_by_a_whole_one(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("retrieval.connectors.git.PAGE_SIZE", 2)
    world.repository.commit({f"{number}.md": "1" for number in range(3)})
    begun = world.connect()
    [first] = islice(begun.list_changes(None), 1)
    begun.close()
    shutil.rmtree(tmp_path / "home")
    world.repository.commit({"2.md": "1"}, parents=[])

    again = world.sync(first.checkpoint)

    assert (list(again.items), again.checkpoint) == (["2.md"], "")


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
        (b" a.md", "%20a.md", " a.md"),
    ],
)
def test_odd_names_stay_apart(world: World, path: bytes, identity: str, file_name: str) -> None:
    world.repository.commit({path: "text"})

    [item] = world.sync().items.values()

    assert (item.external_id, item.file_name) == (identity, file_name)


def test_a_long_path_is_kept_whole_as_identity_and_cut_to_be_shown(world: World) -> None:
    path = "/".join(["f" * 200] * 6) + "/a.md"
    world.repository.commit({path: "1"})

    [item] = world.sync().items.values()

    assert (item.external_id, item.path) == (path, path[:1000])


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
