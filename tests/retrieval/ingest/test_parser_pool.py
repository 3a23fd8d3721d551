"""The parser process under attack: one file suffers, the next is read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from retrieval.ingest.contract import FileToParse, ParseFailure, ParseLimits
from retrieval.ingest.parser_pool import ParserPool, WarmParser
from tests.retrieval.ingest import samples

LIMITS = ParseLimits()
ROOT = Path(__file__).resolve().parents[3]


def csv_file(text: str = "a,b\n1,2", limits: ParseLimits = LIMITS) -> FileToParse:
    return FileToParse(text.encode(), "csv", "a.csv", None, limits)


def slow_file(seconds: float) -> FileToParse:
    content = b"BT /F 12 Tf\n" + b"1 0 0 1 5 5 Tm (word) Tj\n" * 100_000 + b"ET"
    data = samples.pdf(content=content).replace(b"/Kids[4 0 R]", b"/Kids[" + b"4 0 R " * 99 + b"]")
    return FileToParse(data, "pdf", "a.pdf", None, ParseLimits(seconds=seconds))


def is_alive(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while is_alive(pid):
        assert time.monotonic() < deadline, "the parser process still runs"
        time.sleep(0.02)


@pytest.fixture
def parser() -> Iterator[WarmParser]:
    parser = WarmParser()
    yield parser
    parser.close()


def test_one_process_reads_many_files(parser: WarmParser) -> None:
    parser.parse(csv_file())
    first = parser.pid
    parser.parse(csv_file())

    assert parser.pid == first


def test_a_process_is_replaced_after_its_share_of_files() -> None:
    parser = WarmParser(files_per_process=2)
    pids = []
    for _ in range(3):
        parser.parse(csv_file())
        pids.append(parser.pid)
    parser.close()

    assert pids[0] == pids[1] != pids[2]


def test_a_file_that_takes_too_long_is_given_up_and_the_next_is_read(parser: WarmParser) -> None:
    parser.parse(csv_file())
    slow = slow_file(seconds=0.5)
    first = parser.pid

    with pytest.raises(ParseFailure) as caught:
        parser.parse(slow)

    assert caught.value.code == "timed_out"
    assert parser.parse(csv_file()).blocks[0].kind == "table"
    assert parser.pid != first


def test_a_crash_costs_one_file(parser: WarmParser) -> None:
    parser.parse(csv_file())
    pid = parser.pid
    assert pid is not None
    slow = slow_file(seconds=30)
    threading.Timer(0.5, os.kill, (pid, signal.SIGSEGV)).start()

    with pytest.raises(ParseFailure) as caught:
        parser.parse(slow)

    assert caught.value.code == "corrupt"
    assert parser.parse(csv_file()).blocks[0].kind == "table"


def test_a_process_that_died_between_files_is_replaced_silently(parser: WarmParser) -> None:
    parser.parse(csv_file())
    pid = parser.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until_gone(pid)

    assert parser.parse(csv_file()).blocks[0].kind == "table"


def test_a_file_that_needs_too_much_memory_is_too_large() -> None:
    parser = WarmParser(memory_bytes=200 * 1024 * 1024)
    huge = csv_file("a,b\n" + "1,2\n" * 8_000_000)

    with pytest.raises(ParseFailure) as caught:
        parser.parse(huge)

    assert caught.value.code == "too_large"
    assert parser.pid is None
    assert parser.parse(csv_file()).blocks[0].kind == "table"
    parser.close()


def test_the_process_sees_no_secret_and_may_not_write_files(
    parser: WarmParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAIZEN_SECRET_KEY", "do-not-leak")
    parser.parse(csv_file())

    environment = Path(f"/proc/{parser.pid}/environ").read_bytes().rstrip(b"\0").split(b"\0")
    limits = Path(f"/proc/{parser.pid}/limits").read_text()

    assert [entry.partition(b"=")[0] for entry in environment] == [b"PATH"]
    assert "Max file size             0                    0" in limits
    assert "Max address space         1610612736           1610612736" in limits


def test_the_process_has_no_django() -> None:
    script = (
        "import sys; sys.modules['django'] = None; import retrieval.ingest.parser_process as p\n"
        "from importlib import import_module\n"
        "names = [module for module, _ in p._READERS.values()]\n"
        "names += [f'formats.{name}' for name in ('docx', 'pptx', 'xlsx')]\n"
        "for name in names: import_module(f'retrieval.ingest.{name}')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT, env={"PATH": "/usr/bin"})


def test_the_process_dies_with_its_parent() -> None:
    script = (
        "from retrieval.ingest.parser_pool import parser_pool\n"
        "from tests.retrieval.ingest.test_parser_pool import csv_file\n"
        "import time; pool = parser_pool(); pool.parse(csv_file())\n"
        "print(pool._all[0].pid, flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.kill()
    wait_until_gone(pid)


def test_the_process_outlives_the_thread_that_asked_first(parser: WarmParser) -> None:
    thread = threading.Thread(target=parser.parse, args=(csv_file(),))
    thread.start()
    thread.join()
    pid = parser.pid
    time.sleep(0.1)
    parser.parse(csv_file())

    assert parser.pid == pid


def test_threads_share_a_pool() -> None:
    pool = ParserPool(size=2)
    with ThreadPoolExecutor(8) as threads:
        texts = [f"a,b\n{at},x" for at in range(40)]
        drafts = list(threads.map(lambda text: pool.parse(csv_file(text)), texts))
    pool.close()

    found = [draft.blocks[0].text.split("\n")[2] for draft in drafts]
    assert found == [f"| {at} | x |" for at in range(40)]
