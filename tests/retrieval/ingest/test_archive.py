"""Archives in the parser process: what comes out, and what stays inside and why."""

from __future__ import annotations

import tarfile

import pytest

from retrieval.ingest.contract import ArchiveFound, ParseFailure, ParseLimits
from retrieval.ingest.parse import Entry, parse, unpack
from retrieval.ingest.parser_pool import ParserPool
from tests.retrieval.ingest import archives, samples

WORDS = b"Some words to read."
NESTED = "It is an archive inside an archive. Unpack it and upload it by itself."
OUTSIDE = "Its path leads outside of the archive."
NO_FILE = "It is a link or a device, not a file."


def inside(data: bytes, name: str = "a.zip", **limits: int) -> dict[str, str]:
    """Path -> text of what was taken, or the reason why not."""
    return {
        found.path: found.data.decode("latin-1") if isinstance(found, Entry) else found.reason
        for found in unpack(data, name=name, limits=ParseLimits(**limits))
    }


def failure(data: bytes, name: str = "a.zip", **limits: int) -> ParseFailure:
    with pytest.raises(ParseFailure) as caught:
        inside(data, name, **limits)
    return caught.value


TAR = archives.tarred({"notes/one.txt": WORDS, "./two.md": b"# Two"})


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (archives.zipped({"notes/one.txt": WORDS, "two.md": b"# Two"}), "a.zip"),
        (TAR, "a.tar"),
        (archives.gzipped(TAR), "a.tar.gz"),
        (archives.gzipped(TAR), "a.tgz"),
    ],
)
def test_the_content_makes_an_archive_and_its_files_keep_their_paths(
    data: bytes, name: str
) -> None:
    for shown_as in (name, "file", "a.docx"):
        with pytest.raises(ArchiveFound):
            parse(data, name=shown_as)
    assert inside(data, name) == {"notes/one.txt": WORDS.decode(), "two.md": "# Two"}


def test_office_files_are_documents_not_archives() -> None:
    assert parse(samples.docx(), name="a.zip").title == "Travel rules"
    assert failure(samples.docx()).code == "unsupported"


@pytest.mark.parametrize("mark", ["mimetype", "META-INF/MANIFEST.MF", "AndroidManifest.xml"])
def test_packages_of_other_programs_are_not_taken_apart(mark: str) -> None:
    with pytest.raises(ParseFailure, match="unsupported"):
        parse(archives.zipped({mark: b"x", "a.txt": WORDS}), name="a.zip")


def test_what_is_compressed_and_no_archive_is_refused() -> None:
    with pytest.raises(ParseFailure, match="unsupported"):
        parse(archives.gzipped(WORDS), name="a.txt.gz")


@pytest.mark.parametrize(
    "path",
    ["../up.txt", "a/../../up.txt", "/etc/up.txt", "C:\\up.txt", "..\\up.txt", "a/.. /b.txt"],
)
def test_paths_that_lead_outside_are_refused_one_by_one(path: str) -> None:
    for data, name in (
        (archives.zipped({path: WORDS, "fine.txt": WORDS}), "a.zip"),
        (archives.tarred({path: WORDS, "fine.txt": WORDS}), "a.tar"),
    ):
        found = inside(data, name)
        assert found.pop("fine.txt") == WORDS.decode()
        assert list(found.values()) == [OUTSIDE]


def test_links_and_devices_are_refused() -> None:
    assert inside(archives.zip_with_link()) == {"plain.txt": "Plain words.", "link.txt": NO_FILE}
    data = archives.tarred(
        {"plain.txt": WORDS},
        archives.tar_member("soft", tarfile.SYMTYPE, "/etc/passwd"),
        archives.tar_member("hard", tarfile.LNKTYPE, "plain.txt"),
        archives.tar_member("device", tarfile.CHRTYPE),
        archives.tar_member("pipe", tarfile.FIFOTYPE),
        archives.tar_member("folder", tarfile.DIRTYPE),
    )
    assert inside(data, "a.tar") == {
        "plain.txt": WORDS.decode(),
        "soft": NO_FILE,
        "hard": NO_FILE,
        "device": NO_FILE,
        "pipe": NO_FILE,
    }


def test_an_encrypted_entry_is_refused_by_itself() -> None:
    assert inside(archives.zip_with_password()) == {
        "open.txt": "Open words.",
        "shut.txt": "It is protected by a password.",
    }


