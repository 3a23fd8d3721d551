"""`import_folder`: the source holds what the folder holds, however often it runs."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from accounts.models import Organization, Role
from accounts.permissions import Verb
from retrieval.acl import visible_documents, visible_sources
from retrieval.documents import upload
from retrieval.models import Document, DocumentVersion, Source
from tests import factories
from tests.retrieval.conftest import Library


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files that can be read, one that can't, and some that aren't looked at."""
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "a.md").write_text("---\ntitle: The first page\n---\n\nText of a.")
    (tmp_path / "deep" / "b.md").write_text("# The second page\n\nText of b.")
    (tmp_path / "deep" / "er" / "c.txt").write_text("Text of c.")
    (tmp_path / "empty.md").write_text("")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / ".hidden.md").write_text("Hidden.")
    return tmp_path


def run(folder: Path, organization: Organization, *options: str, source: str = "Folder") -> str:
    """Run the command; returns what it wrote."""
    out = StringIO()
    call_command(
        "import_folder",
        str(folder),
        f"--organization={organization.slug}",
        f"--source={source}",
        *options,
        stdout=out,
    )
    return out.getvalue()


def first_line(written: str) -> str:
    """The counts of the summary, without passages and time."""
    lines = [line for line in written.splitlines() if line and not line.startswith(" ")]
    return lines[-1].partition(";")[0]


def living(library: Library) -> dict[str, str]:
    """Title and path of every document of the imported source."""
    rows = Document.objects.filter(
        source__name="Folder", organization=library.organization, deleted_at=None
    )
    return {row.path: row.title for row in rows}


def test_a_folder_becomes_a_source(library: Library, folder: Path) -> None:
    written = run(folder, library.organization)
    assert first_line(written) == "3 read, 0 unchanged, 1 failed, 0 deleted"
    assert "  empty.md: The file is empty." in written
    assert living(library) == {
        "a.md": "The first page",
        "deep/b.md": "The second page",
        "deep/er/c.txt": "c",
        "empty.md": "empty",
    }
    assert visible_sources(library.as_owner, Verb.MANAGE).filter(name="Folder").exists()
    assert not visible_sources(library.as_member).exists()


def test_a_second_run_changes_nothing(library: Library, folder: Path) -> None:
    run(folder, library.organization)
    versions = set(DocumentVersion.objects.values_list("pk", flat=True))
    written = run(folder, library.organization)
    assert first_line(written) == "0 read, 3 unchanged, 1 failed, 0 deleted"
    assert set(DocumentVersion.objects.values_list("pk", flat=True)) == versions


def test_changed_files_are_replaced_and_missing_ones_deleted(
    library: Library, folder: Path
) -> None:
    run(folder, library.organization)
    (folder / "a.md").write_text("# Changed\n\nOther text.")
    (folder / "deep" / "b.md").unlink()
    source = Source.objects.get(organization=library.organization, name="Folder")
    upload(library.as_owner, source=source, file_name="by-hand.md", data=b"Stays.")
    assert first_line(run(folder, library.organization)) == (
        "1 read, 1 unchanged, 1 failed, 1 deleted"
    )
    assert living(library) == {
        "a.md": "Changed",
        "deep/er/c.txt": "c",
        "empty.md": "empty",
        "": "by-hand",
    }


def test_everyone_may_see_it_when_asked(library: Library, folder: Path) -> None:
    run(folder, library.organization, "--everyone")
    assert visible_documents(library.as_member).count() == 4


def test_it_acts_as_the_named_member(library: Library, folder: Path) -> None:
    admin = factories.make_member(library.organization, role=Role.ADMIN)
    run(folder, library.organization, f"--as={admin.user.email}")
    assert visible_documents(factories.authority_of(admin)).count() == 4
    assert not visible_sources(library.as_owner).filter(name="Folder").exists()


@pytest.mark.parametrize("email", ["{member}", "nobody@example.org"])
def test_it_has_no_more_rights_than_that_member(library: Library, folder: Path, email: str) -> None:
    with pytest.raises(CommandError):
        run(folder, library.organization, f"--as={email.format(member=library.member.user.email)}")
    assert living(library) == {}


def test_a_folder_of_which_nothing_can_be_read_is_an_error(
    library: Library, tmp_path: Path
) -> None:
    (tmp_path / "empty.md").write_text(" ")
    with pytest.raises(CommandError, match="Nothing could be read"):
        run(tmp_path, library.organization)
    with pytest.raises(CommandError, match="There is no folder"):
        run(tmp_path / "none", library.organization)


def test_links_out_of_the_folder_are_not_followed(library: Library, folder: Path) -> None:
    outside = folder.parent / "outside.md"
    outside.write_text("Secret.")
    (folder / "link.md").symlink_to(outside)
    run(folder, library.organization)
    assert "link.md" not in living(library)