def test_archives_inside_archives_are_refused() -> None:
    inner = archives.zipped({"deep.txt": WORDS})
    data = archives.zipped({"a.zip": inner, "b.txt": inner, "c.tar": TAR, "d.docx": samples.docx()})
    found = inside(data)
    assert (found["a.zip"], found["b.txt"], found["c.tar"]) == (NESTED, NESTED, NESTED)
    assert found["d.docx"].startswith("PK")


def test_what_nobody_can_read_is_refused_with_its_reason() -> None:
    data = archives.zipped(
        {"p.png": samples.PNG, "e.txt": b" \n", "m.md": samples.PNG, "x.md": WORDS}
    )
    assert inside(data) == {
        "p.png": "This file is a PNG image, which can't be read.",
        "e.txt": "It is empty.",
        "m.md": "The name ends in .md, but the content is a PNG image.",
        "x.md": WORDS.decode(),
    }


def test_the_same_path_twice_is_taken_once() -> None:
    data = archives.tarred({"a.txt": WORDS, "./a.txt": b"Other words."})
    found = [type(entry).__name__ for entry in unpack(data, name="a.tar")]
    assert found == ["Entry", "Refused"]


def test_litter_of_operating_systems_is_passed_over() -> None:
    data = archives.zipped({"__MACOSX/._a.txt": b"x", ".DS_Store": b"x", "a/Thumbs.db": b"x"})
    assert inside(data) == {}


def test_names_in_an_old_code_page_are_read() -> None:
    data = archives.zipped({"XXXXXXX.txt": WORDS}).replace(b"XXXXXXX", "Договор".encode("cp1251"))
    assert list(inside(data)) == ["Договор.txt"]


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (archives.zipped({f"{n}.txt": WORDS for n in range(6)}), "a.zip"),
        (archives.tarred({f"{n}.txt": WORDS for n in range(6)}), "a.tar"),
        (archives.gzipped(archives.tarred({f"{n}.txt": WORDS for n in range(6)})), "a.tgz"),
    ],
)
def test_too_many_files_give_none(data: bytes, name: str) -> None:
    found: list[object] = []
    with pytest.raises(ParseFailure) as caught:
        found.extend(unpack(data, name=name, limits=ParseLimits(max_files=5)))
    assert (caught.value.code, found) == ("too_large_unpacked", [])


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (archives.zipped({"zeros.txt": bytes(40 * 1024 * 1024)}), "a.zip"),
        (archives.gzip_bomb(40), "a.tar.gz"),
    ],
)
def test_what_inflates_is_refused_as_a_whole(data: bytes, name: str) -> None:
    assert failure(data, name).code == "too_large_unpacked"


def test_the_sum_of_what_is_unpacked_is_bounded() -> None:
    data = archives.zipped({f"{n}.txt": bytes([65 + n]) * 50_000 for n in range(10)})
    assert failure(data, max_unpacked_bytes=400_000).code == "too_large_unpacked"
    assert len(inside(data, max_unpacked_bytes=500_000)) == 10


def test_a_single_file_above_the_limit_stays_inside() -> None:
    big = bytes(range(65, 91)) * 50_000
    found = inside(archives.zipped({"big.txt": big, "a.txt": WORDS}), max_bytes=1024 * 1024)
    assert found == {"big.txt": "It is larger than 1 MB.", "a.txt": WORDS.decode()}


def test_a_size_below_the_true_one_costs_that_file() -> None:
    assert inside(archives.zip_with_false_size(3)) == {"a.txt": "It is damaged."}


def test_archives_that_break_off_are_corrupt() -> None:
    for data, name in ((TAR[:700], "a.tar"), (archives.gzipped(TAR)[:60], "a.tgz")):
        with pytest.raises((ParseFailure, ArchiveFound)):
            parse(data, name=name)
        with pytest.raises(ParseFailure, match="corrupt"):
            inside(data, name)


def test_a_reader_that_stops_in_the_middle_leaves_the_pool_usable() -> None:
    pool = ParserPool()
    data = archives.zipped({f"{n}.txt": WORDS for n in range(50)})
    found = unpack(data, name="a.zip", pool=pool)
    next(found)
    found.close()
    assert len(list(unpack(data, name="a.zip", pool=pool))) == 50
    assert parse(b"a,b\n1,2", name="a.csv", pool=pool).blocks[0].kind == "table"
    pool.close()
